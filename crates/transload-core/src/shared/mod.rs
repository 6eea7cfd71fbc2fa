//! A pool and a ring that processes share.

mod word;

pub use word::{FutexWord, SharedWord};
