//! The folder that names are in, and its lock.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{
    AtFlags, FileType, FlockOperation, Mode, OFlags, Stat, flock, fstat, major, minor, mkdir, open, openat,
    statat,
};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::error::{FolderFault, HandoverError};

/// How often a lock is tried.
const TURN: Duration = Duration::from_millis(5);

/// A folder whose names nobody else can change.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    fd: OwnedFd,
}

/// Whether a folder that is not there is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    Make,
    Leave,
}

impl Folder {
    /// The user's own. Nothing if it is not there, and is not to be made.
    ///
    /// # Errors
    ///
    /// It is not the user's own, others could change it, or it cannot be made.
    pub(super) fn runtime(missing: Missing) -> Result<Option<Self>, HandoverError> {
        Self::private(runtime_path(), missing)
    }

    /// The folder of a path that the caller has chosen. Others may put names in it, but not change ours.
    pub(super) fn chosen(path: &Path) -> Result<Option<Self>, HandoverError> {
        let Some(folder) = Self::open_at(path.to_owned(), OFlags::empty())? else { return Ok(None) };
        let stat = folder.stat()?;
        let mode = Mode::from_raw_mode(stat.st_mode);
        let is_open = mode.intersects(Mode::WGRP | Mode::WOTH) && !mode.contains(Mode::SVTX);
        if is_open {
            let fix = "choose one that only its owner can write, or one with the sticky bit";
            return Err(folder.unsafe_because(FolderFault::Mode, &stat, fix));
        }
        Ok(Some(folder))
    }

    fn private(path: PathBuf, missing: Missing) -> Result<Option<Self>, HandoverError> {
        if missing == Missing::Make {
            match mkdir(&path, Mode::RWXU) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => {
                    return Err(HandoverError::NoFolder { path, call: "mkdir", source: errno.into() });
                }
            }
        }
        let Some(folder) = Self::open_at(path, OFlags::NOFOLLOW)? else { return Ok(None) };
        let stat = folder.stat()?;
        if stat.st_uid != geteuid().as_raw() {
            let fix = "set XDG_RUNTIME_DIR to a folder of your own, or have it removed";
            return Err(folder.unsafe_because(FolderFault::Owner, &stat, fix));
        }
        if Mode::from_raw_mode(stat.st_mode).intersects(Mode::RWXG | Mode::RWXO) {
            let fix = "only its owner may enter it: chmod 0700";
            return Err(folder.unsafe_because(FolderFault::Mode, &stat, fix));
        }
        Ok(Some(folder))
    }

    fn open_at(path: PathBuf, more: OFlags) -> Result<Option<Self>, HandoverError> {
        match open(&path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | more, Mode::empty()) {
            Ok(fd) => Ok(Some(Self { path, fd })),
            Err(Errno::NOENT) => Ok(None),
            Err(errno @ (Errno::LOOP | Errno::NOTDIR)) => {
                let Ok(stat) = statat(rustix::fs::CWD, &path, AtFlags::SYMLINK_NOFOLLOW) else {
                    return Err(HandoverError::NoFolder { path, call: "open", source: errno.into() });
                };
                let fault = match FileType::from_raw_mode(stat.st_mode) {
                    FileType::Symlink => FolderFault::SymbolicLink,
                    _ => FolderFault::NoFolder,
                };
                Err(unsafe_folder(
                    path,
                    fault,
                    &stat,
                    "remove it, or set XDG_RUNTIME_DIR to a folder of your own",
                ))
            }
            Err(errno) => Err(HandoverError::NoFolder { path, call: "open", source: errno.into() }),
        }
    }

    fn stat(&self) -> Result<Stat, HandoverError> {
        fstat(&self.fd).map_err(HandoverError::os("fstat"))
    }

    fn unsafe_because(&self, fault: FolderFault, stat: &Stat, fix: &'static str) -> HandoverError {
        unsafe_folder(self.path.clone(), fault, stat, fix)
    }

    pub(super) fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// An open file description of its own, for locks of its own.
    pub(super) fn reopened(&self) -> Result<OwnedFd, HandoverError> {
        openat(&self.fd, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .map_err(HandoverError::os("open the folder of names again"))
    }

    /// Waits until nobody else makes, replaces or removes a name here.
    ///
    /// # Errors
    ///
    /// Somebody else has the lock for too long; it is named.
    pub(super) fn lock(&self, patience: Duration) -> Result<FolderLock, HandoverError> {
        let fd = self.reopened()?;
        let started = Instant::now();
        loop {
            match flock(&fd, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(FolderLock { _fd: fd }),
                Err(Errno::WOULDBLOCK | Errno::INTR) if started.elapsed() < patience => thread::sleep(TURN),
                Err(Errno::WOULDBLOCK | Errno::INTR) => {
                    let holder = self.stat().ok().and_then(|stat| lock_holder(&stat));
                    return Err(HandoverError::FolderLocked {
                        path: self.path.clone(),
                        holder,
                        waited: started.elapsed(),
                    });
                }
                Err(errno) => return Err(HandoverError::os("flock")(errno)),
            }
        }
    }
}

/// The right to make, replace and remove names. It ends with this, and with the process.
#[derive(Debug)]
pub(super) struct FolderLock {
    _fd: OwnedFd,
}

fn unsafe_folder(path: PathBuf, fault: FolderFault, stat: &Stat, fix: &'static str) -> HandoverError {
    HandoverError::UnsafeFolder { path, fault, owner: stat.st_uid, mode: stat.st_mode & 0o7777, fix }
}

/// Where the user's own folder is.
pub(super) fn runtime_path() -> PathBuf {
    chosen_path(env::var_os("TRANSLOAD_RUNTIME_DIR"), env::var_os("XDG_RUNTIME_DIR"), geteuid().as_raw())
}

fn chosen_path(own: Option<OsString>, xdg: Option<OsString>, uid: u32) -> PathBuf {
    let absolute = |path: Option<OsString>| path.map(PathBuf::from).filter(|path| path.is_absolute());
    let is_private = |path: &PathBuf| {
        statat(rustix::fs::CWD, path, AtFlags::empty()).is_ok_and(|stat| {
            FileType::from_raw_mode(stat.st_mode) == FileType::Directory
                && stat.st_uid == uid
                && !Mode::from_raw_mode(stat.st_mode).intersects(Mode::WGRP | Mode::WOTH)
        })
    };
    absolute(own)
        .or_else(|| absolute(xdg).filter(is_private).map(|path| path.join("transload")))
        .unwrap_or_else(|| PathBuf::from(format!("/tmp/transload-{uid}")))
}

/// The process that holds the lock of this file, as the kernel lists it.
fn lock_holder(stat: &Stat) -> Option<u32> {
    let file = format!("{:02x}:{:02x}:{}", major(stat.st_dev), minor(stat.st_dev), stat.st_ino);
    let locks = fs::read_to_string("/proc/locks").ok()?;
    // "4: FLOCK  ADVISORY  WRITE 17096 fe:00:10011429 0 EOF"; those who wait have "->" behind the number.
    let mut holders = locks.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [_, "FLOCK", _, _, pid, of, ..] if of == file => pid.parse().ok(),
            _ => None,
        }
    });
    holders.next()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::sync::atomic::Ordering;

    use super::*;

    /// A folder of this test's own, removed at the end.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new() -> Self {
            #[expect(clippy::disallowed_types, reason = "a number for each test")]
            static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let path = env::temp_dir().join(format!("transload-folder-{}-{number}", std::process::id()));
            fs::create_dir(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn refusal(path: PathBuf) -> String {
        Folder::private(path, Missing::Make).unwrap_err().to_string()
    }

    #[test]
    fn a_folder_of_ones_own_is_made_for_oneself() {
        let scratch = Scratch::new();
        let path = scratch.0.join("own");
        assert!(Folder::private(path.clone(), Missing::Leave).unwrap().is_none());
        for _ in 0..2 {
            Folder::private(path.clone(), Missing::Make).unwrap().unwrap();
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o700);
        }
    }

    #[test]
    fn folders_that_others_can_change_are_refused_with_owner_and_mode() {
        let scratch = Scratch::new();
        let path = scratch.0.join("own");
        fs::create_dir(&path).unwrap();
        for mode in [0o777, 0o1777, 0o770, 0o750, 0o701, 0o707] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let said = refusal(path.clone());
            let uid = geteuid().as_raw();
            assert!(said.contains(&format!("owner uid {uid}, mode {mode:04o}")), "{said}");
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        assert!(
            Folder::private(path.clone(), Missing::Make).is_ok(),
            "the twin: nothing but the mode was wrong"
        );
        let link = scratch.0.join("link");
        symlink(&path, &link).unwrap();
        assert!(refusal(link.clone()).contains("is a symbolic link"));
        symlink("nowhere", scratch.0.join("loose")).unwrap();
        assert!(refusal(scratch.0.join("loose")).contains("is a symbolic link"));
        fs::write(scratch.0.join("file"), "").unwrap();
        assert!(refusal(scratch.0.join("file")).contains("is no folder"));
        if geteuid().is_root() {
            std::os::unix::fs::chown(&path, Some(65534), None).unwrap();
            let said = refusal(path);
            assert!(said.contains("belongs to somebody else (owner uid 65534, mode 0700)"), "{said}");
        }
    }

    #[test]
    fn a_chosen_folder_may_be_shared_if_names_in_it_are_safe() {
        let scratch = Scratch::new();
        for (mode, is_right) in
            [(0o755, true), (0o700, true), (0o1777, true), (0o777, false), (0o775, false), (0o1770, true)]
        {
            fs::set_permissions(&scratch.0, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(Folder::chosen(&scratch.0).is_ok(), is_right, "{mode:o}");
        }
        assert!(Folder::chosen(&scratch.0.join("none")).unwrap().is_none());
    }

    #[test]
    fn the_variables_are_taken_in_turn() {
        let (scratch, uid) = (Scratch::new(), geteuid().as_raw());
        let xdg = scratch.0.clone();
        let of = |own: Option<&str>, xdg: Option<&Path>| {
            chosen_path(own.map(Into::into), xdg.map(|path| path.as_os_str().to_owned()), uid)
        };
        let fallback = PathBuf::from(format!("/tmp/transload-{uid}"));
        fs::set_permissions(&xdg, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(of(Some("/own"), Some(&xdg)), PathBuf::from("/own"));
        assert_eq!(of(Some("relative"), Some(&xdg)), xdg.join("transload"));
        assert_eq!(of(None, Some(&xdg)), xdg.join("transload"));
        assert_eq!(of(None, None), fallback);
        assert_eq!(of(None, Some(Path::new("relative"))), fallback);
        assert_eq!(of(None, Some(&xdg.join("none"))), fallback);
        fs::set_permissions(&xdg, fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(of(None, Some(&xdg)), fallback, "others could change it");
    }

    #[test]
    fn who_holds_the_lock_is_named() {
        let scratch = Scratch::new();
        let folder = Folder::private(scratch.0.join("own"), Missing::Make).unwrap().unwrap();
        let held = folder.lock(Duration::ZERO).unwrap();
        let error = folder.lock(Duration::from_millis(20)).unwrap_err();
        assert!(
            matches!(&error, HandoverError::FolderLocked { holder: Some(pid), .. } if *pid == std::process::id()),
            "{error}"
        );
        drop(held);
        folder.lock(Duration::ZERO).unwrap();
    }
}
