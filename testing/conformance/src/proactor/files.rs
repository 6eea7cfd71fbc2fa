//! Files: bytes at offsets, their ends, direct I/O, and operations one after the other.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use tempfile::TempDir;
use transload::proactor::{File, IoError, Part};

use super::pattern::{Checker, Pattern};
use super::rig::{Kind, lease, look, pair, read_checked};
use super::subject::Run;

fn scratch() -> (TempDir, PathBuf, File) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let options = OpenOptions::new().read(true).write(true).create_new(true).clone();
    let file = options.open(&path).unwrap();
    (folder, path, file.into())
}

/// Odd offsets and lengths, one part and several, on memory that is registered.
pub fn what_is_written_is_read(run: &Run) {
    let rig = run.rig();
    let (_folder, path, file) = scratch();
    let pool = rig.pool(17, 10_007);
    let mut at = 0;
    for parts in [1_u64, 2, 17] {
        let leases = (0..parts).map(|part| lease(&pool, Pattern(90), at + part * 9001, 9001));
        let whole: Vec<Part> = leases.map(Part::from).collect();
        let written = rig.on(rig.handle.write_at(&file, whole, at));
        assert_eq!(written.result, Ok(usize::try_from(parts * 9001).unwrap()));
        assert_eq!(written.buffers.into_parts().len() as u64, parts);
        at += parts * 9001;
    }
    assert!(fs::read(&path).unwrap() == Pattern(90).bytes(0, usize::try_from(at).unwrap()));
    rig.on(rig.handle.fsync(&file)).unwrap();
    rig.on(rig.handle.fdatasync(&file)).unwrap();
    for (offset, parts) in [(0, 1), (1, 3), (4095, 17), (8191, 2)] {
        let leases: Vec<_> = (0..parts).map(|_| pool.try_acquire().unwrap()).collect();
        let read = rig.on(rig.handle.read_at(&file, leases, offset));
        assert_eq!(read.result, Ok(parts * 10_007));
        let mut checker = Checker::starting_at(Pattern(90), offset);
        for part in read.buffers.into_parts() {
            checker.feed(&part.into_lease().unwrap());
        }
    }
    assert_eq!(pool.available(), 17);
}

/// Fewer bytes than asked for mean the end of the file, and nothing else.
pub fn a_read_is_short_at_the_end_only(run: &Run) {
    let rig = run.rig();
    let (_folder, path, file) = scratch();
    fs::write(&path, Pattern(91).bytes(0, 10_000)).unwrap();
    let pool = rig.pool(4, 4000);
    for (offset, expected) in [(0, 8000), (2000, 8000), (2001, 7999), (9999, 1), (10_000, 0), (1 << 40, 0)] {
        let leases = vec![pool.try_acquire().unwrap(), pool.try_acquire().unwrap()];
        let read = rig.on(rig.handle.read_at(&file, leases, offset));
        assert_eq!(read.result, Ok(expected), "at {offset}");
        let (mut checker, mut left) = (Checker::starting_at(Pattern(91), offset), expected);
        for part in read.buffers.into_parts() {
            let lease = part.into_lease().unwrap();
            let count = left.min(lease.len());
            checker.feed(&lease[..count]);
            left -= count;
        }
    }
    // What the file was not opened for is an error, with the memory back.
    let read_only = File::from(fs::File::open(&path).unwrap());
    let refused = rig.on(rig.handle.write_at(&read_only, lease(&pool, Pattern(91), 0, 10), 0));
    assert_eq!(refused.result.unwrap_err().raw_os_error(), Some(libc::EBADF));
    drop(refused);
    assert_eq!(pool.available(), 4);
}

/// Many at once, on disjoint parts of one file.
pub fn many_writes_and_reads_at_once(run: &Run) {
    const COUNT: u64 = 100;
    let rig = run.rig();
    let (_folder, path, file) = scratch();
    let pool = rig.pool(100, 5001);
    let write =
        |index| rig.handle.write_at(&file, lease(&pool, Pattern(92), index * 5001, 5001), index * 5001);
    for write in (0..COUNT).map(write).collect::<Vec<_>>() {
        assert_eq!(rig.on(write).result, Ok(5001));
    }
    assert!(fs::read(&path).unwrap() == Pattern(92).bytes(0, 500_100));
    let read = |index| rig.handle.read_at(&file, pool.try_acquire().unwrap(), index * 5001);
    for (index, read) in (0..COUNT).zip((0..COUNT).map(read).collect::<Vec<_>>()) {
        let read = rig.on(read);
        assert_eq!(read.result, Ok(5001));
        let mut checker = Checker::starting_at(Pattern(92), index * 5001);
        checker.feed(&read.buffers.into_lease().unwrap());
    }
}

/// Direct I/O takes what is aligned; what is not is refused with the numbers that it should have had.
pub fn direct_files_want_alignment(run: &Run) {
    const BLOCK: usize = 64 << 10;
    let rig = run.rig();
    // Not where temporary files are: that may be no file system that has direct I/O.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("direct");
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).custom_flags(libc::O_DIRECT);
    let file = match options.open(&path) {
        Ok(file) => File::from(file),
        Err(error) => return run.skip(&format!("no direct I/O at {}: {error}", path.display())),
    };
    let alignment = file.alignment().expect("it was opened for direct I/O");
    assert!(BLOCK.is_multiple_of(alignment.memory_bytes) && BLOCK.is_multiple_of(alignment.offset_bytes));
    let pool = rig.pool(4, BLOCK);
    for index in 0..4 {
        let at = index * BLOCK as u64;
        let written = rig.on(rig.handle.write_at(&file, lease(&pool, Pattern(93), at, BLOCK), at));
        assert_eq!(written.result, Ok(BLOCK));
    }
    let leases: Vec<_> = (0..4).map(|_| pool.try_acquire().unwrap()).collect();
    let read = rig.on(rig.handle.read_at(&file, leases, 0));
    assert_eq!(read.result, Ok(4 * BLOCK));
    let mut checker = Checker::new(Pattern(93));
    read.buffers.into_parts().into_iter().for_each(|part| checker.feed(&part.into_lease().unwrap()));
    checker.finish(4 * BLOCK as u64);

    for (range, offset) in [(0..BLOCK, 1), (0..BLOCK - 1, 0), (1..BLOCK, 0)] {
        let part = Part::of_lease(pool.try_acquire().unwrap(), range.clone());
        let refused = rig.on(rig.handle.write_at(&file, part, offset));
        match refused.result.unwrap_err() {
            IoError::Misaligned { address, offset: at, len_bytes, memory_bytes, offset_bytes, .. } => {
                assert_eq!((at, len_bytes), (offset, range.len()));
                assert!(address >= pool.region().slab().as_ptr().addr());
                assert_eq!((memory_bytes, offset_bytes), (alignment.memory_bytes, alignment.offset_bytes));
            }
            // A file system that takes single bytes has nothing to refuse.
            other => panic!("{other}"),
        }
        let text = refused.result.unwrap_err().to_string();
        assert!(text.contains(&alignment.offset_bytes.to_string()), "{text}");
        drop(refused);
        assert_eq!(pool.available(), 4);
    }
    assert!(fs::read(&path).unwrap() == Pattern(93).bytes(0, 4 * BLOCK), "what is refused writes nothing");
}

/// Write, write, synchronise, read: each begins when the one before has succeeded.
pub fn a_sequence_runs_in_order(run: &Run) {
    let rig = run.rig();
    let (_folder, path, file) = scratch();
    let pool = rig.pool(4, 100_000);
    for turn in 0..50 {
        let mut sequence = rig.handle.sequence();
        // The second overwrites half of the first, and the read has to see that.
        let first = sequence.write_at(&file, lease(&pool, Pattern(turn), 0, 100_000), 0);
        let second = sequence.write_at(&file, lease(&pool, Pattern(turn + 1000), 50_000, 50_000), 50_000);
        let read = sequence.read_at(&file, pool.try_acquire().unwrap(), 0);
        let synced = sequence.fdatasync(&file);
        rig.turn();
        assert_eq!(rig.handle.in_flight(), 4, "nothing begins before it is started");
        sequence.start();
        rig.on(async {
            assert_eq!(first.await.result, Ok(100_000));
            assert_eq!(second.await.result, Ok(50_000));
            let read = read.await;
            assert_eq!(read.result, Ok(100_000));
            let lease = read.buffers.into_lease().unwrap();
            Checker::new(Pattern(turn)).feed(&lease[..50_000]);
            Checker::starting_at(Pattern(turn + 1000), 50_000).feed(&lease[50_000..]);
            synced.await.unwrap();
        });
    }
    assert_eq!(fs::metadata(path).unwrap().len(), 100_000);
    assert_eq!(pool.available(), 4);
}

/// One fails: those before it are done, those behind it are cancelled, and all memory comes back.
pub fn a_sequence_ends_where_one_fails(run: &Run) {
    let rig = run.rig();
    let (_folder, path, file) = scratch();
    let read_only = File::from(fs::File::open(&path).unwrap());
    let pool = rig.pool(4, 1000);
    let (ours, mut peer) = pair(Kind::Tcp);
    let mut sequence = rig.handle.sequence();
    let sent = sequence.send(&ours, lease(&pool, Pattern(94), 0, 1000), transload::proactor::ZeroCopy::Auto);
    let first = sequence.write_at(&file, lease(&pool, Pattern(94), 0, 1000), 0);
    let fails = sequence.write_at(&read_only, lease(&pool, Pattern(95), 0, 1000), 0);
    let third = sequence.write_at(&file, lease(&pool, Pattern(96), 0, 1000), 0);
    let synced = sequence.fdatasync(&file);
    sequence.start();
    let cancelled = |error| matches!(error, IoError::Cancelled { .. });
    rig.on(async {
        let sent = sent.await;
        assert_eq!(sent.result, Ok(1000));
        drop(sent.returned().await);
        assert_eq!(first.await.result, Ok(1000));
        let fails = fails.await;
        assert_eq!(fails.result.unwrap_err().raw_os_error(), Some(libc::EBADF));
        assert!(fails.buffers.into_lease().is_some());
        let third = third.await;
        assert!(third.result.is_err_and(cancelled));
        assert!(third.buffers.into_lease().is_some());
        assert!(synced.await.is_err_and(cancelled));
    });
    assert!(fs::read(&path).unwrap() == Pattern(94).bytes(0, 1000));
    read_checked(&mut peer, &mut Checker::new(Pattern(94)), 1000);
    assert_eq!(pool.available(), 4);
}

/// Dropped before it was started, or one of its operations given up: nothing behind that begins.
pub fn a_sequence_that_is_given_up(run: &Run) {
    let rig = run.rig();
    let (_folder, path, file) = scratch();
    let pool = rig.pool(3, 1000);
    let cancelled = |error| matches!(error, IoError::Cancelled { .. });
    let mut sequence = rig.handle.sequence();
    let first = sequence.write_at(&file, lease(&pool, Pattern(97), 0, 1000), 0);
    let second = sequence.write_at(&file, lease(&pool, Pattern(97), 0, 1000), 0);
    drop(sequence);
    for write in [first, second] {
        let write = rig.on(write);
        assert!(write.result.is_err_and(cancelled));
        assert!(write.buffers.into_lease().is_some());
    }
    let mut sequence = rig.handle.sequence();
    let first = sequence.write_at(&file, lease(&pool, Pattern(97), 0, 1000), 0);
    let second = sequence.write_at(&file, lease(&pool, Pattern(98), 0, 1000), 1000);
    let third = sequence.fdatasync(&file);
    drop(second);
    sequence.start();
    assert_eq!(rig.on(first).result, Ok(1000));
    assert!(rig.on(third).is_err_and(cancelled));
    assert!(fs::read(&path).unwrap() == Pattern(97).bytes(0, 1000));
    assert!(rig.until(|| pool.available() == 3));
    // An empty one is nothing.
    rig.handle.sequence().start();
    drop(rig.handle.sequence());
    let mut nop = rig.handle.nop();
    assert!(rig.until(|| look(&mut nop).is_ready()));
}
