//! Lanes between processes that do not trust each other: what they do when all keep to the rules, and what is refused
//! before anything is mapped.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod forking;
mod hostile_kit;
mod lane_kit;

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use forking::fork;
use hostile_kit::{LIMIT, Nobody, within_limit};
use lane_kit::{
    ANSWER, OFFER, SEALS, consumer, header, id_of, lane, memory, send, socket_pair, sparse_memory,
};
use rustix::fs::SealFlags;
use rustix::io::Errno;
use transload::region::Access;
use transload::shared::isolated::{
    Consumer, IsolatedTakeError, Lane, LaneEnd, LaneError, LaneSendError, Offer, Producer,
};
use transload::shared::{ForkedChild, SharedError};

const SHORT: Duration = Duration::from_millis(5);

fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().unwrap())
}

#[test]
fn messages_arrive_in_order_through_many_laps() {
    let (mut producer, lane) = lane(4, 64);
    assert_eq!((producer.capacity(), producer.slot_bytes(), producer.id()), (4, 64, lane.id()));
    assert_eq!((lane.capacity(), lane.slot_bytes()), (4, 64));
    let mut consumer = consumer([lane]);
    let (mut sent, mut taken) = (0_u64, 0_u64);
    for round in 0..1000_usize {
        loop {
            let done = if sent.is_multiple_of(2) {
                producer.try_send_copy(&sent.to_le_bytes())
            } else {
                producer.try_reserve().and_then(|mut slot| {
                    slot.write_at(0, &sent.to_le_bytes()).unwrap();
                    slot.commit(8)
                })
            };
            match done {
                Ok(()) => sent += 1,
                Err(error) => break assert_eq!(error, LaneSendError::Full),
            }
        }
        assert_eq!(sent - taken, 4);
        while let Ok(batch) = consumer.take(1 + round % 3) {
            assert_eq!((batch.lane(), batch.first_position()), (0, taken));
            for (nth, message) in batch.iter().enumerate() {
                assert_eq!((message.slot as u64, message.len_bytes), (taken % 4, 8));
                assert_eq!(number(&batch.to_vec(nth).unwrap()), taken);
                taken += 1;
            }
        }
        assert_eq!(consumer.take(1).unwrap_err(), IsolatedTakeError::Empty);
    }
    assert_eq!((sent, taken), (4000, 4000));
}

#[test]
fn a_slot_is_kept_to_and_nothing_is_sent_before_commit() {
    let (mut producer, lane) = lane(2, 16);
    let mut consumer = consumer([lane]);
    let error = producer.try_send_copy(&[0; 17]).unwrap_err();
    assert_eq!(error, LaneSendError::TooLong { len_bytes: 17, available: 16 });
    let mut slot = producer.try_reserve().unwrap();
    slot.write_at(8, &[7; 8]).unwrap();
    for (offset, len) in [(9, 8), (16, 1), (usize::MAX, 1), (0, 17)] {
        let error = slot.write_at(offset, &vec![1; len]).unwrap_err();
        assert_eq!((error.offset, error.len_bytes, error.available), (offset, len, 16));
    }
    drop(slot);
    assert!(!consumer.is_ready().unwrap());
    let slot = producer.try_reserve().unwrap();
    assert_eq!(slot.commit(17).unwrap_err(), LaneSendError::TooLong { len_bytes: 17, available: 16 });
    assert_eq!(consumer.take(1).unwrap_err(), IsolatedTakeError::Empty);
    assert_eq!(consumer.take(0).unwrap_err(), IsolatedTakeError::ZeroMax);
    producer.try_reserve().unwrap().commit(0).unwrap();
    producer.try_reserve().unwrap().commit(16).unwrap();
    let batch = consumer.take(9).unwrap();
    assert_eq!(batch.iter().map(|message| message.len_bytes).collect::<Vec<_>>(), [0, 16]);
    assert_eq!(batch.message(2), None);
    assert_eq!(batch.to_vec(2), None);
    // The first is where the reservations wrote.
    let mut bytes = [0; 16];
    batch.read(0, &mut bytes).unwrap();
    assert_eq!(bytes[8..], [7; 8]);
    batch.read(0, &mut [0; 17]).unwrap_err();
    batch.read(2, &mut []).unwrap_err();
}

#[test]
fn batches_end_in_any_order_and_hold_back_their_lane() {
    let (mut producer, lane) = lane(4, 8);
    let mut consumer = consumer([lane]);
    let mut send = |number: u64| producer.try_send_copy(&number.to_le_bytes());
    (0..4).for_each(|number| send(number).unwrap());
    let (first, second, third) =
        (consumer.take(1).unwrap(), consumer.take(2).unwrap(), consumer.take(9).unwrap());
    drop(second);
    drop(third);
    assert_eq!(send(4), Err(LaneSendError::Full));
    assert_eq!(number(&first.to_vec(0).unwrap()), 0);
    std::thread::spawn(move || drop(first)).join().unwrap();
    (4..8).for_each(|number| send(number).unwrap());
    let batch = consumer.take(9).unwrap();
    // A batch outlives its consumer.
    drop(consumer);
    assert_eq!(batch.messages(), 4);
    assert_eq!(number(&batch.to_vec(3).unwrap()), 7);
}

#[test]
fn a_flooded_lane_does_not_keep_a_slow_one_waiting() {
    let (mut flood, first) = lane(256, 8);
    let (mut slow, second) = lane(4, 8);
    let (mut other, third) = lane(4, 8);
    let mut consumer = consumer([first, second, third]);
    let mut of_slow = 0;
    for round in 0..200_u64 {
        while flood.try_send_copy(&round.to_le_bytes()).is_ok() {}
        slow.try_send_copy(&round.to_le_bytes()).unwrap();
        if round.is_multiple_of(10) {
            other.try_send_copy(&round.to_le_bytes()).unwrap();
        }
        // However much there is of the first: once around, all others have had their turn.
        let lanes: Vec<u64> = (0..3).map(|_| consumer.take(16).unwrap().lane()).collect();
        assert!(lanes.contains(&1), "round {round}: {lanes:?}");
        assert!(lanes.contains(&2) || !round.is_multiple_of(10), "round {round}: {lanes:?}");
        of_slow += lanes.iter().filter(|&&lane| lane == 1).count();
    }
    assert_eq!(of_slow, 200);
}

#[test]
fn waits_end_when_the_other_side_acts() {
    within_limit(|| {
        let lanes: Vec<(Producer, Lane)> = (0..3).map(|_| lane(1, 8)).collect();
        let (mut producers, lanes): (Vec<_>, Vec<_>) = lanes.into_iter().unzip();
        let mut consumer = consumer(lanes);
        assert!(!consumer.wait_timeout(SHORT).unwrap());
        for round in 0..30 {
            let producer = &mut producers[round % 3];
            std::thread::scope(|scope| {
                let waiting = scope.spawn(|| consumer.wait_timeout(LIMIT).unwrap());
                std::thread::sleep(Duration::from_millis(round as u64 % 7));
                producer.try_send_copy(b"x").unwrap();
                assert!(waiting.join().unwrap());
            });
            assert_eq!(producer.send_timeout(b"y", SHORT).unwrap_err(), LaneSendError::Full);
            std::thread::scope(|scope| {
                let sending = scope.spawn(|| producer.send_timeout(b"y", LIMIT));
                std::thread::sleep(Duration::from_millis(round as u64 % 7));
                drop(consumer.take(1).unwrap());
                sending.join().unwrap().unwrap();
            });
            assert_eq!(consumer.take(1).unwrap().to_vec(0).unwrap(), b"y");
            assert!(producer.reserve_timeout(LIMIT).is_ok());
        }
    });
}

#[test]
fn as_many_lanes_as_the_kernel_cannot_watch_are_watched() {
    within_limit(|| {
        let lanes: Vec<(Producer, Lane)> = (0..130).map(|_| lane(1, 8)).collect();
        let (mut producers, lanes): (Vec<_>, Vec<_>) = lanes.into_iter().unzip();
        let mut consumer = consumer(lanes);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| consumer.wait_timeout(LIMIT).unwrap());
            std::thread::sleep(Duration::from_millis(20));
            producers[129].try_send_copy(b"x").unwrap();
            assert!(waiting.join().unwrap());
        });
        assert_eq!(consumer.take(1).unwrap().lane(), 129);
    });
}

#[test]
fn a_lane_ends_with_its_producer_and_after_its_messages() {
    within_limit(|| {
        let ((mut a, lane_a), (b, lane_b)) = (lane(4, 8), lane(4, 8));
        let mut consumer = consumer([lane_a, lane_b]);
        a.try_send_copy(b"last").unwrap();
        drop(a);
        consumer.look_for_ends();
        let batch = consumer.take(9).unwrap();
        assert_eq!(batch.to_vec(0).unwrap(), b"last");
        let gone = |lane| IsolatedTakeError::Ended { lane, end: LaneEnd::Gone };
        assert_eq!(consumer.take(9).unwrap_err(), gone(0));
        assert_eq!(consumer.take(9).unwrap_err(), IsolatedTakeError::Empty);
        assert_eq!(batch.to_vec(0).unwrap(), b"last", "a batch outlives its lane");
        assert_eq!(consumer.lanes().map(|(number, _)| number).collect::<Vec<_>>(), [1]);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| consumer.wait_timeout(LIMIT).unwrap());
            std::thread::sleep(Duration::from_millis(30));
            drop(b);
            assert!(waiting.join().unwrap());
        });
        assert_eq!(consumer.take(9).unwrap_err(), gone(1));
        assert_eq!(consumer.lanes().count(), 0);
        assert!(!consumer.wait_timeout(SHORT).unwrap());
        let (mut c, lane_c) = lane(1, 8);
        assert_eq!(consumer.add(lane_c), 2, "numbers are not given again");
        assert!(c.is_connected());
        assert!(consumer.remove(2) && !consumer.remove(2));
        assert!(!c.is_connected());
        c.try_send_copy(b"x").unwrap();
        assert_eq!(c.send_timeout(b"x", LIMIT).unwrap_err(), LaneSendError::Gone);
    });
}

#[test]
fn a_device_of_the_consumer_reads_where_the_producer_wrote() {
    let (mut producer, lane) = lane(4, 100);
    let region = lane.register(&Nobody).unwrap();
    assert_eq!(region.access(), Access::READ);
    let mut consumer = consumer([lane]);
    producer.try_send_copy(b"1").unwrap();
    producer.try_send_copy(b"device").unwrap();
    let batch = consumer.take(9).unwrap();
    let message = batch.message(1).unwrap();
    let span = region.span(message.slot * 100, message.len_bytes).unwrap();
    assert_eq!(span.as_ptr().cast_const(), batch.address(1).unwrap());
    // SAFETY: within the lane, which the region keeps; by a copy.
    assert_eq!(unsafe { span.as_ptr().cast::<[u8; 6]>().read_volatile() }, *b"device");
    assert_eq!(region.slab().len_bytes(), 400);
    // Nobody gets references to it.
    assert!(transload::pool::BufferPool::new(&region).is_err());
}

#[test]
fn numbers_that_make_no_lane_are_refused() {
    let error = |slots, slot_bytes| Offer::builder(slots, slot_bytes).create().unwrap_err();
    assert!(matches!(error(0, 1), LaneError::OutOfRange { what: "slots", wanted: 0, .. }));
    assert!(matches!(error(1 << 25, 1), LaneError::OutOfRange { what: "slots", .. }));
    assert!(matches!(error(1, 0), LaneError::OutOfRange { what: "bytes in a slot", .. }));
    assert!(matches!(error(3, 1), LaneError::NoPowerOfTwo { slots: 3, next: 4 }));
    assert!(matches!(error(1 << 24, 1 << 32), LaneError::OutOfRange { .. }));
    // Lanes that could be, of more memory than there is.
    assert!(matches!(error(1 << 24, (1 << 32) - 1), LaneError::Memory(_)));
}

/// A memory that a consumer of 4 slots of 8 bytes would take, but for what is said.
fn offered(change: impl FnOnce(&mut Vec<u64>), len_bytes: Option<u64>, seals: SealFlags) -> OwnedFd {
    let mut words = header(1, 4, 8, [1, 2]);
    let whole = words[9];
    change(&mut words);
    memory(&words, len_bytes.unwrap_or(whole), seals).1
}

#[test]
fn a_memory_without_a_seal_is_refused() {
    drop(Lane::from_file(offered(|_| {}, None, SEALS)).unwrap());
    for missing in [SealFlags::SHRINK, SealFlags::GROW, SealFlags::SEAL, SealFlags::FUTURE_WRITE] {
        let error = Lane::from_file(offered(|_| {}, None, SEALS.difference(missing))).unwrap_err();
        assert!(matches!(error, LaneError::Unsealed { .. }), "{missing:?}: {error}");
        // And so by the producer.
        let offer = Offer::builder(4, 8).create().unwrap();
        let words = header(2, 4, 8, id_of(&offer.file_for_peer().unwrap()));
        let answer = memory(&words, words[9], SEALS.difference(missing)).1;
        let error = offer.connect(answer).unwrap_err();
        assert!(matches!(error, LaneError::Unsealed { .. }), "{missing:?}: {error}");
    }
    let (reader, _writer) = rustix::pipe::pipe().unwrap();
    let error = Lane::from_file(reader).unwrap_err();
    assert!(matches!(error, LaneError::File(SharedError::NotAFile { .. })), "{error}");
    let file = std::fs::File::open("/proc/self/exe").unwrap();
    assert!(matches!(Lane::from_file(file.into()).unwrap_err(), LaneError::Unsealed { found: 0, .. }));
}

#[test]
fn a_memory_that_is_not_what_it_says_is_refused() {
    for at in 0..64 {
        for bit in [0, 7, 31, 63] {
            let file = offered(
                |words| {
                    words.resize(64, 0);
                    words[at] ^= 1 << bit;
                },
                None,
                SEALS,
            );
            match Lane::from_file(file) {
                // The id may be any; the slots may be a little larger, where there is room for them.
                Ok(lane) => assert!(matches!(at, 4 | 6 | 7) && lane.capacity() == 4, "word {at} bit {bit}"),
                Err(error) => assert!(!error.to_string().is_empty()),
            }
        }
    }
    let whole = header(1, 4, 8, [1, 2])[9];
    for len_bytes in [80, 511, 4096, whole - 4096, whole + 4096] {
        let error = Lane::from_file(offered(|_| {}, Some(len_bytes), SEALS)).unwrap_err();
        let is_length =
            matches!(error, LaneError::Length { .. } | LaneError::File(SharedError::Length { .. }));
        assert!(is_length, "{len_bytes}: {error}");
    }
    // Huge numbers, consistent with each other, of a file that has hardly anything: 1 TiB.
    let words = header(1, 1 << 20, 1 << 20, [1, 2]);
    let (_raw, file) = sparse_memory(&words, words[9], 8192, SEALS);
    let error = Lane::from_file(file).unwrap_err();
    assert!(matches!(error, LaneError::Sparse { found: 8192, expected } if expected == words[9]), "{error}");
    let words = header(1, 4, 8, [1, 2]);
    let (_raw, file) = sparse_memory(&words, words[9], words[9] - 4096, SEALS);
    assert!(matches!(Lane::from_file(file).unwrap_err(), LaneError::Sparse { .. }));

    let answer = |change: fn(&mut Vec<u64>)| {
        let offer = Offer::builder(4, 8).create().unwrap();
        let mut words = header(2, 4, 8, id_of(&offer.file_for_peer().unwrap()));
        change(&mut words);
        let file = memory(&words, words[9], SEALS).1;
        offer.connect(file).map(drop)
    };
    answer(|_| {}).unwrap();
    let other = |words: &mut Vec<u64>| words[6] ^= 1;
    assert!(matches!(answer(other).unwrap_err(), LaneError::OtherLane { .. }));
    assert!(matches!(answer(|words| words[3] = 8).unwrap_err(), LaneError::Header { field: "slots", .. }));
    let size = |words: &mut Vec<u64>| words[4] = 9;
    assert!(matches!(answer(size).unwrap_err(), LaneError::Header { field: "bytes of a slot", .. }));
    // A producer's memory is no answer.
    let (one, two) = (Offer::builder(4, 8).create().unwrap(), Offer::builder(4, 8).create().unwrap());
    let error = one.connect(two.file_for_peer().unwrap()).unwrap_err();
    assert!(matches!(error, LaneError::Header { field: "magic number", .. }), "{error}");
}

/// All that could change a memory, by whoever has its descriptor.
fn ways_to_write(file: &OwnedFd) -> Vec<(&'static str, Result<(), Errno>)> {
    use rustix::fs::{FallocateFlags, Mode, OFlags};
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let again = rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
    let mut ways = Vec::new();
    // Root may open it for writing; that helps nobody.
    for file in [Some(file.as_fd()), again.as_ref().ok().map(AsFd::as_fd)].into_iter().flatten() {
        let map = |access| {
            // SAFETY: a new mapping wherever the kernel likes.
            let at = unsafe {
                libc::mmap(std::ptr::null_mut(), 4096, access, libc::MAP_SHARED, file.as_raw_fd(), 0)
            };
            if at == libc::MAP_FAILED { Err(last()) } else { Ok(at) }
        };
        ways.push(("mmap", map(libc::PROT_READ | libc::PROT_WRITE).map(drop)));
        let mapped = map(libc::PROT_READ).unwrap();
        // SAFETY: the range was mapped just now, and nothing uses it.
        let protected = unsafe { libc::mprotect(mapped, 4096, libc::PROT_READ | libc::PROT_WRITE) };
        ways.push(("mprotect", if protected == 0 { Ok(()) } else { Err(last()) }));
        ways.push(("pwrite", rustix::io::pwrite(file, &[1], 0).map(drop)));
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        ways.push(("punch", rustix::fs::fallocate(file, punch, 0, 4096)));
        ways.push(("truncate", rustix::fs::ftruncate(file, 0)));
        ways.push(("grow", rustix::fs::ftruncate(file, 1 << 30)));
        ways.push(("seal", rustix::fs::fcntl_add_seals(file, SealFlags::WRITE)));
    }
    ways
}

fn last() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap()
}

#[test]
fn nobody_but_its_owner_can_change_a_memory() {
    let offer = Offer::builder(4, 8).create().unwrap();
    let lane = Lane::from_file(offer.file_for_peer().unwrap()).unwrap();
    for file in [offer.file_for_peer().unwrap(), lane.file_for_peer().unwrap()] {
        for (way, result) in ways_to_write(&file) {
            let refused = matches!(result, Err(Errno::PERM | Errno::ACCESS | Errno::BADF | Errno::INVAL));
            assert!(refused, "{way}: {result:?}");
        }
    }
    // The twin: without the seal that it is all about.
    let words = header(1, 4, 8, [1, 2]);
    let (_raw, file) = memory(&words, words[9], SEALS.difference(SealFlags::FUTURE_WRITE));
    assert!(ways_to_write(&file).contains(&("mmap", Ok(()))));
    assert!(ways_to_write(&file).contains(&("pwrite", Ok(()))));
}

#[test]
fn what_is_mapped_for_reading_faults_when_it_is_written() {
    let (mut producer, lane) = lane(4, 8);
    producer.try_send_copy(b"x").unwrap();
    let mut consumer = consumer([lane]);
    let address = consumer.take(1).unwrap().address(0).unwrap();
    assert!(maps_of(address).starts_with("r--s"), "{}", maps_of(address));
    let status = fork(|| {
        // The child has no such mapping: so it makes one again, of the same file.
        let offer = Offer::builder(4, 8).create().unwrap();
        let lane = Lane::from_file(offer.file_for_peer().unwrap()).unwrap();
        let mut producer = offer.connect(lane.file_for_peer().unwrap()).unwrap();
        producer.try_send_copy(b"x").unwrap();
        let mut consumer = consumer_of(lane);
        let batch = consumer.take(1).unwrap();
        // SAFETY: none: this must end the process.
        unsafe { batch.address(0).unwrap().cast_mut().write_volatile(1) };
    });
    assert_eq!(status.terminating_signal(), Some(libc::SIGSEGV), "{status:?}");
}

fn consumer_of(lane: Lane) -> Consumer {
    consumer([lane])
}

/// What the kernel says of the mapping of an address: rights, and shared or private.
fn maps_of(address: *const u8) -> String {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let hex = |text: &str| usize::from_str_radix(text, 16).unwrap();
    let line = maps.lines().find(|line| {
        let (from, to) = line.split_once(' ').unwrap().0.split_once('-').unwrap();
        (hex(from)..hex(to)).contains(&address.addr())
    });
    line.unwrap().split_once(' ').unwrap().1.to_owned()
}

#[test]
fn a_forked_child_has_no_part_in_its_parents_lanes() {
    let (mut producer, lane) = lane(4, 8);
    producer.try_send_copy(b"x").unwrap();
    let mut consumer = consumer([lane]);
    let batch = consumer.take(1).unwrap();
    let status = fork(|| {
        assert_eq!(producer.try_send_copy(b"y"), Err(LaneSendError::Forked(ForkedChild)));
        assert_eq!(producer.send_timeout(b"y", SHORT), Err(LaneSendError::Forked(ForkedChild)));
        let forked = IsolatedTakeError::Forked(ForkedChild);
        assert_eq!(consumer.take(1).unwrap_err(), forked);
        assert_eq!(consumer.wait_timeout(SHORT).unwrap_err(), forked);
        batch.read(0, &mut [0]).unwrap_err();
        drop(batch);
        drop(consumer);
        drop(producer);
    });
    assert_eq!(status.exit_status(), Some(0), "{status:?}");
}

#[test]
fn a_forked_child_fills_and_publishes_no_slot_that_its_parent_reserved() {
    let (mut producer, lane) = lane(4, 8);
    let mut reservation = Some(producer.try_reserve().unwrap());
    let status = fork(|| {
        let mut reservation = reservation.take().unwrap();
        assert!(reservation.write_at(0, b"child").is_err_and(|refused| refused.available == 0));
        assert_eq!(reservation.commit(5), Err(LaneSendError::Forked(ForkedChild)));
    });
    assert_eq!(status.exit_status(), Some(0), "{status:?}");
    reservation.unwrap().commit(1).unwrap();
    assert_eq!(consumer([lane]).take(2).unwrap().messages(), 1);
}

#[test]
fn a_lane_is_handed_over_by_a_socket() {
    within_limit(|| {
        let (one, other) = socket_pair();
        let (mut producer, lane) = std::thread::scope(|scope| {
            let accepting = scope.spawn(|| Lane::accept(&other, LIMIT).unwrap());
            let producer = Offer::builder(4, 8).create().unwrap().hand_over(&one, LIMIT).unwrap();
            (producer, accepting.join().unwrap())
        });
        producer.try_send_copy(b"hello").unwrap();
        assert_eq!(consumer([lane]).take(1).unwrap().to_vec(0).unwrap(), b"hello");
    });
}

#[test]
fn what_is_not_one_offer_with_one_descriptor_is_refused() {
    let offer = Offer::builder(4, 8).create().unwrap();
    let file = offer.file_for_peer().unwrap();
    let accept = |bytes: &[u8], files: &[&OwnedFd]| {
        let (one, other) = socket_pair();
        assert!(send(&one, bytes, files));
        Lane::accept(&other, LIMIT).map(drop)
    };
    accept(OFFER, &[&file]).unwrap();
    let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let before = open();
    for count in [0, 2, 3, 9] {
        let error = accept(OFFER, &vec![&file; count]).unwrap_err();
        assert!(matches!(error, LaneError::Descriptors { found } if found != 1), "{count}: {error}");
    }
    for bytes in [ANSWER, b"TLlane\x01\x01x", b"TLlane\x01", b"x"] {
        let error = accept(bytes, &[&file]).unwrap_err();
        assert!(matches!(error, LaneError::Strange { found } if found == bytes.len()), "{error}");
    }
    assert_eq!(open(), before, "all that came was closed");

    let (one, other) = socket_pair();
    let started = Instant::now();
    assert!(matches!(Lane::accept(&other, SHORT).unwrap_err(), LaneError::TimedOut));
    assert!(started.elapsed() >= SHORT);
    drop(one);
    assert!(matches!(Lane::accept(&other, Duration::MAX).unwrap_err(), LaneError::HungUp));
    let (one, other) = socket_pair();
    drop(other);
    assert!(matches!(offer.hand_over(&one, LIMIT).unwrap_err(), LaneError::Os { .. }));
}
