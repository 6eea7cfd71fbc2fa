use std::fs::{self, File as StdFile, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use super::*;
use crate::proactor::file::File;

/// A file that goes with the test.
struct Temporary(PathBuf);

impl Temporary {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("transload-uring-{name}-{}", std::process::id())))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn open(path: &Temporary, flags: i32) -> std::io::Result<StdFile> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).custom_flags(flags).open(&path.0)
}

fn write_and_read(name: &str, flags: i32) {
    let path = Temporary::new(name);
    let file = match open(&path, flags) {
        Ok(file) => File::from(file),
        Err(error) => {
            println!("no file with flags {flags:#x} here: {error}");
            return;
        }
    };
    let mut bench = Bench::new();
    let pool = pool(4, 4096);
    let slots = bench.backend.register(pool.region().slab(), 2 * 4096).unwrap();
    assert_eq!(slots.len(), 2);
    let slot_of = |lease: &Lease| Some(slots[lease.index() as usize / 2]);
    let content = pattern(4 * 4096);
    // Each page through another way: with a slot, without, and two as a list.
    let mut leases: Vec<_> = content.chunks(4096).map(|part| filled(&pool, part)).collect();
    let pieces: Vec<_> = leases.iter().map(piece).collect();
    let with_slot = Piece { slot: slot_of(&leases[0]), ..pieces[0] };
    for (pieces, offset) in [(&[with_slot][..], 0), (&pieces[1..2], 4096), (&pieces[2..], 8192)] {
        let key = bench.start(Attempt::WriteAt { file: &file, pieces, offset });
        assert_eq!(bench.done(key), Ok(pieces.len() * 4096));
    }
    for data_only in [true, false] {
        let key = bench.start(Attempt::Sync { file: &file, data_only });
        assert_eq!(bench.done(key), Ok(0));
    }
    assert!(fs::read(&path.0).unwrap() == content);
    for lease in &mut leases {
        lease.fill(0);
    }
    for (pieces, offset) in [(&[with_slot][..], 0), (&pieces[1..2], 4096), (&pieces[2..], 8192)] {
        let key = bench.start(Attempt::ReadAt { file: &file, pieces, offset });
        assert_eq!(bench.done(key), Ok(pieces.len() * 4096));
    }
    let read: Vec<u8> = leases.iter().flat_map(|lease| lease.to_vec()).collect();
    assert!(read == content);
    let key = bench.start(Attempt::ReadAt { file: &file, pieces: &[with_slot], offset: 4 * 4096 });
    assert_eq!(bench.done(key), Ok(0), "the end of the file");
    bench.backend.unregister(&slots);
}

#[test]
fn a_file_is_written_and_read() {
    write_and_read("file", 0);
}

#[test]
fn direct_io_on_registered_memory() {
    write_and_read("direct", libc::O_DIRECT);
}

#[test]
fn a_piece_outside_its_slot_is_refused() {
    let (mut bench, pool) = (Bench::new(), pool(2, 4096));
    let path = Temporary::new("outside");
    let file = File::from(open(&path, 0).unwrap());
    let slots = bench.backend.register(pool.region().slab(), 4096).unwrap();
    let lease = pool.try_acquire().unwrap();
    let wrong = slots[1 - lease.index() as usize];
    let pieces = [Piece { slot: Some(wrong), ..piece(&lease) }];
    let key = bench.start(Attempt::WriteAt { file: &file, pieces: &pieces, offset: 0 });
    assert_eq!(bench.done(key), Err(Errno::FAULT));
}
