//! Regions with names in `/dev/shm`.
#![cfg(target_os = "linux")]

mod forking;

use std::{
    fs::{self, File},
    os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown, symlink},
    path::PathBuf,
};

use transload::{
    memory::Policy,
    shared::{SharedError, SharedRegion, SharedRegionBuilder, named_objects, unlink_named},
};

/// A name that nobody else has, and no object of it at the end.
struct Name(String);

impl Name {
    fn new(test: &str) -> Name {
        Name(format!("test-{test}-{}", std::process::id()))
    }

    fn path(&self) -> PathBuf {
        PathBuf::from(format!("/dev/shm/transload-{}", self.0))
    }

    fn create(&self) -> Result<SharedRegion, SharedError> {
        builder().create_named(&self.0, 0o600)
    }

    fn open(&self) -> Result<SharedRegion, SharedError> {
        SharedRegion::open_named(&self.0)
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.path());
    }
}

fn builder() -> SharedRegionBuilder {
    SharedRegion::builder(5, 1000)
}

fn is_foreign(result: Result<SharedRegion, SharedError>, why: &str) {
    let error = result.expect_err("foreign");
    assert!(matches!(error, SharedError::Foreign { .. }), "{error:?}");
    assert!(error.to_string().contains(why), "{error}");
}

fn is_missing(result: Result<SharedRegion, SharedError>) {
    let error = result.expect_err("missing");
    let SharedError::Os { source, .. } = error else { panic!("{error:?}") };
    assert_eq!(source.kind(), std::io::ErrorKind::NotFound);
}

#[test]
fn a_name_leads_to_the_region_until_it_is_taken_away() {
    let name = Name::new("leads");
    is_missing(name.open());
    let one = name.create().unwrap();
    let two = name.open().unwrap();
    assert_eq!(one.id(), two.id());
    assert!(!one.is_sealed() && !two.is_sealed());
    let listed: Vec<_> =
        named_objects().unwrap().into_iter().filter(|object| object.name == name.0).collect();
    let status = fs::metadata(name.path()).unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!((listed[0].owner, listed[0].bytes), (status.uid(), status.len()));
    assert_eq!(status.blocks() * 512, status.len(), "all of it is there");
    let handed_over = SharedRegion::open(one.file_for_peer().unwrap()).unwrap_err();
    assert!(matches!(handed_over, SharedError::Unsealed { .. }), "it cannot be sealed: {handed_over:?}");
    unlink_named(&name.0).unwrap();
    is_missing(name.open());
    assert!(!named_objects().unwrap().iter().any(|object| object.name == name.0));
    let error = unlink_named(&name.0).unwrap_err();
    assert!(matches!(error, SharedError::Os { .. }), "{error:?}");
    assert_eq!(one.id(), two.id());
    // The name is free again, though the first is in use.
    assert_ne!(name.create().unwrap().id(), one.id());
}

#[test]
fn what_lives_is_refused_and_what_is_dead_replaced() {
    let name = Name::new("lives");
    let first = name.create().unwrap();
    let error = name.create().unwrap_err();
    assert!(matches!(&error, SharedError::NameInUse { name: told } if *told == name.0), "{error:?}");
    let second = name.open().unwrap();
    let id = first.id();
    drop(first);
    assert!(matches!(name.create(), Err(SharedError::NameInUse { .. })), "another has it open");
    drop(second);
    assert_eq!(name.open().unwrap().id(), id, "the dead may be joined");
    let third = name.create().unwrap();
    assert_ne!(third.id(), id);
    assert_eq!(name.open().unwrap().id(), third.id());
}

#[test]
fn what_the_killed_leave_is_replaced() {
    let name = Name::new("killed");
    let status = forking::fork(|| {
        let _region = name.create().unwrap();
        // SAFETY: ends this process, with the region.
        unsafe { libc::raise(libc::SIGKILL) };
    });
    assert_eq!(status.terminating_signal(), Some(libc::SIGKILL));
    assert!(name.path().exists());
    let region = name.create().unwrap();
    assert_eq!(name.open().unwrap().id(), region.id());
}

#[test]
fn permissions_are_those_asked_for_whatever_the_umask() {
    let name = Name::new("umask");
    for umask in [0o000, 0o077, 0o777] {
        for mode in [0o600, 0o640, 0o660] {
            let before = rustix::process::umask(rustix::fs::Mode::from_raw_mode(umask));
            let region = builder().create_named(&name.0, mode);
            rustix::process::umask(before);
            let _region = region.unwrap();
            assert_eq!(fs::metadata(name.path()).unwrap().permissions().mode() & 0o7777, mode);
            name.open().unwrap();
        }
    }
    for mode in [0, 0o400, 0o602, 0o604, 0o700, 0o666, 0o4600, u32::MAX] {
        let error = builder().create_named(&name.0, mode).unwrap_err();
        assert!(matches!(error, SharedError::Permissions { .. }), "{error:?}");
    }
}

#[test]
fn names_that_cannot_be_are_refused() {
    let longest = "x".repeat(245);
    let name = Name(longest.clone());
    name.create().unwrap();
    for name in ["", "a/b", "/", "../x", "a\0b", &format!("{longest}x")] {
        for refused in [builder().create_named(name, 0o600), SharedRegion::open_named(name)] {
            let error = refused.unwrap_err();
            assert!(matches!(error, SharedError::Name { longest: 245, .. }), "{error:?}");
        }
        assert!(matches!(unlink_named(name), Err(SharedError::Name { .. })));
    }
    // Not a way out of the folder.
    let dots = Name("..".to_owned());
    dots.create().unwrap();
    assert!(dots.path().exists());
}

#[test]
fn required_huge_pages_are_refused() {
    let name = Name::new("huge");
    for builder in [
        builder().pages_2m(Policy::Require),
        builder().pages_1g(Policy::Require),
        builder().transparent_pages(Policy::Require),
    ] {
        let error = builder.create_named(&name.0, 0o600).unwrap_err();
        assert!(matches!(error, SharedError::OrdinaryPagesOnly), "{error:?}");
    }
    let region = builder().pages_2m(Policy::Prefer).create_named(&name.0, 0o600).unwrap();
    assert_eq!(region.placement().page_bytes, rustix::param::page_size());
}

#[test]
fn a_symbolic_link_is_refused_and_left() {
    let name = Name::new("link");
    let target = Name::new("target");
    let region = target.create().unwrap();
    symlink(target.path(), name.path()).unwrap();
    is_foreign(name.open(), "symbolic link");
    is_foreign(name.create(), "symbolic link");
    assert!(matches!(unlink_named(&name.0), Err(SharedError::Foreign { .. })));
    drop(region);
    is_foreign(name.create(), "symbolic link");
    assert!(name.path().is_symlink() && target.path().exists());
}

#[test]
fn what_is_no_region_is_refused_and_left() {
    let name = Name::new("other");
    for content in [&b""[..], &b"precious"[..], &vec![7; 100_000][..]] {
        fs::write(name.path(), content).unwrap();
        fs::set_permissions(name.path(), fs::Permissions::from_mode(0o600)).unwrap();
        is_foreign(name.create(), "no region");
        assert!(matches!(unlink_named(&name.0), Err(SharedError::Foreign { .. })));
        assert!(name.open().is_err());
        assert_eq!(fs::read(name.path()).unwrap(), content);
    }
    fs::remove_file(name.path()).unwrap();
    fs::create_dir(name.path()).unwrap();
    assert!(name.create().is_err() && name.open().is_err());
    fs::remove_dir(name.path()).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        name.path(),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    is_foreign(name.open(), "no file");
    is_foreign(name.create(), "no file");
}

#[test]
fn what_others_could_touch_is_refused() {
    let name = Name::new("others");
    let region = name.create().unwrap();
    let second = Name::new("second");
    fs::hard_link(name.path(), second.path()).unwrap();
    is_foreign(name.open(), "it has 2 names");
    fs::remove_file(second.path()).unwrap();
    for mode in [0o602, 0o604, 0o666, 0o700] {
        fs::set_permissions(name.path(), fs::Permissions::from_mode(mode)).unwrap();
        is_foreign(name.open(), &format!("{mode:04o}"));
    }
    fs::set_permissions(name.path(), fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(name.open().unwrap().id(), region.id());
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED what_others_could_touch_is_refused: only root can give a file to another user");
        return;
    }
    chown(name.path(), Some(65_534), None).unwrap();
    is_foreign(name.open(), "user 65534, not 0");
    drop(region);
    is_foreign(name.create(), "user 65534, not 0");
    assert!(name.path().exists());
    SharedRegion::open_named_of(&name.0, 65_534).unwrap();
    is_foreign(SharedRegion::open_named_of(&name.0, 1), "not 1");
}

#[test]
fn a_file_of_another_length_or_with_another_header_is_refused() {
    let name = Name::new("length");
    drop(name.create().unwrap());
    let file = File::options().read(true).write(true).open(name.path()).unwrap();
    let len = file.metadata().unwrap().len();
    for other in [len + 1, len - 1, 512, 511, 0] {
        file.set_len(other).unwrap();
        let error = name.open().unwrap_err();
        assert!(matches!(error, SharedError::Length { found, .. } if found == other), "{error:?}");
    }
    drop(fs::remove_file(name.path()));
    drop(name.create().unwrap());
    let file = File::options().write(true).open(name.path()).unwrap();
    file.write_all_at(&3u64.to_ne_bytes(), 16).unwrap();
    assert!(matches!(name.open(), Err(SharedError::LayoutVersion { found: 3, .. })));
    // Dead, and recognisably a region: of another version, but one that may be replaced.
    name.create().unwrap();
    name.open().unwrap();
}

/// Whoever has made or opened a region has the one that the name leads to, for as long as it has it.
#[test]
fn many_who_make_and_open_the_same_name_at_once() {
    let name = Name::new("many");
    let made: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let mut made = 0;
                    for _ in 0..100 {
                        match name.create() {
                            Ok(region) => {
                                made += 1;
                                assert_eq!(name.open().expect("it lives").id(), region.id());
                            }
                            Err(SharedError::NameInUse { .. } | SharedError::BeingMade) => {}
                            Err(error) => panic!("{error:?}"),
                        }
                        if let Ok(region) = name.open() {
                            assert_eq!(name.open().expect("it lives").id(), region.id());
                        }
                    }
                    made
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("no failure")).sum()
    });
    assert!(made > 0);
    assert_eq!(fs::metadata(name.path()).unwrap().nlink(), 1);
}
