//! A lease that many read.

use std::ops::Deref;
use std::sync::Arc;

use super::Lease;

/// A lease that many read: a clone is another reader, and the buffer goes back with the last.
#[derive(Clone, Debug)]
pub struct FrozenLease {
    lease: Arc<Lease>,
}

impl FrozenLease {
    pub(super) fn new(lease: Lease) -> Self {
        Self { lease: Arc::new(lease) }
    }

    /// The lease that is read.
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// The lease, to be written again, if this is its only reader.
    ///
    /// # Errors
    ///
    /// Itself, if there are others.
    pub fn thaw(self) -> Result<Lease, Self> {
        Arc::try_unwrap(self.lease).map_err(|lease| Self { lease })
    }
}

impl Deref for FrozenLease {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.lease
    }
}

impl AsRef<[u8]> for FrozenLease {
    fn as_ref(&self) -> &[u8] {
        self
    }
}
