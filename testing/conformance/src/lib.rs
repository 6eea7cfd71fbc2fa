//! One suite per trait of transload.
