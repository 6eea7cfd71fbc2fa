//! A lock of this attach.

use std::fmt;
use std::io;

use super::locks::Byte;
use super::region::SharedRegion;

/// A byte that this attach has locked. Given back when it is dropped, except in a forked child, whose parent has it.
pub(super) struct Held {
    region: SharedRegion,
    byte: Byte,
}

impl SharedRegion {
    /// Locks a byte; nothing if somebody has it, this attach included.
    pub(super) fn lock(&self, byte: Byte) -> io::Result<Option<Held>> {
        Ok(self.locks().try_lock(byte)?.then(|| Held { region: self.clone(), byte }))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Err(error) = self.region.locks().unlock(self.byte) {
            tracing::warn!(byte = ?self.byte, %error, "a lock could not be given back, and is held until the process ends");
        }
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").field("byte", &self.byte).finish_non_exhaustive()
    }
}
