//! Regions with a name in `/dev/shm`, for those who cannot hand a descriptor over.
//!
//! Such an object cannot be sealed: whoever may write it may also cut it off, and then the next touch ends every process
//! that uses it (SIGBUS). And unlike a file without a name it stays when everybody is dead, until the next who makes a
//! region of that name, or until [`unlink_named`].
//!
//! An object appears whole, under its name, in one step (`O_TMPFILE`, then `linkat`), so nobody ever finds a half-made
//! one. It is taken away by who holds its name's lock only, after having looked that it still has that name: so what is
//! taken away is what was looked at.

use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    path::Path,
    time::Duration,
};

use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags, Stat},
    io::Errno,
};

use super::{
    error::SharedError,
    geometry::Geometry,
    header::Header,
    locks::{Locks, reopen},
    region::SharedRegion,
    storage::{fill, map},
};
use crate::memory::{Policy, Recipe, SlabError, Store};

/// Where named objects are.
const FOLDER: &str = "/dev/shm";
/// What the names of all our objects begin with there.
const PREFIX: &str = "transload-";
/// The longest name of a file.
const LONGEST_NAME: usize = 255 - PREFIX.len();
/// The permissions that an object may have: nobody but its user and its group may touch it.
const PERMISSIONS: u32 = 0o660;
/// How often a name is looked at again that changes while it is looked at, with a millisecond in between.
const TRIES: u32 = 200;

/// A named object, as [`named_objects`] finds it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NamedObject {
    /// Its name, without what all begin with.
    pub name: String,
    /// The number of the user that it belongs to.
    pub owner: u32,
    /// How long it is, in bytes.
    pub bytes: u64,
}

/// The objects in `/dev/shm` that are called as regions are, by name. Whether they are regions is not looked at.
///
/// # Errors
///
/// Where `/dev/shm` cannot be read.
///
/// # Examples
///
/// ```
/// for object in transload::shared::named_objects()? {
///     println!("{} of user {}: {} bytes", object.name, object.owner, object.bytes);
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn named_objects() -> io::Result<Vec<NamedObject>> {
    use std::os::unix::fs::MetadataExt;
    let mut objects = Vec::new();
    for entry in std::fs::read_dir(FOLDER)? {
        let entry = entry?;
        let file_name = entry.file_name();
        let Some(name) = file_name.to_str().and_then(|name| name.strip_prefix(PREFIX)) else { continue };
        // One that is gone by now is none.
        let Ok(status) = entry.metadata() else { continue };
        if status.is_file() {
            objects.push(NamedObject { name: name.to_owned(), owner: status.uid(), bytes: status.len() });
        }
    }
    objects.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(objects)
}

/// Takes a name away. Those who have the region open keep it; nobody else can open it any more.
///
/// # Errors
///
/// [`SharedError::Name`] for what cannot be a name; [`SharedError::Foreign`] for what is no region of this user;
/// [`SharedError::Os`], with `ENOENT` where there is none.
pub fn unlink_named(name: &str) -> Result<(), SharedError> {
    Folder::system()?.unlink(&file_name(name)?)
}

/// Takes a name away if nobody has its region open any more.
///
/// # Errors
///
/// [`SharedError::NameInUse`] if somebody has; else as [`unlink_named`], but a name that is not there is none.
pub fn unlink_dead_named(name: &str) -> Result<(), SharedError> {
    Folder::system()?.remove_dead(&file_name(name)?)
}

/// Makes a region with a name.
pub(super) fn create(
    name: &str,
    mode: u32,
    geometry: Geometry,
    recipe: &Recipe,
) -> Result<SharedRegion, SharedError> {
    Folder::system()?.create(&file_name(name)?, mode, geometry, recipe)
}

/// Opens the region of a name, of that user.
pub(super) fn open(name: &str, owner: u32) -> Result<SharedRegion, SharedError> {
    Folder::system()?.open(&file_name(name)?, owner)
}

/// This process's user.
pub(super) fn this_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn file_name(name: &str) -> Result<String, SharedError> {
    if name.is_empty() || name.len() > LONGEST_NAME || name.contains(['/', '\0']) {
        return Err(SharedError::Name { name: name.to_owned(), longest: LONGEST_NAME });
    }
    Ok(format!("{PREFIX}{name}"))
}

struct Folder(OwnedFd);

impl Folder {
    fn system() -> Result<Folder, SharedError> {
        Folder::at(Path::new(FOLDER))
    }

    fn at(path: &Path) -> Result<Folder, SharedError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::open(path, flags, Mode::empty()).map(Folder).map_err(SharedError::os("open(/dev/shm)"))
    }

    fn create(
        &self,
        name: &str,
        mode: u32,
        geometry: Geometry,
        recipe: &Recipe,
    ) -> Result<SharedRegion, SharedError> {
        if mode & !PERMISSIONS != 0 || mode & 0o600 != 0o600 {
            return Err(SharedError::Permissions { mode });
        }
        let wishes = [recipe.transparent, recipe.pages_2m, recipe.pages_1g];
        if wishes.contains(&Policy::Require) {
            return Err(SharedError::OrdinaryPagesOnly);
        }
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.0, ".", flags, Mode::RUSR | Mode::WUSR)
            .map_err(SharedError::os("open(O_TMPFILE)"))?;
        let (parts, _) = fill(geometry, recipe, Store::File(file.as_fd()))
            .map_err(|error| no_room(error, file.as_fd()))?;
        // Not the umask's business.
        rustix::fs::fchmod(&file, Mode::from_raw_mode(mode)).map_err(SharedError::os("fchmod"))?;
        // The mapping has the description that it was made with. Attached before others can find it.
        let again = reopen(file.as_fd()).map_err(SharedError::os("open(/proc/self/fd)"))?;
        let locks = Locks::attach(again)?.ok_or(SharedError::BeingMade)?;
        for _ in 0..TRIES {
            match self.link(file.as_fd(), name) {
                Ok(()) => return Ok(SharedRegion::new(parts, locks, false)),
                Err(Errno::EXIST) => self.remove_dead(name)?,
                Err(error) => return Err(SharedError::os("linkat")(error)),
            }
        }
        Err(SharedError::BeingMade)
    }

    fn link(&self, file: BorrowedFd<'_>, name: &str) -> Result<(), Errno> {
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        rustix::fs::linkat(rustix::fs::CWD, path, &self.0, name, AtFlags::SYMLINK_FOLLOW)
    }

    /// Takes the name away from a region that nobody has open. Returns without having done so if it changed meanwhile.
    fn remove_dead(&self, name: &str) -> Result<(), SharedError> {
        let Some((file, _)) = self.look(name, this_user())? else { return Ok(()) };
        if !Header::is_in_file(file.as_fd()) {
            return Err(foreign(name, "it is no region".to_owned()));
        }
        let in_use = || SharedError::NameInUse { name: shown(name) };
        let locks = Locks::make(file)?.ok_or_else(in_use)?;
        self.remove(name, &locks)
    }

    fn unlink(&self, name: &str) -> Result<(), SharedError> {
        for _ in 0..TRIES {
            let Some((file, status)) = self.look(name, this_user())? else {
                return Err(SharedError::os("open")(Errno::NOENT));
            };
            if !Header::is_in_file(file.as_fd()) {
                return Err(foreign(name, "it is no region".to_owned()));
            }
            let locks = Locks::attach(file)?;
            if let Some(locks) = locks {
                self.remove(name, &locks)?;
            }
            match rustix::fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(now) if is_same(&now, &status) => pause(),
                Ok(_) | Err(Errno::NOENT) => return Ok(()),
                Err(error) => return Err(SharedError::os("stat")(error)),
            }
        }
        Err(SharedError::BeingMade)
    }

    /// Takes the name away from this file, if it still has it, and nobody else is about to do so.
    fn remove(&self, name: &str, locks: &Locks) -> Result<(), SharedError> {
        if !locks.claim_name().map_err(SharedError::os("fcntl(F_OFD_SETLK)"))? {
            pause();
            return Ok(());
        }
        let mine = rustix::fs::fstat(locks.file()).map_err(SharedError::os("fstat"))?;
        match rustix::fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW) {
            // Whoever takes a name away from this file holds the same lock, so this one cannot be lost in between.
            Ok(now) if is_same(&now, &mine) => {
                rustix::fs::unlinkat(&self.0, name, AtFlags::empty()).map_err(SharedError::os("unlink"))
            }
            Ok(_) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(SharedError::os("stat")(error)),
        }
    }

    fn open(&self, name: &str, owner: u32) -> Result<SharedRegion, SharedError> {
        for _ in 0..TRIES {
            // The mapping keeps its description, so that has to be another one than that of the locks.
            let (Some(to_lock), Some(to_map)) = (self.look(name, owner)?, self.look(name, owner)?) else {
                return Err(SharedError::os("open")(Errno::NOENT));
            };
            match attach(to_lock, to_map)? {
                Some(region) => return Ok(region),
                None => pause(),
            }
        }
        Err(SharedError::BeingMade)
    }

    /// Opens what has the name, if that is a file of the right user with the right permissions and no other name.
    /// `None` if there is none.
    fn look(&self, name: &str, owner: u32) -> Result<Option<(OwnedFd, Stat)>, SharedError> {
        // Without blocking, in case that it is a pipe.
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = match rustix::fs::openat(&self.0, name, flags, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP) => return Err(foreign(name, "it is a symbolic link".to_owned())),
            Err(error) => return Err(SharedError::os("open")(error)),
        };
        let status = rustix::fs::fstat(&file).map_err(SharedError::os("fstat"))?;
        let permissions = status.st_mode & 0o7777;
        if FileType::from_raw_mode(status.st_mode) != FileType::RegularFile {
            return Err(foreign(name, "it is no file".to_owned()));
        }
        if status.st_uid != owner {
            return Err(foreign(name, format!("it belongs to user {}, not {owner}", status.st_uid)));
        }
        if permissions & !PERMISSIONS != 0 {
            let text = format!("its permissions are {permissions:04o}, and may be {PERMISSIONS:04o} at most");
            return Err(foreign(name, text));
        }
        if status.st_nlink > 1 {
            return Err(foreign(name, format!("it has {} names", status.st_nlink)));
        }
        Ok(Some((file, status)))
    }
}

/// Opens the region of a file that was looked at twice; `None` if it has lost its name since, or is losing it.
fn attach(to_lock: (OwnedFd, Stat), to_map: (OwnedFd, Stat)) -> Result<Option<SharedRegion>, SharedError> {
    let Some(locks) = Locks::attach(to_lock.0)? else { return Ok(None) };
    // Looked at after the lock: from now on nobody takes it for dead, but it may have been before.
    let now = rustix::fs::fstat(locks.file()).map_err(SharedError::os("fstat"))?;
    if !is_same(&now, &to_map.1) || now.st_nlink == 0 {
        return Ok(None);
    }
    Ok(Some(SharedRegion::new(map(to_map.0.as_fd())?, locks, false)))
}

fn is_same(one: &Stat, other: &Stat) -> bool {
    (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
}

fn pause() {
    std::thread::sleep(Duration::from_millis(1));
}

/// The name as people give it.
fn shown(name: &str) -> String {
    name.strip_prefix(PREFIX).unwrap_or(name).to_owned()
}

fn foreign(name: &str, reason: String) -> SharedError {
    SharedError::Foreign { name: shown(name), reason }
}

/// The numbers, where the reason is a file system that is too small.
fn no_room(error: SharedError, file: BorrowedFd<'_>) -> SharedError {
    let SharedError::Memory(SlabError::Os { source, bytes, .. }) = &error else { return error };
    let is_full = source.raw_os_error() == Some(Errno::NOSPC.raw_os_error());
    let Some(system) = rustix::fs::fstatvfs(file).ok().filter(|_| is_full) else { return error };
    let free_bytes = system.f_bavail.saturating_mul(system.f_frsize);
    SharedError::NoRoom { wanted_bytes: *bytes as u64, free_bytes }
}

#[cfg(test)]
mod tests {
    use std::{path::PathBuf, process::Command};

    use super::*;

    /// A file system in memory of that many KiB, unmounted at the end.
    struct Small(PathBuf);

    impl Small {
        fn new(test: &str, kib: u32) -> Option<Small> {
            let path = std::env::temp_dir().join(format!("transload-small-{}", std::process::id()));
            std::fs::create_dir(&path).unwrap();
            let mut mount = Command::new("mount");
            mount.args(["-t", "tmpfs", "-o", &format!("size={kib}k"), "transload-test"]).arg(&path);
            if mount.status().is_ok_and(|status| status.success()) {
                return Some(Small(path));
            }
            std::fs::remove_dir(path).unwrap();
            eprintln!("SKIPPED {test}: needs root and mount (util-linux)");
            None
        }
    }

    impl Drop for Small {
        fn drop(&mut self) {
            let status = Command::new("umount").arg(&self.0).status();
            assert!(status.is_ok_and(|status| status.success()), "unmounted");
            std::fs::remove_dir(&self.0).unwrap();
        }
    }

    #[test]
    fn a_full_file_system_is_an_error_and_no_signal() {
        let Some(small) = Small::new("a_full_file_system_is_an_error_and_no_signal", 256) else { return };
        let folder = Folder::at(&small.0).unwrap();
        let recipe = Recipe::default();
        let create = |name, buffer_count| {
            folder.create(name, 0o600, Geometry::new(buffer_count, 65_536, None, None).unwrap(), &recipe)
        };
        let error = create("transload-large", 4).unwrap_err();
        let SharedError::NoRoom { wanted_bytes, free_bytes } = error else { panic!("{error:?}") };
        assert_eq!(wanted_bytes, 5 * 65_536);
        assert!(free_bytes <= 256 << 10, "{error}");
        // Three fit exactly, and all of their bytes are there.
        let region = create("transload-fits", 3).unwrap();
        for index in 0..3 {
            for page in 0..16 {
                // SAFETY: within a buffer of a region that only this test has; by a copy.
                unsafe { region.address(index).wrapping_add(page * 4096).write_volatile(1) };
            }
        }
        assert!(matches!(create("transload-none", 1), Err(SharedError::NoRoom { .. })));
        assert_eq!(folder.open("transload-fits", this_user()).unwrap().id(), region.id());
    }

    /// A file that is longer than its file system: without its pages, the first touch of one would end this process.
    #[test]
    fn a_hollow_object_is_an_error_and_no_signal() {
        let Some(small) = Small::new("a_hollow_object_is_an_error_and_no_signal", 1024) else { return };
        let folder = Folder::at(&small.0).unwrap();
        let geometry = Geometry::new(4, 65_536, None, None).unwrap();
        drop(folder.create("transload-hollow", 0o600, geometry, &Recipe::default()).unwrap());
        let path = small.0.join("transload-hollow");
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        let len = file.metadata().unwrap().len();
        file.set_len(4096).unwrap();
        file.set_len(len).unwrap();
        std::fs::write(small.0.join("filler"), vec![1; 800 << 10]).unwrap();
        let error = folder.open("transload-hollow", this_user()).unwrap_err();
        assert!(matches!(error, SharedError::Memory(SlabError::Os { .. })), "{error:?}");
        std::fs::remove_file(small.0.join("filler")).unwrap();
        folder.open("transload-hollow", this_user()).unwrap();
    }

    /// The events of a race, in the order that does harm.
    #[test]
    fn what_is_replaced_between_a_look_and_the_next_step_is_noticed() {
        let (name, user) = (format!("{PREFIX}race-{}", std::process::id()), this_user());
        let folder = Folder::system().unwrap();
        let make = || {
            let geometry = Geometry::new(1, 1, None, None).unwrap();
            folder.create(&name, 0o600, geometry, &Recipe::default()).unwrap()
        };
        let look = || folder.look(&name, user).unwrap().unwrap();
        drop(make());
        let old = [0; 6].map(|_| look());
        let [to_lock, to_map, to_remove, to_mix, claimed, _] = old;
        let claimed = Locks::attach(claimed.0).unwrap().unwrap();
        let to_remove = Locks::attach(to_remove.0).unwrap().unwrap();

        // Two at once do not take a name away: the second might take away what has come in its place.
        assert!(claimed.claim_name().unwrap());
        folder.remove(&name, &to_remove).unwrap();
        assert!(is_same(&look().1, &to_lock.1), "taken away without the right to it");
        drop(claimed);
        folder.remove(&name, &to_remove).unwrap();
        assert!(folder.look(&name, user).unwrap().is_none());
        drop(to_remove);

        let new = make();
        let late = Locks::attach(to_mix.0).unwrap().unwrap();
        folder.remove(&name, &late).unwrap();
        assert_eq!(
            folder.open(&name, user).unwrap().id(),
            new.id(),
            "the new one was taken away for the old"
        );
        assert!(attach(look(), to_map).unwrap().is_none(), "locked one, and mapped the other");
        assert!(attach(to_lock, look()).unwrap().is_none());
        folder.unlink(&name).unwrap();
    }

    #[test]
    fn what_has_lost_its_name_is_not_opened() {
        let (name, user) = (format!("{PREFIX}lost-{}", std::process::id()), this_user());
        let folder = Folder::system().unwrap();
        let geometry = Geometry::new(1, 1, None, None).unwrap();
        drop(folder.create(&name, 0o600, geometry, &Recipe::default()).unwrap());
        let [to_lock, to_map, lock_too, map_too] = [0; 4].map(|_| folder.look(&name, user).unwrap().unwrap());
        assert!(attach(to_lock, to_map).unwrap().is_some());
        folder.unlink(&name).unwrap();
        assert!(attach(lock_too, map_too).unwrap().is_none());
    }
}
