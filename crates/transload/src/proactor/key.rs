//! What an operation is known by.

/// A place in the table, and which operation there: a late completion never meets a later operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key {
    pub(super) index: u32,
    pub(super) generation: u32,
}
