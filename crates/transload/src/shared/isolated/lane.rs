//! The consumer's end of a lane.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use transload_core::{FullBarrier, SharedWord, SpscFault, SpscReceiver, SpscRun};

use super::super::geometry::ALIGNMENTS;
use super::super::wait;
use super::super::words::{FutexWords, Words};
use super::error::LaneError;
use super::exchange::{self, ANSWER, OFFER};
use super::layout::{Owner, Plan};
use super::memory::{OwnMemory, PeerMemory};
use super::sleep::Sleep;
use crate::fork::ForkedChild;
use crate::memory::{Placement, Policy, Recipe, Slab};
use crate::region::{Access, Region, RegisterError, Registrar};

type Receiver = SpscReceiver<Words, FutexWords, FullBarrier>;

/// The consumer's end of a lane, to be [added](super::Consumer::add) to a consumer.
///
/// Its producer's memory is mapped for reading, and nothing in that is believed; what this side says of itself is in a
/// memory of its own, which the producer can only read.
#[derive(Debug)]
pub struct Lane {
    state: Mutex<State>,
    /// The lengths of the messages that were taken, in private memory: one a slot.
    lengths: Box<[SharedWord]>,
    /// What the consumer sleeps on.
    signal: FutexWords,
    slab: Slab,
    peer: PeerMemory,
    own: OwnMemory,
}

#[derive(Debug)]
struct State {
    receiver: Receiver,
    /// Batches that were taken and are not done, or wait for an older one, in order.
    open: VecDeque<Open>,
    /// The number of the first of these.
    first: u64,
}

#[derive(Debug)]
struct Open {
    count: usize,
    done: bool,
}

impl Lane {
    /// Makes the consumer's half for what a producer [offered](super::Offer::file_for_peer).
    ///
    /// # Errors
    ///
    /// [`LaneError`] if that is not a memory of a lane's producer, or not sealed.
    pub fn from_file(file: OwnedFd) -> Result<Lane, LaneError> {
        let peer = PeerMemory::open(file, Owner::Producer)?;
        let Plan { slots, slot_bytes, id, .. } = peer.plan;
        let plan = Plan::new(Owner::Consumer, slots, slot_bytes, *ALIGNMENTS.start(), id)?;
        // A page of words.
        let own = OwnMemory::make(&Recipe { lock: Policy::Never, ..Recipe::default() }, plan)?;
        // Checked when it was opened.
        let most = u32::try_from(slot_bytes).unwrap_or(u32::MAX);
        let receiver = SpscReceiver::new(own.words(), peer.words(), peer.lengths(), most, FullBarrier);
        Ok(Lane {
            state: Mutex::new(State { receiver, open: VecDeque::new(), first: 0 }),
            lengths: (0..slots).map(|_| SharedWord::new(0)).collect(),
            signal: peer.signal(),
            slab: peer.slab(),
            peer,
            own,
        })
    }

    /// Takes a lane that is offered over a socket by [`Offer::hand_over`](super::Offer::hand_over), and answers.
    ///
    /// # Errors
    ///
    /// [`LaneError`]. The producer is told nothing then: hang up.
    pub fn accept(socket: &OwnedFd, timeout: Duration) -> Result<Lane, LaneError> {
        let lane = Lane::from_file(exchange::receive(socket, OFFER, timeout)?)?;
        exchange::send(socket, ANSWER, &lane.file_for_peer()?)?;
        Ok(lane)
    }

    /// The descriptor for the producer, who [connects](super::Offer::connect) with it. It gives no right to write.
    ///
    /// # Errors
    ///
    /// [`LaneError::Os`] without `/proc`.
    pub fn file_for_peer(&self) -> Result<OwnedFd, LaneError> {
        self.own.file_for_peer()
    }

    /// How many messages it has room for.
    pub fn capacity(&self) -> usize {
        self.peer.plan.slots
    }

    /// Bytes of a slot: the most that a message can have.
    pub fn slot_bytes(&self) -> usize {
        self.peer.plan.slot_bytes
    }

    /// The number that the producer gave the lane at random.
    pub fn id(&self) -> u128 {
        self.peer.plan.id
    }

    /// How the producer's memory is mapped here.
    pub fn placement(&self) -> &Placement {
        &self.peer.placement
    }

    /// Whether the producer lives, as far as the kernel knows. While a process lives that it has forked, it may be taken
    /// for alive after its death.
    pub fn is_connected(&self) -> bool {
        self.peer.is_alive()
    }

    /// Registers the slots with a device of this process, which can only read them.
    ///
    /// # Errors
    ///
    /// [`RegisterError`]: also where the device, or the kernel, cannot pin memory that is mapped for reading only.
    pub fn register(&self, registrar: &dyn Registrar) -> Result<Region, RegisterError> {
        self.check_process().map_err(|error| RegisterError::Refused {
            registrar: "the lane".to_owned(),
            len_bytes: self.slab.len_bytes(),
            reason: error.to_string(),
        })?;
        registrar.register(&self.slab, Access::READ)
    }

    #[inline]
    pub(super) fn check_process(&self) -> Result<(), ForkedChild> {
        self.own.check_process()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes at most `max` messages, as the batch of this number.
    pub(super) fn take(&self, max: usize) -> Result<Option<(SpscRun, u64)>, SpscFault> {
        let state = &mut *self.state();
        let note = |slot: usize, len_bytes: u32| self.lengths[slot].store(len_bytes.into());
        let Some(run) = state.receiver.take(max, note)? else { return Ok(None) };
        let batch = state.first + state.open.len() as u64;
        state.open.push_back(Open { count: run.count, done: false });
        Ok(Some((run, batch)))
    }

    /// Whether something can be taken, or is to be told.
    pub(super) fn is_ready(&self) -> bool {
        self.state().receiver.available() != Ok(0)
    }

    /// Is done with a batch. Positions are done in order: those behind an older batch when that is done.
    pub(super) fn finish(&self, batch: u64) {
        let state = &mut *self.state();
        let Some(open) =
            usize::try_from(batch.wrapping_sub(state.first)).ok().and_then(|nth| state.open.get_mut(nth))
        else {
            return;
        };
        open.done = true;
        let mut count = 0;
        while let Some(open) = state.open.pop_front_if(|open| open.done) {
            count += open.count;
            state.first += 1;
        }
        if count > 0
            && let Some(word) = state.receiver.finish(count)
        {
            wait::wake_all(word);
        }
    }

    /// Says that the consumer sleeps; on what.
    pub(super) fn begin_sleep(&self) -> Sleep<'_> {
        let value = self.state().receiver.begin_sleep();
        Sleep { word: &self.signal.as_ref()[0], value }
    }

    pub(super) fn end_sleep(&self) {
        self.state().receiver.end_sleep();
    }

    /// Slot and length of a message that was taken and is not done.
    pub(super) fn message(&self, position: u64) -> (usize, u32) {
        let slot = usize::try_from(position & (self.lengths.len() as u64 - 1)).unwrap_or(0);
        (slot, u32::try_from(self.lengths[slot].load()).unwrap_or(0))
    }

    pub(super) fn memory(&self) -> &PeerMemory {
        &self.peer
    }
}
