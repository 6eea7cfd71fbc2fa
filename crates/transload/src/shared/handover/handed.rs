//! What is handed over.

use std::io;
use std::os::fd::OwnedFd;

/// A region as far as handing it over goes.
pub trait Handed: Sized + Send + 'static {
    /// Why a descriptor is none of a region.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Opens what another process has handed over.
    ///
    /// # Errors
    ///
    /// The descriptor is none of a region.
    fn open(file: OwnedFd) -> Result<Self, Self::Error>;

    /// The number of the region, which no other has.
    fn id(&self) -> u64;

    /// An open file description for one peer alone.
    ///
    /// # Errors
    ///
    /// There are too many descriptors.
    fn file_for_peer(&self) -> io::Result<OwnedFd>;

    /// Takes the role of the one who serves; says whether nobody else has it.
    ///
    /// # Errors
    ///
    /// The kernel refuses.
    fn try_serve(&self) -> io::Result<bool>;

    /// Gives that role up.
    fn stop_serving(&self);
}
