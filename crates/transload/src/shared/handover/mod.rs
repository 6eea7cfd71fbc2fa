//! How processes find a region by its name, and hand its descriptor on.

mod name;

pub use name::{Name, NameError};
