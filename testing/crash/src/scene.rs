//! A region around one victim: what there is before it acts, and what must be true once it is dead.

use std::collections::HashSet;
use std::fmt;

use transload::shared::{
    Recovered, SendError, SharedAcquireError, SharedConsumer, SharedLease, SharedPool, SharedRegion,
    TakeError,
};
use transload_core::{FullBarrier, SharedWord, Sleeper, SlotState};

use crate::inherit::start_with;
use crate::interplay::Interplay;
use crate::operation::{EXIT_DONE, EXIT_EMPTY, EXIT_EXHAUSTED, EXIT_FULL, Operation, VICTIM_ID};
use crate::trace::Tracee;
use crate::victim::Victim;
use crate::view::{Published, Slot, View, full_cell};

/// The member that goes on.
const SURVIVOR: u16 = 1;
/// The member that is stopped and killed.
pub const VICTIM: u16 = 2;
/// The member that has died before, in the scenes that have one.
pub const CORPSE: u16 = 3;
const MEMBERS: usize = 4;
const BUFFERS: u32 = 4;
const BUFFER_BYTES: usize = 256;
/// What the messages of the dead member have in them: one that nobody has taken, and one that it had taken.
const UNTAKEN_ID: u64 = 55;
const TAKEN_ID: u64 = 56;
/// What the messages have in them that are sent once the victim is dead.
const REFILL_ID: u64 = 1000;
/// What the buffers have in them that the survivor has, from this on.
const KEPT_ID: u64 = 500;
/// How many more go through at the end.
const MORE: u64 = 20;

/// What has gone wrong.
pub type Fault = String;

/// What came out of one death.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Outcome {
    /// Messages that arrived, of those sent before the death.
    pub delivered: usize,
    /// Those of them that a dead consumer had taken.
    pub redelivered: usize,
    /// What the recovery said.
    pub freed: u64,
    /// As above.
    pub put_back: u64,
    /// Buffers that nobody gets any more.
    pub quarantined: usize,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { delivered, redelivered, freed, put_back, quarantined } = self;
        write!(f, "{delivered} delivered")?;
        for (count, what) in [(*redelivered as u64, "again"), (*freed, "freed"), (*put_back, "put back")] {
            if count > 0 {
                write!(f, ", {count} {what}")?;
            }
        }
        if *quarantined > 0 { write!(f, ", {quarantined} quarantined") } else { Ok(()) }
    }
}

/// A message as a consumer gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Got {
    /// Which.
    pub id: u64,
    /// Whether it says that it comes once more.
    pub redelivered: bool,
}

impl Got {
    /// How a message that is in the ring must arrive: as a repeat, if somebody had taken it.
    fn of(published: &Published) -> Got {
        let Slot { owner, state, .. } = published.slot;
        let redelivered = owner == 0 || matches!(state, SlotState::Owned | SlotState::Lent);
        Got { id: published.id, redelivered }
    }
}

/// A region, and all in it but the victim.
#[derive(Debug)]
pub struct Scene {
    operation: Operation,
    survivor: SharedPool,
    /// Buffers that the survivor has, all the time.
    kept: Vec<SharedLease>,
    /// Messages that were sent, in order: the send had returned.
    sent: Vec<u64>,
    /// Messages that somebody was done with before the death.
    done: Vec<u64>,
    view: View,
}

impl Scene {
    /// A region as the operation wants it.
    ///
    /// # Panics
    ///
    /// If it cannot be made.
    pub fn new(operation: Operation) -> Scene {
        let ring_slots =
            if matches!(operation, Operation::SendFull | Operation::SendTooLate) { 2 } else { 4 };
        let builder = SharedRegion::builder(BUFFERS as usize, BUFFER_BYTES);
        let region = builder.ring_slots(ring_slots).members(MEMBERS).create().unwrap();
        let view = View::of(&region).unwrap();
        // Laps and tags wrap in the middle of it.
        view.parts().start_at((1 << 24) - 1, (1 << 18) - 2);
        let survivor = SharedPool::join(&region, "survivor").unwrap();
        assert_eq!(survivor.member(), SURVIVOR);
        let mut scene =
            Scene { operation, survivor, kept: Vec::new(), sent: Vec::new(), done: Vec::new(), view };
        scene.prepare();
        scene
    }

    fn prepare(&mut self) {
        let (messages, kept) = match self.operation {
            Operation::Acquire | Operation::TwinAcquire => (1, 1),
            Operation::AcquireNothing => (2, 2),
            Operation::Take | Operation::TwinTake => (3, 0),
            Operation::SendFull | Operation::TakeBehindDead => (2, 0),
            Operation::SendTooLate | Operation::TakeNothing => (0, 0),
            // One more than it has taken, if there is room.
            other if other.taken() > 0 => (3.max(other.taken() as u64), 0),
            // All buffers are the dead member's.
            _ if self.has_corpse() => (0, 0),
            _ => (1, 0),
        };
        if self.operation == Operation::TakeBehindDead {
            // Two that are done, over which a dead consumer has not moved the head.
            let head = self.view.head().load();
            (0..2).for_each(|id| self.survivor.ring().try_send_copy(&u64::to_le_bytes(id)).unwrap());
            drop(self.survivor.ring().consumer().unwrap().take(2).unwrap());
            assert_eq!(self.view.head().load(), head + 2);
            self.view.head().store(head);
        }
        for id in 1..=messages {
            self.send(id).unwrap();
        }
        for _ in 0..kept {
            let lease = self.survivor.try_acquire().unwrap();
            self.keep(lease);
        }
        let sleeper = |sleeper| self.view.parts().sleeper(sleeper).announce(&FullBarrier);
        match self.operation {
            Operation::Send => sleeper(Sleeper::Consumer),
            Operation::Release | Operation::FinishAll | Operation::Recover => sleeper(Sleeper::Room),
            Operation::SendBehindDead => self.view.tail().store(self.view.tail().load() - 1),
            Operation::Take => {
                let first = self.view.published()[0];
                let put_back = Slot { owner: 0, ..first.slot };
                self.view.slots()[first.index as usize].store(put_back.to_word());
            }
            _ => {}
        }
        if self.has_corpse() {
            self.bury(if self.operation == Operation::JoinAfterDead { VICTIM } else { CORPSE });
        }
    }

    /// Leaves a dead member, by its number, with a buffer of each kind: owned, sent and not in the ring, sent, taken.
    fn bury(&mut self, dead: u16) {
        let tail = self.view.tail().load();
        let states = [(SlotState::Owned, None), (SlotState::Sent, None)];
        let named = [(SlotState::Sent, Some(UNTAKEN_ID)), (SlotState::Owned, Some(TAKEN_ID))];
        // Those that it had taken come first in the ring.
        let mut position = tail + 1;
        for (index, (state, id)) in (0_u32..).zip(states.into_iter().chain(named)) {
            let slot = Slot { owner: dead, state, len_bytes: 8, ..self.view.slot(index) };
            self.view.slots()[index as usize].store(slot.to_word());
            if let Some(id) = id {
                self.view.set_id(index, id);
                let (cell, lap) = self.view.cell(position);
                cell.store(full_cell(lap, index, slot.tag));
                position -= 1;
            }
        }
        self.view.tail().store(tail + 2);
        self.view.member_state(dead).store(3);
        self.sent.extend([TAKEN_ID, UNTAKEN_ID]);
    }

    /// The region.
    pub fn region(&self) -> &SharedRegion {
        self.survivor.region()
    }

    /// Its words.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// The survivor.
    pub fn survivor(&self) -> &SharedPool {
        &self.survivor
    }

    /// What the victim does.
    pub fn operation(&self) -> Operation {
        self.operation
    }

    /// Whether there is a member that had died before, or the victim has its number.
    pub fn has_corpse(&self) -> bool {
        use Operation::{BecomeConsumer, JoinAfterDead, Recover, TwinRecover};
        matches!(self.operation, BecomeConsumer | JoinAfterDead | Recover | TwinRecover)
    }

    /// The slot words that say that a member has them.
    pub fn words_of(&self, member: u16) -> Vec<u64> {
        self.view
            .slots()
            .iter()
            .map(SharedWord::load)
            .filter(|word| word >> 54 == u64::from(member))
            .collect()
    }

    /// Keeps a lease of the survivor's to the end.
    ///
    /// # Panics
    ///
    /// If it cannot be written.
    pub fn keep(&mut self, mut lease: SharedLease) {
        lease.write_at(0, &(KEPT_ID + self.kept.len() as u64).to_le_bytes()).unwrap();
        self.kept.push(lease);
    }

    /// Notes that somebody was done with these messages.
    pub fn note_done(&mut self, ids: impl Iterator<Item = u64>) {
        self.done.extend(ids);
    }

    /// What a consumer gets now.
    pub fn expected(&self) -> Vec<Got> {
        self.view.published().iter().map(Got::of).collect()
    }

    /// Starts the victim, and lets it run until it is about to begin.
    ///
    /// # Panics
    ///
    /// If it does not come to that.
    pub fn start(&self, victim: &Victim) -> Tracee {
        let mut command = victim.command();
        command.arg(self.operation.name());
        let file = self.region().file_for_peer().unwrap();
        start_with(vec![file], &mut command, Tracee::start).unwrap()
    }

    /// Sends a message as the survivor.
    ///
    /// # Errors
    ///
    /// Why it could not be sent.
    pub fn send(&mut self, id: u64) -> Result<(), SendError> {
        self.survivor.ring().try_send_copy(&id.to_le_bytes())?;
        self.sent.push(id);
        Ok(())
    }

    /// Whether others disturb the operation.
    pub fn is_to_disturb(&self) -> bool {
        self.operation == Operation::SendTooLate
    }

    /// Disturbs the operation if it is time to: the word says that the message is sent, and the ring gets full before it
    /// is in. Says whether it was time.
    ///
    /// # Panics
    ///
    /// If the ring has no room.
    pub fn disturb(&mut self) -> bool {
        let sent =
            |index| self.view.slot(index).owner == VICTIM && self.view.slot(index).state == SlotState::Sent;
        let is_time = (0..BUFFERS).any(sent);
        if is_time {
            (1..=2).for_each(|id| self.send(id).unwrap());
        }
        is_time
    }

    /// Recovers what a dead victim had, and checks all that must be true then. `has_ended`: its operation had returned;
    /// `has_begun`: it had executed an instruction of it.
    ///
    /// # Errors
    ///
    /// What is not true.
    pub fn judge(mut self, has_begun: bool, has_ended: bool) -> Result<Outcome, Fault> {
        let left = self.view.published();
        let out = self.lent_by_victim();
        self.check_truth(&left, has_begun, has_ended)?;
        let recovered = self.recover()?;
        let (delivered, redelivered) = self.drain(&left)?;
        let outcome = Outcome {
            delivered,
            redelivered,
            freed: recovered.freed,
            put_back: recovered.put_back,
            quarantined: self.survivor.statistics().quarantined,
        };
        if outcome.quarantined != out {
            return Err(format!("{} buffers are quarantined, not {out}", outcome.quarantined));
        }
        self.move_on(BUFFERS as usize - out)?;
        Ok(outcome)
    }

    fn lent_by_victim(&self) -> usize {
        let slots = (0..BUFFERS).map(|index| self.view.slot(index));
        slots.filter(|slot| matches!(slot.state, SlotState::Lent | SlotState::Quarantined)).count()
    }

    /// What must be in the ring, and what must not, at the moment of the death.
    fn check_truth(&self, left: &[Published], has_begun: bool, has_ended: bool) -> Result<(), Fault> {
        use Operation::{Finish, FinishAll, IntoLeases, Quarantine, TwinFinish};
        let ends_messages =
            matches!(self.operation, Finish | FinishAll | IntoLeases | Quarantine | TwinFinish);
        let may_be_gone = if ends_messages && has_begun { self.operation.taken() } else { 0 };
        self.check_messages(left, may_be_gone, has_ended)?;
        let sends = self.operation.sends();
        let is_own_there = left.iter().any(|published| published.id == VICTIM_ID);
        // Where others have filled the ring meanwhile, it says so.
        let may_be_full = matches!(self.operation, Operation::SendFull | Operation::SendTooLate);
        let is_sent = sends && has_ended && !may_be_full;
        if is_sent && !is_own_there && !self.done.contains(&VICTIM_ID) {
            return Err("a message that was sent is not in the ring".to_owned());
        }
        if is_own_there && !(sends && has_begun) {
            return Err("a message that was not sent is in the ring".to_owned());
        }
        Ok(())
    }

    /// Of the others' messages all must be in the ring, except for the first ones, which may be done or must be.
    fn check_messages(&self, left: &[Published], gone: usize, must_be_gone: bool) -> Result<(), Fault> {
        for (nth, &id) in self.sent.iter().enumerate() {
            let is_left = left.iter().any(|published| published.id == id);
            let is_done = self.done.contains(&id);
            if is_left && is_done {
                return Err(format!("message {id} is done, and is in the ring"));
            }
            if !is_left && !is_done && nth >= gone {
                return Err(format!("message {id} is in the ring no more, and nobody was done with it"));
            }
            if is_left && nth < gone && must_be_gone {
                return Err(format!("message {id} was done, and is in the ring"));
            }
        }
        Ok(())
    }

    /// Checks all that must be true once a victim has come to its end, with this exit code, after the survivor has done
    /// something in the middle.
    ///
    /// # Errors
    ///
    /// What is not true.
    pub fn judge_alive(mut self, code: i32, play: Interplay) -> Result<(), Fault> {
        let left = self.view.published();
        if !self.may_exit(code, play) {
            return Err(format!("it ended with code {code}"));
        }
        let slots = (0..BUFFERS).map(|index| self.view.slot(index));
        let left_over = |slot: &Slot| matches!(slot.state, SlotState::Owned | SlotState::Lent);
        if slots.filter(|slot| slot.owner == VICTIM).any(|slot| left_over(&slot)) {
            return Err(format!("it has left, and has {:x?}", self.words_of(VICTIM)));
        }
        let gone = if code == EXIT_DONE { self.operation.done_in_the_end() } else { 0 };
        self.check_messages(&left, gone, true)?;
        let is_sent = self.operation.sends() && code == EXIT_DONE;
        let is_there = left.iter().any(|published| published.id == VICTIM_ID);
        if is_sent != (is_there || self.done.contains(&VICTIM_ID)) {
            return Err(format!(
                "its message is {}in the ring, the code {code}",
                if is_there { "" } else { "not " }
            ));
        }
        let recovered = self.recover()?;
        if !recovered.is_empty() && !self.has_corpse() {
            return Err(format!("it has left, and {recovered:?} was found"));
        }
        self.drain(&left)?;
        let quarantined = self.survivor.statistics().quarantined;
        let expected = if self.operation == Operation::Quarantine { self.operation.taken() } else { 0 };
        if quarantined != expected {
            return Err(format!("{quarantined} buffers are quarantined, not {expected}"));
        }
        self.move_on(BUFFERS as usize - expected)
    }

    /// Whether the victim may end so, after the survivor has done that.
    fn may_exit(&self, code: i32, play: Interplay) -> bool {
        use Operation::{Acquire, AcquireNothing, SendCopy, SendFull, SendTooLate, TakeNothing};
        match (self.operation, play) {
            (Acquire, Interplay::Fill) | (AcquireNothing, Interplay::Consume) => {
                [EXIT_DONE, EXIT_EXHAUSTED].contains(&code)
            }
            (AcquireNothing, _) => code == EXIT_EXHAUSTED,
            (SendFull, Interplay::Consume) | (SendCopy, Interplay::Fill) => {
                [EXIT_DONE, EXIT_FULL].contains(&code)
            }
            (SendTooLate, _) => [EXIT_DONE, EXIT_FULL].contains(&code),
            (SendFull, _) => code == EXIT_FULL,
            (TakeNothing, Interplay::Send | Interplay::Fill) => [EXIT_DONE, EXIT_EMPTY].contains(&code),
            (TakeNothing, _) => code == EXIT_EMPTY,
            _ => code == EXIT_DONE,
        }
    }

    fn recover(&self) -> Result<Recovered, Fault> {
        let recovered = self.survivor.recover();
        for index in 0..BUFFERS {
            let slot = self.view.slot(index);
            let is_dead = [VICTIM, CORPSE].contains(&slot.owner);
            if is_dead && matches!(slot.state, SlotState::Owned | SlotState::Lent) {
                return Err(format!("buffer {index} is still {slot:?} after the recovery"));
            }
        }
        let again = self.survivor.recover();
        if again.is_empty() { Ok(recovered) } else { Err(format!("a second recovery found {again:?}")) }
    }

    /// Fills the ring up, and takes all that is in it, which must be what was left there and what was sent since.
    fn drain(&mut self, left: &[Published]) -> Result<(usize, usize), Fault> {
        let mut expected: Vec<Got> = left.iter().map(Got::of).collect();
        let before = expected.len();
        for id in REFILL_ID.. {
            match self.send(id) {
                Ok(()) => expected.push(Got { id, redelivered: false }),
                Err(SendError::Full) => break,
                Err(error) => return Err(format!("a send after the death: {error}")),
            }
        }
        let room = self.view.cells().len().min(BUFFERS as usize - self.kept.len());
        // Of those that are quarantined, some are in the ring, and of no use any more then.
        if expected.len() + self.lent_by_victim() < room {
            return Err(format!("the ring has room for {} messages only, not {room}", expected.len()));
        }
        let counted = self.survivor.statistics().redelivered;
        let mut consumer =
            self.survivor.ring().consumer().map_err(|error| format!("no consumer: {error}"))?;
        let mut taken = Vec::new();
        while let Some(more) = take(&mut consumer, 3).map_err(|error| error.to_string())? {
            taken.extend(more);
        }
        if taken != expected {
            return Err(format!("{taken:?} arrived, not {expected:?}"));
        }
        let redelivered = expected.iter().filter(|message| message.redelivered).count();
        let statistics = self.survivor.statistics();
        if statistics.redelivered - counted != redelivered as u64 || statistics.spoiled != 0 {
            return Err(format!("counts of {redelivered} repeats and none spoiled: {statistics:?}"));
        }
        Ok((before, redelivered))
    }

    /// Everything works as if nothing had happened, with so many buffers.
    fn move_on(mut self, buffers: usize) -> Result<(), Fault> {
        let mut consumer = self.survivor.ring().consumer().map_err(|error| error.to_string())?;
        for id in (2 * REFILL_ID..).take(usize::try_from(MORE).unwrap_or(0)) {
            self.send(id).map_err(|error| format!("message {id}: {error}"))?;
            let taken = take(&mut consumer, 1).map_err(|error| error.to_string())?;
            if taken != Some(vec![Got { id, redelivered: false }]) {
                return Err(format!("{taken:?} arrived, not {id}"));
            }
        }
        drop(consumer);
        for (nth, lease) in (0..).zip(&self.kept) {
            let (slot, id) = (self.view.slot(lease.index()), self.view.id(lease.index()));
            if slot.owner != SURVIVOR || slot.state != SlotState::Owned || id != KEPT_ID + nth {
                return Err(format!("a lease of the survivor is {slot:?}, with {id} in it"));
            }
        }
        // A new member gets the dead one's number, and all buffers between them are given out once.
        let new = SharedRegion::open(self.region().file_for_peer().map_err(|error| error.to_string())?);
        let new = new.map_err(|error| error.to_string())?;
        let new = SharedPool::join(&new, "new").map_err(|error| error.to_string())?;
        if new.member() != VICTIM {
            return Err(format!("the dead member's number is lost: a new one is {}", new.member()));
        }
        let mut leases = std::mem::take(&mut self.kept);
        for pool in [&self.survivor, &new].into_iter().cycle() {
            match pool.try_acquire() {
                Ok(lease) => leases.push(lease),
                Err(SharedAcquireError::Exhausted) => break,
                Err(error) => return Err(error.to_string()),
            }
        }
        let distinct: HashSet<u32> = leases.iter().map(SharedLease::index).collect();
        if leases.len() != buffers || distinct.len() != buffers {
            return Err(format!("{} leases of {} buffers, of {buffers}", leases.len(), distinct.len()));
        }
        drop(leases);
        drop(new);
        let statistics = self.survivor.statistics();
        if statistics.free != buffers || statistics.pending != 0 {
            return Err(format!("not all is free in the end: {statistics:?}"));
        }
        Ok(())
    }
}

/// Takes at most so many, and is done with them.
///
/// # Errors
///
/// Why there is nothing, if not since there is nothing.
///
/// # Panics
///
/// If a message is not as long as all are.
pub fn take(consumer: &mut SharedConsumer, most: usize) -> Result<Option<Vec<Got>>, TakeError> {
    let batch = match consumer.take(most) {
        Ok(batch) => batch,
        Err(TakeError::Empty) => return Ok(None),
        Err(error) => return Err(error),
    };
    let got = batch.iter().map(|message| {
        let mut id = [0; 8];
        batch.read(&message, &mut id).unwrap();
        assert_eq!(message.len_bytes, 8);
        Got { id: u64::from_le_bytes(id), redelivered: message.redelivered }
    });
    Ok(Some(got.collect()))
}
