//! Files.

use std::fs::OpenOptions;
use std::io::{Read, Seek, Write};

use rustix::io::Errno;

use super::super::super::backend::{Attempt, Backend, Completion, Event, Piece};
use super::super::super::file::File;
use super::fixture::{Bench, filled, key, pattern, piece, pool};

/// A file without a name.
fn nameless() -> std::fs::File {
    let path = std::env::temp_dir().join(format!(
        "transload-readiness-{}-{:?}",
        std::process::id(),
        std::thread::current().id()
    ));
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    file
}

#[test]
fn files_are_written_synchronised_and_read() {
    let (file, pool, mut bench) = (File::from(nameless()), pool(4, 1000), Bench::new());
    let out = [filled(&pool, &pattern(0, 1000)), filled(&pool, &pattern(1000, 500))];
    let pieces = out.each_ref().map(piece);
    bench.backend.start(key(1), Attempt::WriteAt { file: &file, pieces: &pieces, offset: 100 });
    assert_eq!(bench.done(1), Ok(1500));
    bench.backend.start(key(2), Attempt::Sync { file: &file, data_only: true });
    assert_eq!(bench.done(2), Ok(0));
    bench.backend.start(key(3), Attempt::Sync { file: &file, data_only: false });
    assert_eq!(bench.done(3), Ok(0));
    let into = [pool.try_acquire().unwrap(), pool.try_acquire().unwrap()];
    let pieces = into.each_ref().map(piece);
    bench.backend.start(key(4), Attempt::ReadAt { file: &file, pieces: &pieces, offset: 100 });
    assert_eq!(bench.done(4), Ok(1500));
    assert!(into[0][..] == pattern(0, 1000) && into[1][..500] == pattern(1000, 500));
    bench.backend.start(key(5), Attempt::ReadAt { file: &file, pieces: &pieces, offset: 1600 });
    assert_eq!(bench.done(5), Ok(0));
}

#[test]
fn errors_are_the_kernels() {
    let (reader, _writer) = std::io::pipe().unwrap();
    let (file, pool, mut bench) = (File::from(reader), pool(1, 8), Bench::new());
    let lease = pool.try_acquire().unwrap();
    let pieces = [piece(&lease)];
    bench.backend.start(key(1), Attempt::ReadAt { file: &file, pieces: &pieces, offset: 0 });
    assert_eq!(bench.done(1), Err(Errno::SPIPE));
    bench.backend.start(key(2), Attempt::WriteAt { file: &file, pieces: &pieces, offset: 0 });
    assert!(matches!(bench.done(2), Err(Errno::SPIPE | Errno::BADF)));
}

#[test]
fn many_jobs_all_end_once() {
    let (file, pool, mut bench) = (nameless(), pool(1, 4096), Bench::new());
    (&file).write_all(&pattern(0, 4096)).unwrap();
    let (file, lease) = (File::from(file), pool.try_acquire().unwrap());
    for number in 0..256 {
        let part = Piece { len_bytes: 16, ..piece(&lease).after(16 * number as usize) };
        let offset = 16 * u64::from(number);
        bench.backend.start(key(number), Attempt::ReadAt { file: &file, pieces: &[part], offset });
    }
    let mut ended = [0; 256];
    for _ in 0..256 {
        ended[bench.next().key.index as usize] += 1;
    }
    assert_eq!(ended, [1; 256]);
    assert!(lease[..] == pattern(0, 4096));
    bench.nothing();
}

#[test]
fn jobs_that_have_not_begun_are_cancelled_and_every_job_ends_once() {
    let (file, pool, mut bench) = (File::from(nameless()), pool(1, 1 << 20), Bench::new());
    let lease = filled(&pool, &vec![7; 1 << 20]);
    // The threads may be so fast, or we so slow, that all have begun: not twenty times.
    let cancelled = (0..20).any(|_| {
        for number in 0..64 {
            let attempt = Attempt::WriteAt { file: &file, pieces: &[piece(&lease)], offset: 0 };
            bench.backend.start(key(number), attempt);
        }
        (0..64).rev().for_each(|number| bench.backend.cancel(key(number)));
        let (mut ended, mut cancelled) = ([0; 64], false);
        for _ in 0..64 {
            let Completion { key, event, more: false } = bench.next() else { panic!("an end is the last") };
            ended[key.index as usize] += 1;
            cancelled |= matches!(event, Event::Done(Err(Errno::CANCELED)));
        }
        assert_eq!(ended, [1; 64]);
        bench.nothing();
        cancelled
    });
    assert!(cancelled);
}

#[test]
fn the_end_of_the_back_end_waits_for_a_call_that_runs() {
    const LEN: usize = 64 << 20;
    let (file, pool, mut bench) = (nameless(), pool(1, LEN), Bench::new());
    let mut lease = filled(&pool, &vec![7; LEN]);
    let job = File::from(file.try_clone().unwrap());
    bench.backend.start(key(1), Attempt::WriteAt { file: &job, pieces: &[piece(&lease)], offset: 0 });
    while file.metadata().unwrap().len() == 0 {
        std::thread::yield_now();
    }
    drop(bench);
    // The memory is ours again, so what is written to it now does not reach the file.
    lease.fill(8);
    std::thread::sleep(std::time::Duration::from_millis(200));
    let mut written = Vec::new();
    (&file).rewind().unwrap();
    (&file).read_to_end(&mut written).unwrap();
    assert!(!written.is_empty() && written.iter().all(|&byte| byte == 7));
}
