//! The lock-free algorithms of transload, on memory that the caller provides.
#![no_std]
#![forbid(unsafe_code)]
