//! The pool and ring that processes share, without other threads: each rule once, all of them in random order against a
//! simple model, and memory that somebody scribbles over.
//!
//! A member that dies is one whose grants and batches are forgotten, and whose number is recovered.
#![cfg(not(feature = "model"))]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod kit;
mod random;
mod rules;
mod scribble;
mod shadow;
