//! The file of a Unix socket.

use std::fs::Metadata;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, fchmod};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, socket_with};

use crate::failure::Failure;

/// Whom a socket file is for: its owner.
const MODE: u32 = 0o600;

/// A socket file of ours; removed when this is dropped, unless another has taken its place.
#[derive(Debug)]
pub(in crate::pump) struct SocketFile {
    path: PathBuf,
    /// Device and number of the file.
    identity: (u64, u64),
}

impl SocketFile {
    /// Binds a new socket to a path. A file that a listener has left behind is replaced, nothing else is.
    pub(super) fn bind(path: &Path) -> Result<(OwnedFd, Self), Failure> {
        let refused = |error: io::Error| {
            Failure::new("source", format!("cannot listen on unix:{}: {error}", path.display()))
        };
        let address = SocketAddrUnix::new(path).map_err(|error| refused(error.into()))?;
        let socket = new_socket().map_err(|error| refused(error.into()))?;
        // On Linux the file gets the socket's own mode, less the mask: there is no moment in which others may connect.
        let own_mode = fchmod(&socket, Mode::from_raw_mode(MODE));
        tracing::trace!(?own_mode, "the mode of a socket that is to be bound");
        match bind(&socket, &address) {
            Err(Errno::ADDRINUSE) => {
                make_way(path, &address)?;
                bind(&socket, &address).map_err(|error| refused(error.into()).fix(IN_USE))?;
            }
            Err(error) => {
                return Err(refused(error.into()).fix("name a file in a folder that you may write"));
            }
            Ok(()) => {}
        }
        let metadata = path.symlink_metadata().map_err(refused)?;
        if metadata.permissions().mode() & 0o777 != MODE {
            // A mask that takes rights from the owner too; or a system that gives files other modes.
            std::fs::set_permissions(path, PermissionsExt::from_mode(MODE)).map_err(refused)?;
        }
        Ok((socket, Self { path: path.to_owned(), identity: identity(&metadata) }))
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let is_ours = self.path.symlink_metadata().is_ok_and(|found| identity(&found) == self.identity);
        if is_ours {
            // If it cannot be removed, the next to listen there replaces it.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

const IN_USE: &str = "choose another path, or end who listens there";

fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

fn new_socket() -> Result<OwnedFd, Errno> {
    socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
}

/// Removes a socket file on which nobody listens.
fn make_way(path: &Path, address: &SocketAddrUnix) -> Result<(), Failure> {
    let there = |what: &str| Failure::new("source", format!("unix:{} is in use: {what}", path.display()));
    let metadata = path.symlink_metadata();
    if !metadata.is_ok_and(|metadata| metadata.file_type().is_socket()) {
        return Err(there("there is a file that is no socket")
            .fix("choose another path, or remove the file if it is not needed"));
    }
    let probe = new_socket().map_err(|error| there(&io::Error::from(error).to_string()))?;
    // A listener whose queue is full must not make us wait.
    let _ = rustix::io::ioctl_fionbio(probe.as_fd(), true);
    match connect(&probe, address) {
        Err(Errno::CONNREFUSED) => std::fs::remove_file(path)
            .map_err(|error| there(&format!("nobody listens, and the file cannot be removed: {error}"))),
        Ok(()) | Err(Errno::AGAIN) => Err(there("somebody listens there").fix(IN_USE)),
        Err(error) => {
            Err(there(&format!("somebody may listen there ({})", io::Error::from(error))).fix(IN_USE))
        }
    }
}
