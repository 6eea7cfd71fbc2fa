//! Where the socket of a name is, and what is done to it there.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{AtFlags, FileType, Mode, chmodat, fchmod, statat, unlinkat};
use rustix::io::Errno;
use rustix::net::{SocketAddrUnix, bind, listen};
use rustix::process::geteuid;

use super::error::HandoverError;
use super::folder::{Folder, FolderLock, Missing, runtime_path};
use super::name::{LONGEST_PATH, Name};
use super::presence::Presence;
use super::socket;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 128;

/// What the files of sockets end with, in the folder of names.
pub(super) const SUFFIX: &str = ".sock";

/// Where the socket of a name is.
#[derive(Debug)]
pub(super) struct Place {
    folder: Folder,
    file: OsString,
    path: PathBuf,
}

/// The path of the socket of a name.
pub(super) fn whereabouts(name: &Name) -> PathBuf {
    match (name.path(), name.word()) {
        (Some(path), _) => path.to_owned(),
        (None, word) => runtime_path().join(format!("{}{SUFFIX}", word.unwrap_or_default())),
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
}

/// Which file a socket is bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    device: u64,
    file: u64,
}

impl Place {
    /// Where a name is; nothing if there is no such folder.
    pub(super) fn find(name: &Name) -> Result<Option<Self>, HandoverError> {
        let (path, folder) = match name.path() {
            Some(path) => (path.to_owned(), Folder::chosen(folder_of(path))?),
            None => (whereabouts(name), Folder::runtime(Missing::Leave)?),
        };
        folder.map(|folder| Self::within(folder, path)).transpose()
    }

    /// Where a name is, or will be: the user's own folder is made if it is not there.
    pub(super) fn make(name: &Name) -> Result<Self, HandoverError> {
        if name.path().is_none() {
            Folder::runtime(Missing::Make)?;
        }
        Self::find(name)?.ok_or_else(|| HandoverError::NoFolder {
            path: folder_of(&whereabouts(name)).to_owned(),
            call: "open",
            source: Errno::NOENT.into(),
        })
    }

    /// A name that is in a folder.
    pub(super) fn within(folder: Folder, path: PathBuf) -> Result<Self, HandoverError> {
        match path.as_os_str().len() {
            len if len > LONGEST_PATH => Err(HandoverError::LongPath { path, len, most: LONGEST_PATH }),
            _ => {
                // A path without a file in it is no name.
                let file = path.file_name().unwrap_or_default().to_owned();
                Ok(Self { folder, file, path })
            }
        }
    }

    pub(super) fn path(&self) -> &PathBuf {
        &self.path
    }

    pub(super) fn lock(&self, patience: Duration) -> Result<FolderLock, HandoverError> {
        self.folder.lock(patience)
    }

    pub(super) fn declare(&self) -> Result<Presence, HandoverError> {
        Presence::declare(&self.folder, &self.file)
    }

    /// Looks at who has the region, without having it.
    pub(super) fn observe(&self) -> Result<Presence, HandoverError> {
        Presence::observe(&self.folder, &self.file)
    }

    /// Whether any process has the region of this name.
    pub(super) fn has_anybody(&self) -> Result<bool, HandoverError> {
        self.observe()?.has_others()
    }

    /// Connects to whoever listens; nothing if nobody does.
    ///
    /// # Errors
    ///
    /// [`Errno::AGAIN`] inside if too many wait to be accepted.
    pub(super) fn connect(&self) -> Result<Option<OwnedFd>, HandoverError> {
        match socket::connect(&self.path) {
            Ok(socket) => Ok(Some(socket)),
            // A file that is no socket refuses as well.
            Err(Errno::CONNREFUSED) if self.is_no_socket() => {
                Err(HandoverError::NoSocket { path: self.path.clone() })
            }
            Err(Errno::NOENT | Errno::CONNREFUSED) => Ok(None),
            Err(Errno::ACCESS | Errno::PERM) => Err(self.denied()),
            Err(Errno::PROTOTYPE) => Err(HandoverError::OtherProgram { path: self.path.clone() }),
            Err(errno) => Err(HandoverError::os("connect")(errno)),
        }
    }

    fn denied(&self) -> HandoverError {
        let (owner, mode) = statat(self.folder.fd(), &self.file, AtFlags::SYMLINK_NOFOLLOW)
            .map_or((u32::MAX, 0), |stat| (stat.st_uid, stat.st_mode & 0o7777));
        HandoverError::Denied { path: self.path.clone(), uid: geteuid().as_raw(), owner, mode }
    }

    /// Listens here, in the place of whatever was here. To be called if nobody listens.
    pub(super) fn listen(&self, _lock: &FolderLock, mode: u32) -> Result<(OwnedFd, Mark), HandoverError> {
        let failed = HandoverError::os;
        let socket = socket::socket().map_err(failed("socket"))?;
        // So that the file never has another mode, not even for a moment.
        fchmod(&socket, Mode::from_raw_mode(mode)).map_err(failed("fchmod of a socket"))?;
        self.unlink()?;
        let address = SocketAddrUnix::new(&self.path).map_err(failed("bind"))?;
        bind(&socket, &address).map_err(failed("bind"))?;
        // The umask may have made it narrower. Nobody gets in before it listens.
        chmodat(self.folder.fd(), &self.file, Mode::from_raw_mode(mode), AtFlags::empty())
            .map_err(failed("chmod of a socket"))?;
        listen(&socket, BACKLOG).map_err(failed("listen"))?;
        let mark = self.mark().ok_or(Errno::NOENT).map_err(failed("stat"))?;
        Ok((socket, mark))
    }

    /// Which file is here.
    pub(super) fn mark(&self) -> Option<Mark> {
        // By the path: the folder may have been removed, and made again.
        let stat = statat(rustix::fs::CWD, &self.path, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        Some(Mark { device: stat.st_dev, file: stat.st_ino })
    }

    /// Whether something else is here. What else is wrong shows at the next call.
    fn is_no_socket(&self) -> bool {
        statat(self.folder.fd(), &self.file, AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) != FileType::Socket)
    }

    /// Removes the socket that is here. Nothing else is ever removed.
    fn unlink(&self) -> Result<(), HandoverError> {
        if self.is_no_socket() {
            return Err(HandoverError::NoSocket { path: self.path.clone() });
        }
        match unlinkat(self.folder.fd(), &self.file, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(HandoverError::os("unlink of a stale socket")(errno)),
        }
    }

    /// Removes the name if nobody but whoever asks has its region; says whether it did.
    pub(super) fn remove_if_stale(
        &self,
        presence: &Presence,
        patience: Duration,
    ) -> Result<bool, HandoverError> {
        let _lock = self.lock(patience)?;
        let is_stale = self.mark().is_some() && !presence.has_others()? && self.connect()?.is_none();
        if is_stale {
            self.unlink()?;
        }
        Ok(is_stale)
    }
}
