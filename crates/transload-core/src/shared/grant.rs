//! The right to one buffer.

/// The right to one buffer that processes share.
///
/// Not `Clone`: giving it back consumes it. One that is dropped instead stays out until its member leaves or dies.
#[derive(Debug)]
#[must_use = "a grant that is dropped is given back only when its member leaves"]
pub struct SharedGrant {
    index: u32,
}

impl SharedGrant {
    pub(super) fn new(index: u32) -> Self {
        Self { index }
    }

    /// Which buffer.
    pub fn index(&self) -> u32 {
        self.index
    }
}
