//! What a victim does between two marks.

use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, OwnedFd};

use transload::device::{Driver, host};
use transload::region::Access;
use transload::shared::{
    SendError, SharedAcquireError, SharedConsumer, SharedLease, SharedPool, SharedRegion, SharedRing,
    TakeError,
};

use crate::trace::mark;
use crate::twin;
use crate::view::View;

/// One operation, in one state of the region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// A lease where there are free buffers.
    Acquire,
    /// A lease where there is none.
    AcquireNothing,
    /// Giving a lease back, for which somebody waits.
    Release,
    /// A message, for which the consumer waits.
    Send,
    /// A message, behind one whose sender died before it moved the tail on.
    SendBehindDead,
    /// A message for which there is no room, as a look shows.
    SendFull,
    /// A message for which there is no room any more once its word says that it is sent.
    SendTooLate,
    /// A message that is copied into a buffer.
    SendCopy,
    /// Two of three messages, of which the first is one that a consumer died with.
    Take,
    /// Two messages, behind positions that a consumer was done with when it died.
    TakeBehindDead,
    /// Messages where there are none.
    TakeNothing,
    /// Being done with two of three messages.
    Finish,
    /// Being done with all that the ring holds.
    FinishAll,
    /// Taking two of three messages over as leases.
    IntoLeases,
    /// Giving back what a dead member had: a buffer of each kind.
    Recover,
    /// Becoming the consumer, which recovers as well.
    BecomeConsumer,
    /// Ceasing to be the consumer.
    EndConsumer,
    /// Lending a buffer to a device.
    Lend,
    /// Taking it back.
    TakeBack,
    /// Lending two taken messages to a device.
    LendBatch,
    /// Keeping two taken messages that are lent to a device from everybody for ever.
    Quarantine,
    /// Leaving two taken messages to the next consumer.
    PutBack,
    /// The same by dropping them, where they are lent and only done when it is said.
    DropUnlessDone,
    /// Making a region.
    Create,
    /// Opening one.
    Open,
    /// Becoming a member.
    Join,
    /// Becoming a member by the number of one that has died with a buffer of each kind.
    JoinAfterDead,
    /// Ceasing to be one.
    Leave,
    /// Wrong on purpose: takes a buffer, then writes down whose it is.
    TwinAcquire,
    /// Wrong on purpose: claims a place in the ring, then fills it.
    TwinSend,
    /// Wrong on purpose: frees what a dead member has sent without a look at the ring.
    TwinRecover,
    /// Wrong on purpose: frees the buffers before it empties the cells.
    TwinFinish,
    /// Wrong on purpose: empties the cells when it takes the messages.
    TwinTake,
}

use Operation::{
    Acquire, AcquireNothing, BecomeConsumer, Create, DropUnlessDone, EndConsumer, Finish, FinishAll,
    IntoLeases, Join, JoinAfterDead, Leave, Lend, LendBatch, Open, PutBack, Quarantine, Recover, Release,
    Send, SendBehindDead, SendCopy, SendFull, SendTooLate, Take, TakeBack, TakeBehindDead, TakeNothing,
    TwinAcquire, TwinFinish, TwinRecover, TwinSend, TwinTake,
};

/// All of them, by the names that they have on the victim's command line.
const NAMES: [(&str, Operation); 33] = [
    ("acquire", Acquire),
    ("acquire-nothing", AcquireNothing),
    ("release", Release),
    ("send", Send),
    ("send-behind-dead", SendBehindDead),
    ("send-full", SendFull),
    ("send-too-late", SendTooLate),
    ("send-copy", SendCopy),
    ("take", Take),
    ("take-behind-dead", TakeBehindDead),
    ("take-nothing", TakeNothing),
    ("finish", Finish),
    ("finish-all", FinishAll),
    ("into-leases", IntoLeases),
    ("recover", Recover),
    ("become-consumer", BecomeConsumer),
    ("end-consumer", EndConsumer),
    ("lend", Lend),
    ("take-back", TakeBack),
    ("lend-batch", LendBatch),
    ("quarantine", Quarantine),
    ("put-back", PutBack),
    ("drop-unless-done", DropUnlessDone),
    ("create", Create),
    ("open", Open),
    ("join", Join),
    ("join-after-dead", JoinAfterDead),
    ("leave", Leave),
    ("twin-acquire", TwinAcquire),
    ("twin-send", TwinSend),
    ("twin-recover", TwinRecover),
    ("twin-finish", TwinFinish),
    ("twin-take", TwinTake),
];

/// What the victim's message has in it.
pub const VICTIM_ID: u64 = 77;
/// How a victim exits that came to its end.
pub const EXIT_DONE: i32 = 0;
/// How it exits if the ring was full.
pub const EXIT_FULL: i32 = 20;
/// How it exits if there was no buffer.
pub const EXIT_EXHAUSTED: i32 = 21;
/// How it exits if there was no message.
pub const EXIT_EMPTY: i32 = 22;
/// How it exits if others were faster several times over.
pub const EXIT_CONTENDED: i32 = 23;
/// How it exits if the region is spoilt for it.
pub const EXIT_POISONED: i32 = 25;
/// How it exits if it was refused for any other reason.
pub const EXIT_REFUSED: i32 = 24;

impl Operation {
    /// Its name.
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(_, operation)| *operation == self).map_or("?", |(name, _)| name)
    }

    /// The operation of this name.
    pub fn of(name: &str) -> Option<Operation> {
        NAMES.iter().find(|(other, _)| *other == name).map(|&(_, operation)| operation)
    }

    /// Whether its victim may have the consumer's role.
    pub fn may_be_consumer(self) -> bool {
        let takes = matches!(self, Take | TakeBehindDead | TakeNothing | TwinTake);
        takes || self.taken() > 0 || matches!(self, BecomeConsumer | EndConsumer)
    }

    /// Whether it sends a message where there is room.
    pub fn sends(self) -> bool {
        matches!(self, Send | SendBehindDead | SendCopy | SendFull | SendTooLate | TwinSend)
    }

    /// How many messages are done once the victim has ended.
    pub fn done_in_the_end(self) -> usize {
        match self {
            Take | TakeBehindDead | TakeNothing => 2,
            PutBack | DropUnlessDone => 0,
            _ => self.taken(),
        }
    }

    /// How many messages the victim has taken before it begins.
    pub fn taken(self) -> usize {
        match self {
            Finish | IntoLeases | LendBatch | Quarantine | PutBack | DropUnlessDone | TwinFinish => 2,
            FinishAll => 4,
            _ => 0,
        }
    }
}

/// Does one operation, in a region that was handed over: brings the victim's part of it about, comes to a mark, acts,
/// comes to another mark, lets go of all in good order, and says how it went.
///
/// # Panics
///
/// If the region is not as the operation wants it.
pub fn perform(operation: Operation, file: OwnedFd) -> i32 {
    let view = View::of_file(file.as_fd()).unwrap();
    match operation {
        Create => return code(between_marks(|| SharedRegion::builder(4, 256).members(4).create())),
        Open => return code(between_marks(|| SharedRegion::open(file))),
        _ => {}
    }
    let region = SharedRegion::open(file).unwrap();
    if matches!(operation, Join | JoinAfterDead) {
        return code(between_marks(|| SharedPool::join(&region, "victim")));
    }
    let pool = SharedPool::join(&region, "victim").unwrap();
    if operation == Leave {
        between_marks(|| drop(pool));
        return EXIT_DONE;
    }
    let code = act(operation, &view, &pool);
    // What it holds is given back by now, and nobody may have taken any of it away.
    match pool.try_acquire() {
        Err(SharedAcquireError::Poisoned(_)) => EXIT_POISONED,
        _ => code,
    }
}

fn act(operation: Operation, view: &View, pool: &SharedPool) -> i32 {
    let (ring, me) = (pool.ring(), pool.member());
    match operation {
        Acquire | AcquireNothing => match between_marks(|| pool.try_acquire()) {
            Ok(_) => EXIT_DONE,
            Err(error) => acquire_code(&error),
        },
        Release => {
            let lease = pool.try_acquire().unwrap();
            between_marks(|| drop(lease));
            EXIT_DONE
        }
        Send | SendBehindDead | SendFull | SendTooLate => {
            let lease = written(pool);
            send_code(between_marks(|| ring.try_send(lease, 8)).map_err(|refused| refused.error))
        }
        SendCopy => send_code(between_marks(|| ring.try_send_copy(&VICTIM_ID.to_le_bytes()))),
        Take | TakeBehindDead | TakeNothing => {
            let mut consumer = ring.consumer().unwrap();
            match between_marks(|| consumer.take(2)) {
                Ok(_) => EXIT_DONE,
                Err(TakeError::Empty) => EXIT_EMPTY,
                Err(_) => EXIT_REFUSED,
            }
        }
        Finish | FinishAll | IntoLeases | LendBatch | Quarantine | PutBack | DropUnlessDone => {
            with_taken(operation, &ring)
        }
        Recover => {
            between_marks(|| pool.recover());
            EXIT_DONE
        }
        BecomeConsumer => match between_marks(|| ring.consumer()) {
            Ok(_) => EXIT_DONE,
            Err(_) => EXIT_REFUSED,
        },
        EndConsumer => {
            let consumer: SharedConsumer = ring.consumer().unwrap();
            between_marks(|| drop(consumer));
            EXIT_DONE
        }
        Lend | TakeBack => lend(operation, pool),
        Create | Open | Join | JoinAfterDead | Leave => {
            unreachable!("done without a member, or with its last handle")
        }
        TwinAcquire => {
            // What it has is a number only, and stays out until this process is over.
            if between_marks(|| twin::acquire(view, me)).is_some() { EXIT_DONE } else { EXIT_EXHAUSTED }
        }
        TwinSend => {
            let lease = ManuallyDrop::new(written(pool));
            if between_marks(|| twin::send(view, me, lease.index(), 8)) { EXIT_DONE } else { EXIT_FULL }
        }
        TwinRecover => {
            between_marks(|| twin::recover(view, crate::scene::CORPSE));
            EXIT_DONE
        }
        TwinFinish => {
            let mut consumer = ring.consumer().unwrap();
            let batch = ManuallyDrop::new(consumer.take(operation.taken()).unwrap());
            between_marks(|| twin::finish(view, me, batch.first_position(), batch.messages()));
            EXIT_DONE
        }
        TwinTake => {
            let consumer = ManuallyDrop::new(ring.consumer().unwrap());
            between_marks(|| twin::take(view, me, 2));
            drop(ManuallyDrop::into_inner(consumer));
            EXIT_DONE
        }
    }
}

/// The operations of a consumer that has taken something.
fn with_taken(operation: Operation, ring: &SharedRing) -> i32 {
    let mut consumer = ring.consumer().unwrap();
    let batch = consumer.take(operation.taken()).unwrap();
    assert_eq!(batch.messages(), operation.taken());
    match operation {
        IntoLeases => {
            let leases = between_marks(|| batch.into_leases());
            if leases.len() != operation.taken() {
                return EXIT_REFUSED;
            }
        }
        LendBatch => {
            if between_marks(|| batch.lend(true)).and_then(|()| batch.lend(false)).is_err() {
                return EXIT_REFUSED;
            }
        }
        PutBack => between_marks(|| batch.put_back()),
        DropUnlessDone => {
            batch.lend(true).unwrap();
            let batch = batch.unless_done();
            between_marks(|| drop(batch));
        }
        Quarantine => {
            batch.lend(true).unwrap();
            between_marks(|| batch.quarantine());
        }
        _ => between_marks(|| drop(batch)),
    }
    EXIT_DONE
}

fn lend(operation: Operation, pool: &SharedPool) -> i32 {
    let device = host::Host.open(0).unwrap();
    let registered = pool.region().register(&*device, Access::READ_WRITE).unwrap();
    let lease = pool.try_acquire().unwrap();
    if operation == Lend {
        return match between_marks(|| lease.lend(&registered)) {
            Ok(lent) => {
                drop(lent.take_back());
                EXIT_DONE
            }
            Err(_) => EXIT_REFUSED,
        };
    }
    let lent = lease.lend(&registered).unwrap();
    drop(between_marks(|| lent.take_back()));
    EXIT_DONE
}

/// For its result alone.
fn code<T, E>(result: Result<T, E>) -> i32 {
    if result.is_ok() { EXIT_DONE } else { EXIT_REFUSED }
}

fn written(pool: &SharedPool) -> SharedLease {
    let mut lease = pool.try_acquire().unwrap();
    lease.write_at(0, &VICTIM_ID.to_le_bytes()).unwrap();
    lease
}

fn between_marks<T>(operation: impl FnOnce() -> T) -> T {
    mark();
    let done = alone(operation);
    mark();
    done
}

#[inline(never)]
fn alone<T>(operation: impl FnOnce() -> T) -> T {
    operation()
}

fn send_code(sent: Result<(), SendError>) -> i32 {
    match sent {
        Ok(()) => EXIT_DONE,
        Err(SendError::Full) => EXIT_FULL,
        Err(_) => EXIT_REFUSED,
    }
}

fn acquire_code(error: &SharedAcquireError) -> i32 {
    match error {
        SharedAcquireError::Exhausted => EXIT_EXHAUSTED,
        SharedAcquireError::Contended => EXIT_CONTENDED,
        _ => EXIT_REFUSED,
    }
}
