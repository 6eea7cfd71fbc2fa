//! A member that lies, against each operation of those that do not: they go on, or are told so; never do they crash, hang,
//! read beyond a buffer, or get one buffer twice.

#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a test may panic, and counts little"
)]

mod hostile_kit;

use std::collections::HashSet;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use hostile_kit::{
    Dice, FREE, LENT, LIMIT, Liar, Lie, Nobody, OWNED, SENT, full_cell, slot_word, tag_of, within_limit,
};
use transload::region::Access;
use transload::shared::{
    JoinError, Poisoned, SendError, SharedAcquireError, SharedConsumer, SharedPool, SharedRegion, TakeError,
};
use transload_core::Flag;

const BUFFERS: usize = 6;
const RING_SLOTS: usize = 4;
const MEMBERS: usize = 4;
const BUFFER_SIZE: usize = 256;
const SHORT: Duration = Duration::from_millis(2);

fn region() -> SharedRegion {
    SharedRegion::builder(BUFFERS, BUFFER_SIZE).ring_slots(RING_SLOTS).members(MEMBERS).create().unwrap()
}

fn other(region: &SharedRegion) -> SharedRegion {
    SharedRegion::open(region.file_for_peer().unwrap()).unwrap()
}

/// A producer and the consumer, each as in a process of its own, and the liar.
struct Scene {
    region: SharedRegion,
    liar: Liar,
    sender: SharedPool,
    receiver: SharedPool,
    consumer: SharedConsumer,
}

fn scene() -> Scene {
    let region = region();
    let sender = SharedPool::join(&other(&region), "sender").unwrap();
    let receiver = SharedPool::join(&other(&region), "receiver").unwrap();
    let consumer = receiver.ring().consumer().unwrap();
    Scene { liar: Liar::of(&region), region, sender, receiver, consumer }
}

/// That a message comes through.
fn works(scene: &mut Scene) {
    scene.sender.ring().try_send_copy(b"honest").unwrap();
    assert!(scene.consumer.wait_timeout(LIMIT).unwrap());
    let batch = scene.consumer.take(1).unwrap();
    let message = batch.message(0).unwrap();
    assert_eq!(message.len_bytes, 6);
    let mut bytes = [0; 6];
    batch.read(&message, &mut bytes).unwrap();
    assert_eq!(&bytes, b"honest");
}

fn astray(result: Result<impl std::fmt::Debug, TakeError>) {
    let error = result.unwrap_err();
    assert!(matches!(error, TakeError::Poisoned(Poisoned::Astray { .. })), "{error}");
}

#[test]
fn a_cell_that_names_no_buffer_is_passed() {
    let mut scene = scene();
    for (nth, index) in [BUFFERS as u64, 0xff_ffff].into_iter().enumerate() {
        scene.liar.cell(nth).store(full_cell(0, index, 0));
    }
    assert_eq!(scene.consumer.take(9).unwrap_err(), TakeError::Empty);
    assert_eq!(scene.region.statistics().spoiled, 2);
    for _ in 0..3 * RING_SLOTS {
        works(&mut scene);
    }
}

#[test]
fn a_cell_that_names_a_lease_of_ours_does_not_take_it_away() {
    let mut scene = scene();
    let lease = scene.receiver.try_acquire().unwrap();
    let word = scene.liar.slot(lease.index() as usize).load();
    scene.liar.cell(0).store(full_cell(0, lease.index().into(), tag_of(word)));
    assert_eq!(scene.consumer.take(1).unwrap_err(), TakeError::Blocked { member: scene.receiver.member() });
    assert_eq!(scene.liar.slot(lease.index() as usize).load(), word);
    drop(lease);
    assert_eq!(scene.consumer.take(1).unwrap_err(), TakeError::Empty);
    works(&mut scene);
    // And with a word that makes it a message: it would be in our hands twice.
    let lease = scene.receiver.try_acquire().unwrap();
    let slot = scene.liar.slot(lease.index() as usize);
    slot.store(slot_word(1, SENT, tag_of(slot.load()), 1));
    scene.liar.cell(2).store(full_cell(0, lease.index().into(), tag_of(slot.load())));
    let twice = Poisoned::Twice { buffer: lease.index() };
    assert_eq!(scene.consumer.take(1).unwrap_err(), TakeError::Poisoned(twice));
    // From then on nothing is done that would touch it.
    assert_eq!(scene.receiver.try_acquire().unwrap_err(), SharedAcquireError::Poisoned(twice));
    assert_eq!(scene.receiver.ring().try_send(lease, 1).unwrap_err().error, SendError::Poisoned(twice));
    assert_eq!(scene.consumer.is_ready().unwrap_err(), TakeError::Poisoned(twice));
    assert_eq!(scene.consumer.wait_timeout(LIMIT).unwrap_err(), TakeError::Poisoned(twice));
    assert_eq!(scene.receiver.acquire_timeout(LIMIT).unwrap_err(), SharedAcquireError::Poisoned(twice));
    // For this member alone.
    drop(scene.sender.try_acquire().unwrap());
}

#[test]
fn a_cell_that_names_a_lease_of_another_blocks_and_says_who() {
    let mut scene = scene();
    let lease = scene.sender.try_acquire().unwrap();
    let slot = scene.liar.slot(lease.index() as usize);
    scene.liar.cell(0).store(full_cell(0, lease.index().into(), tag_of(slot.load())));
    assert_eq!(scene.consumer.take(1).unwrap_err(), TakeError::Blocked { member: 1 });
    drop(lease);
    assert_eq!(scene.consumer.take(1).unwrap_err(), TakeError::Empty);
    works(&mut scene);
}

#[test]
fn an_owner_that_cannot_be_is_passed() {
    for state in [OWNED, LENT] {
        let mut scene = scene();
        for (nth, owner) in [MEMBERS as u64 + 1, 1023].into_iter().enumerate() {
            scene.liar.slot(nth).store(slot_word(owner, state, 7, 1));
            scene.liar.cell(nth).store(full_cell(0, nth as u64, 7));
        }
        assert_eq!(scene.consumer.take(1).unwrap_err(), TakeError::Empty);
        assert_eq!(scene.region.statistics().spoiled, 2);
        scene.receiver.recover();
        assert_eq!(scene.receiver.holders().len(), 2);
        works(&mut scene);
    }
}

#[test]
fn an_owner_that_keeps_dying_does_not_keep_the_consumer() {
    let Scene { liar, mut consumer, .. } = scene();
    // Number 4 is nobody's, so it is dead each time, and comes back each time.
    liar.slot(0).store(slot_word(4, OWNED, 7, 1));
    liar.cell(0).store(full_cell(0, 0, 7));
    let stop = Flag::new();
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.is_raised() {
                liar.slot(0).store(slot_word(4, OWNED, 7, 1));
            }
        });
        for _ in 0..2000 {
            match consumer.take(1) {
                // Put back by a recovery just then: the liar's message.
                Ok(batch) => drop(batch),
                Err(TakeError::Empty | TakeError::Blocked { member: 4 } | TakeError::Poisoned(_)) => {}
                Err(error) => panic!("{error}"),
            }
            liar.cell(0).store(full_cell(0, 0, 7));
        }
        stop.raise();
    });
}

#[test]
fn a_length_ends_with_the_buffer() {
    let mut scene = scene();
    scene.sender.ring().try_send_copy(b"long").unwrap();
    let slots = (0..BUFFERS).map(|index| scene.liar.slot(index));
    let slot = slots.into_iter().find(|slot| slot.load() >> 50 & 7 == SENT).unwrap();
    slot.store(slot.load() | u64::from(u32::MAX));
    let batch = scene.consumer.take(1).unwrap();
    let message = batch.message(0).unwrap();
    assert_eq!(message.len_bytes as usize, BUFFER_SIZE);
    batch.read(&message, &mut [0; BUFFER_SIZE]).unwrap();
    batch.read(&message, &mut [0; BUFFER_SIZE + 1]).unwrap_err();
    let leases = batch.into_leases();
    assert_eq!(leases[0].1, BUFFER_SIZE);
}

#[test]
fn cells_in_a_lap_that_cannot_be_are_noticed() {
    let lies: [fn(u64) -> u64; 4] = [
        |lap| (lap.wrapping_sub(2) & 0xff_ffff) << 40,
        |lap| (lap + 3) << 40,
        |lap| full_cell(lap + 1000, 0, 0),
        |lap| (lap + (1 << 23)) << 40,
    ];
    for lie in lies {
        let mut scene = scene();
        works(&mut scene);
        for cell in 0..RING_SLOTS {
            let lap = u64::from(cell == 0);
            scene.liar.cell(cell).store(lie(lap));
        }
        told(&mut scene.consumer);
    }
}

/// That a consumer is told before long, and until then that it has to look.
fn told(consumer: &mut SharedConsumer) {
    for _ in 0..=2 * RING_SLOTS + 1 {
        assert!(consumer.wait_timeout(LIMIT).unwrap(), "it would wait for ever");
        match consumer.take(1).unwrap_err() {
            TakeError::Poisoned(Poisoned::Astray { .. }) => return,
            error => assert_eq!(error, TakeError::Empty),
        }
    }
    panic!("ready for ever, and nothing there");
}

#[test]
fn a_tail_that_cannot_be_is_noticed() {
    for ahead in [RING_SLOTS as u64, 3 * RING_SLOTS as u64, 1 << 20] {
        let scene = scene();
        scene.liar.tail().store(ahead);
        let error = scene.sender.ring().try_send_copy(b"x").unwrap_err();
        assert!(matches!(error, SendError::Poisoned(Poisoned::Astray { .. })), "{ahead}: {error}");
        let lease = scene.receiver.try_acquire().unwrap();
        let refused = scene.receiver.ring().send_timeout(lease, 1, LIMIT).unwrap_err();
        assert!(matches!(refused.error, SendError::Poisoned(Poisoned::Astray { .. })), "{refused}");
    }
    // Behind, it is brought to where it belongs.
    let mut scene = scene();
    for _ in 0..2 * RING_SLOTS {
        works(&mut scene);
    }
    scene.liar.tail().store(1);
    works(&mut scene);
}

#[test]
fn a_head_that_cannot_be_harms_the_next_consumer_only() {
    for ahead in [RING_SLOTS as u64 + 1, 3 * RING_SLOTS as u64, 1 << 20] {
        let mut scene = scene();
        scene.liar.head().store(ahead);
        works(&mut scene);
        drop(scene.consumer);
        scene.liar.head().store(ahead);
        scene.consumer = scene.sender.ring().consumer().unwrap();
        astray(scene.consumer.take(1));
    }
}

#[test]
fn a_lease_that_was_freed_under_its_owner_is_noticed() {
    // What the owner does next, and whether it is told then.
    let drops = |scene: &Scene, lease| {
        drop(lease);
        scene.sender.try_acquire().map(drop).map_err(SendError::from)
    };
    let sends = |scene: &Scene, lease| {
        scene.sender.ring().try_send(lease, 1).map_err(|refused| refused.error)?;
        // Sent all the same: whoever else had it may send it too.
        scene.sender.try_acquire().map(drop).map_err(SendError::from)
    };
    let mut scene = scene();
    let lease = scene.sender.try_acquire().unwrap();
    let buffer = lease.index();
    scene.liar.slot(buffer as usize).store(slot_word(0, FREE, 3, 0));
    assert_eq!(drops(&scene, lease), Err(SendError::Poisoned(Poisoned::TakenAway { buffer })));
    // The other member is not concerned.
    drop(scene.receiver.try_acquire().unwrap());
    scene.sender = SharedPool::join(&other(&scene.region), "again").unwrap();
    works(&mut scene);

    // A free word that another thread of its owner finds.
    let lease = scene.sender.try_acquire().unwrap();
    let buffer = lease.index();
    scene.liar.slot(buffer as usize).store(slot_word(0, FREE, 3, 0));
    let mut leases = Vec::new();
    let error = loop {
        match scene.sender.try_acquire() {
            Ok(other) => leases.push(other),
            Err(error) => break error,
        }
    };
    assert_eq!(error, SharedAcquireError::Poisoned(Poisoned::Twice { buffer }));
    assert!(leases.iter().all(|other| other.index() != buffer));
    assert!(sends(&scene, lease).is_err());
}

#[test]
fn what_is_lent_is_not_taken_away_unnoticed() {
    let scene = scene();
    let devices = scene.sender.region().register(&Nobody, Access::READ_WRITE).unwrap();
    let lease = scene.sender.try_acquire().unwrap();
    let buffer = lease.index();
    scene.liar.slot(buffer as usize).store(slot_word(0, FREE, 3, 0));
    let (_, error) = lease.lend(&devices).unwrap_err();
    assert_eq!(error, SendError::Poisoned(Poisoned::TakenAway { buffer }));
}

#[test]
fn batches_of_one_consumer_never_share_a_buffer() {
    let Scene { liar, sender, mut consumer, .. } = scene();
    for _ in 0..RING_SLOTS {
        sender.ring().try_send_copy(b"x").unwrap();
    }
    let first = consumer.take(RING_SLOTS).unwrap();
    let indices: Vec<u32> = first.iter().map(|message| message.index).collect();
    // The liar says that these are done, and that others are there, in the next lap.
    let others: Vec<u32> = (0..BUFFERS as u32).filter(|index| !indices.contains(index)).collect();
    for (nth, &index) in others.iter().enumerate() {
        liar.slot(index as usize).store(slot_word(1, SENT, 9, 1));
        liar.cell(nth).store(full_cell(1, index.into(), 9));
    }
    let second = consumer.take(RING_SLOTS);
    let now: Vec<u32> = first.iter().map(|message| message.index).collect();
    assert_eq!(now, indices, "the first batch has changed under its owner");
    astray(second);
}

#[test]
fn words_to_sleep_on_may_say_anything() {
    within_limit(|| {
        let mut scene = scene();
        let stop = Flag::new();
        let (liar, stop) = (&scene.liar, &stop);
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut dice = Dice::new(1);
                while !stop.is_raised() {
                    liar.lie(Lie::Sleepers, &mut dice);
                }
            });
            for _ in 0..20 {
                assert!(!scene.consumer.wait_timeout(SHORT).unwrap());
            }
            let leases: Vec<_> = (0..BUFFERS).map(|_| scene.sender.try_acquire().unwrap()).collect();
            for _ in 0..20 {
                let error = scene.receiver.acquire_timeout(SHORT).unwrap_err();
                assert_eq!(error, SharedAcquireError::Exhausted);
            }
            drop(leases);
            stop.raise();
        });
        works(&mut scene);
    });
}

/// What the victims met.
#[derive(Debug, Default)]
struct Met {
    joins: u64,
    acquired: u64,
    sent: u64,
    taken: u64,
    poisoned: u64,
    refused: u64,
    twice: Vec<u32>,
}

/// The buffers that one member has in its hands, by its own account.
#[derive(Default)]
struct Hands(Mutex<(HashSet<u32>, Vec<u32>)>);

impl Hands {
    fn take(&self, index: u32) {
        let mut hands = self.0.lock().unwrap();
        assert!((index as usize) < BUFFERS, "buffer {index}");
        if !hands.0.insert(index) {
            hands.1.push(index);
        }
    }

    fn open(&self, index: u32) {
        self.0.lock().unwrap().0.remove(&index);
    }
}

/// One thread of a producer: each operation, until it is told that the region is spoilt.
fn produce(pool: &SharedPool, hands: &Hands, seed: u64, end: Instant) -> Met {
    let (mut met, mut dice) = (Met::default(), Dice::new(seed));
    let devices = pool.region().register(&Nobody, Access::READ_WRITE).unwrap();
    let ring = pool.ring();
    let spoilt = |met: &mut Met| met.poisoned += 1;
    while Instant::now() < end {
        let lease = match dice.below(8) {
            0 => pool.acquire_timeout(SHORT),
            _ => pool.try_acquire(),
        };
        let mut lease = match lease {
            Ok(lease) => lease,
            Err(SharedAcquireError::Poisoned(_)) => {
                spoilt(&mut met);
                break;
            }
            Err(SharedAcquireError::Exhausted | SharedAcquireError::Contended) => {
                met.refused += 1;
                if dice.below(8) == 0 {
                    pool.recover();
                }
                continue;
            }
            Err(error) => panic!("{error}"),
        };
        met.acquired += 1;
        hands.take(lease.index());
        lease.write_at(0, &[7; BUFFER_SIZE]).unwrap();
        lease.write_at(1, &[7; BUFFER_SIZE]).unwrap_err();
        lease.read_at(BUFFER_SIZE - 8, &mut [0; 8]).unwrap();
        if dice.below(4) == 0 {
            let index = lease.index();
            lease = match lease.lend(&devices) {
                Ok(lent) => lent.take_back(),
                Err((lease, SendError::Poisoned(_))) => lease,
                Err((_, error)) => panic!("{error}"),
            };
            assert_eq!(lease.index(), index);
        }
        let index = lease.index();
        hands.open(index);
        if dice.below(4) == 0 {
            drop(lease);
            continue;
        }
        let sent = match dice.below(8) {
            0 => ring.send_timeout(lease, 8, SHORT),
            _ => ring.try_send(lease, 8),
        };
        match sent {
            Ok(()) => met.sent += 1,
            Err(refused) => match refused.error {
                SendError::Full => {
                    met.refused += 1;
                    hands.take(index);
                    hands.open(index);
                    drop(refused.lease);
                }
                SendError::Poisoned(_) => {
                    spoilt(&mut met);
                    break;
                }
                error => panic!("{error}"),
            },
        }
    }
    met
}

/// The consumer, on a thread of the same member.
fn consume(pool: &SharedPool, hands: &Hands, seed: u64, end: Instant) -> Met {
    let (mut met, mut dice) = (Met::default(), Dice::new(seed));
    let mut consumer = pool.ring().consumer().expect("it is the only one");
    let mut kept = Vec::new();
    let mut leases = Vec::new();
    while Instant::now() < end {
        if dice.below(16) == 0 {
            match consumer.wait_timeout(SHORT) {
                Ok(_) => {}
                Err(TakeError::Poisoned(_)) => {
                    met.poisoned += 1;
                    break;
                }
                Err(error) => panic!("{error}"),
            }
        }
        let batch = match consumer.take(1 + dice.below(RING_SLOTS as u64) as usize) {
            Ok(batch) => batch,
            Err(TakeError::Poisoned(_)) => {
                met.poisoned += 1;
                break;
            }
            Err(TakeError::Empty | TakeError::Blocked { .. }) => {
                met.refused += 1;
                kept.clear();
                thread::yield_now();
                continue;
            }
            Err(error) => panic!("{error}"),
        };
        let indices: Vec<u32> = batch.iter().map(|message| message.index).collect();
        assert_eq!(indices.len(), batch.messages());
        met.taken += indices.len() as u64;
        for message in batch.iter() {
            hands.take(message.index);
            assert!(message.len_bytes as usize <= BUFFER_SIZE);
            batch.read(&message, &mut vec![0; message.len_bytes as usize]).unwrap();
        }
        match dice.below(4) {
            0 => {
                let mine: Vec<_> = batch.into_leases();
                assert!(
                    mine.iter().map(|(lease, _)| lease.index()).eq(indices.iter().copied().take(mine.len()))
                );
                leases.extend(mine.into_iter().map(|(lease, _)| lease));
                for lease in leases.drain(..) {
                    hands.open(lease.index());
                }
            }
            1 => {
                let _ = batch.lend(true);
                let _ = batch.lend(false);
                assert!(batch.iter().map(|message| message.index).eq(indices.iter().copied()));
                kept.push(Kept { batch: Some(batch), indices, hands });
            }
            2 => kept.push(Kept { batch: Some(batch), indices, hands }),
            _ => drop(Kept { batch: Some(batch), indices, hands }),
        }
        if kept.len() > 2 {
            kept.swap_remove(dice.below(3) as usize);
        }
    }
    met
}

/// A batch, and what was in it when it was taken.
struct Kept<'a> {
    batch: Option<transload::shared::SharedBatch>,
    indices: Vec<u32>,
    hands: &'a Hands,
}

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        let batch = self.batch.take().unwrap();
        assert!(batch.iter().map(|message| message.index).eq(self.indices.iter().copied()));
        self.indices.iter().for_each(|&index| self.hands.open(index));
    }
}

/// Members of one region against the liar, one after the other: each until it is told that the region is spoilt.
fn victims(region: &SharedRegion, time: Duration) -> Met {
    let end = Instant::now() + time;
    let mut total = Met::default();
    let mut private = scene();
    let mut seed = 1;
    while Instant::now() < end {
        let attach = other(region);
        let pool = match SharedPool::join(&attach, "victim") {
            Ok(pool) => pool,
            Err(error @ JoinError::TooManyMembers { .. }) => panic!("nobody has the locks: {error}"),
            Err(error) => panic!("{error}"),
        };
        total.joins += 1;
        let hands = Hands::default();
        let mets = thread::scope(|scope| {
            let threads = [
                scope.spawn(|| produce(&pool, &hands, seed, end)),
                scope.spawn(|| produce(&pool.clone(), &hands, seed + 1, end)),
                scope.spawn(|| consume(&pool, &hands, seed + 2, end)),
                scope.spawn(|| {
                    let statistics = pool.statistics();
                    assert!(statistics.free <= BUFFERS && statistics.pending <= RING_SLOTS);
                    assert!(pool.holders().len() <= MEMBERS + 1);
                    Met::default()
                }),
            ];
            threads.map(|thread| thread.join().expect("no panic"))
        });
        for met in mets {
            total.acquired += met.acquired;
            total.sent += met.sent;
            total.taken += met.taken;
            total.poisoned += met.poisoned;
            total.refused += met.refused;
        }
        total.twice.extend(hands.0.into_inner().unwrap().1);
        seed += 3;
        // What is private is as it was: another region works.
        works(&mut private);
    }
    total
}

fn scribble(region: &SharedRegion, what: Lie, time: Duration) -> Met {
    let liar = Liar::of(region);
    let stop = Flag::new();
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut dice = Dice::new(what as u64 + 77);
            while !stop.is_raised() {
                liar.lie(what, &mut dice);
                // Now and then there is time for a few honest operations before they meet the next lie.
                if dice.below(4) == 0 {
                    thread::sleep(Duration::from_micros(dice.below(200)));
                }
            }
        });
        let met = victims(region, time);
        stop.raise();
        met
    })
}

#[test]
fn whatever_one_scribbles_nobody_has_a_buffer_twice() {
    within_limit(|| {
        for what in Lie::ALL {
            // It bites: those who have to notice do, unless the liar has soon filled all buffers with messages of its own.
            let bites = !matches!(what, Lie::Head | Lie::Sleepers | Lie::Members);
            let mut tries = 0;
            loop {
                let met = scribble(&region(), what, Duration::from_millis(400));
                println!("{what:?}: {met:?}");
                assert_eq!(met.twice, [0_u32; 0], "{what:?}");
                assert!(met.joins > 0 && met.acquired + met.refused + met.poisoned > 0);
                if met.poisoned > 0 || !bites {
                    break;
                }
                tries += 1;
                assert!(tries < 20, "{what:?}: nobody notices");
            }
        }
        // And nobody is told so who has met no liar.
        let met = scribble(&region(), Lie::Nothing, Duration::from_millis(500));
        assert_eq!((met.poisoned, met.joins), (0, 1), "{met:?}");
        assert!(met.taken > 0, "{met:?}");
    });
}

/// The same by another process, which is stronger than a thread: its stores keep to no rule of ours.
#[test]
fn whatever_another_process_scribbles_nobody_has_a_buffer_twice() {
    const FILE: &str = "TRANSLOAD_TEST_SCRIBBLED_FILE";
    const TEST: &str = "whatever_another_process_scribbles_nobody_has_a_buffer_twice";
    if let Ok(number) = std::env::var(FILE) {
        // SAFETY: the descriptor that the parent left open for this process, and for nothing else.
        let file = unsafe { OwnedFd::from_raw_fd(number.parse().unwrap()) };
        let liar = Liar::with(file, BUFFERS, RING_SLOTS, MEMBERS);
        let mut dice = Dice::new(99);
        // The parent ends it; if it cannot, this does.
        let end = Instant::now() + LIMIT;
        while Instant::now() < end {
            let what = Lie::ALL[dice.below(Lie::ALL.len() as u64 - 1) as usize];
            (0..100).for_each(|_| liar.lie(what, &mut dice));
        }
        return;
    }
    within_limit(|| {
        let region = region();
        let file = region.file_for_peer().unwrap();
        rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty()).unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", TEST, "--nocapture", "--test-threads=1"])
            .env(FILE, file.as_raw_fd().to_string())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let met = victims(&region, Duration::from_secs(2));
        child.kill().unwrap();
        child.wait().unwrap();
        println!("{met:?}");
        assert_eq!(met.twice, [0_u32; 0]);
        assert!(met.poisoned > 0, "{met:?}");
    });
}
