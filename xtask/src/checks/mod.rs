//! The project's own checks: what neither the compiler nor clippy knows about it.
//!
//! A check is a function from the files of the checkout to findings, so that its tests can hand it broken files.

mod file_length;
mod links;
mod safety;
mod sync_labels;
mod table_of_contents;
mod words;

use crate::finding::Finding;
use crate::repository::Source;

/// A check by its name.
pub(crate) type Check = (&'static str, fn(&[Source]) -> Vec<Finding>);

/// All of them.
pub(crate) const CHECKS: [Check; 6] = [
    ("sync_labels", sync_labels::check),
    ("safety", safety::check),
    ("file_length", file_length::check),
    ("words", words::check),
    ("table_of_contents", table_of_contents::check),
    ("links", links::check),
];
