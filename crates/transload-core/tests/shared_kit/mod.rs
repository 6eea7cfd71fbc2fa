//! A pool and a ring that processes share, with one loom cell a buffer, so that two users at once are a data race.
#![allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "each model uses its part of this, and a test may panic"
)]

use super::common::{Fences, explore};
use loom::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use transload_core::{
    CONTROL_WORDS, ClaimCursor, Died, FutexWord, MEMBER_WORDS, Recovered, SLEEPER_WORDS, SharedMember,
    SharedNoGrant, SharedNotes, SharedParts, SharedReader, SharedSendError, SharedTakeError, SharedTaken,
    SharedWord,
};

/// Everything starts here: the last lap of a ring but one lease of each buffer before the tags wrap.
const LAST_LAP: u64 = (1 << 24) - 1;
const LAST_TAG: u32 = (1 << 18) - 1;
/// How many members there can be.
const MEMBERS: usize = 4;

type Words = Arc<[SharedWord]>;
pub type Parts = SharedParts<Words, Arc<[FutexWord]>>;
pub type Member = SharedMember<Words, Arc<[FutexWord]>, Box<[SharedWord]>, Fences>;
pub type Notes = SharedNotes<Box<[SharedWord]>>;

fn words<W: FromIterator<SharedWord>>(count: usize) -> W {
    (0..count).map(|_| SharedWord::new(0)).collect()
}

/// What processes would map.
pub struct Modelled {
    control: Words,
    sleepers: Arc<[FutexWord]>,
    members: Words,
    slots: Words,
    cells: Words,
    buffers: Box<[UnsafeCell<u64>]>,
    pub fences: Fences,
}

impl Modelled {
    /// Without the fences of sleepers, which loom makes stronger than they are: nothing may rest on them.
    pub fn new(buffers: usize, cells: usize) -> loom::sync::Arc<Self> {
        Self::with_fences(buffers, cells, Fences(false))
    }

    pub fn with_fences(buffers: usize, cells: usize, fences: Fences) -> loom::sync::Arc<Self> {
        let model = Self {
            control: words(CONTROL_WORDS),
            sleepers: (0..SLEEPER_WORDS).map(|_| FutexWord::new(0)).collect(),
            members: words((MEMBERS + 1) * MEMBER_WORDS),
            slots: words(buffers),
            cells: words(cells),
            buffers: (0..buffers).map(|_| UnsafeCell::new(0)).collect(),
            fences,
        };
        model.parts().start_at(LAST_LAP, LAST_TAG - 1);
        loom::sync::Arc::new(model)
    }

    pub fn parts(&self) -> Parts {
        SharedParts::new(
            self.control.clone(),
            self.sleepers.clone(),
            self.members.clone(),
            self.slots.clone(),
            self.cells.clone(),
        )
        .unwrap()
    }

    /// A member. Its number is proven to be nobody else's by whatever orders the threads of the model.
    pub fn member(&self, number: u16) -> Member {
        SharedMember::new(self.parts(), number, words(self.slots.len()), self.fences)
    }

    pub fn recover(&self, dead: u16) -> Recovered {
        self.parts().recover(dead, &self.fences)
    }

    pub fn write(&self, index: u32, value: u64) {
        // SAFETY: the pool lent the buffer to this thread alone; loom reports it if that is false.
        self.buffers[index as usize].with_mut(|buffer| unsafe { *buffer = value });
    }

    pub fn read(&self, index: u32) -> u64 {
        // SAFETY: the pool lent the buffer to this thread alone; loom reports it if that is false.
        self.buffers[index as usize].with(|buffer| unsafe { *buffer })
    }

    /// Sends a value, if there are a buffer and a place; what is not sent is given back.
    pub fn send(&self, member: &Member, value: u32) -> Result<bool, NotSent> {
        let grant = member.claim(&ClaimCursor::new(0))?;
        self.write(grant.index(), value.into());
        member.send(grant, value).map_err(|refused| {
            let _ = member.release(refused.grant).unwrap();
            NotSent::Send(refused.error)
        })
    }

    /// Whether every buffer is free.
    pub fn assert_free(&self) {
        let parts = self.parts();
        for index in 0..self.slots.len() {
            let holding = parts.holding(u32::try_from(index).unwrap());
            assert_eq!(holding, None, "leak: buffer {index} is not free at the end");
        }
    }
}

/// Why nothing was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotSent {
    Claim(SharedNoGrant),
    Send(SharedSendError),
}

impl From<SharedNoGrant> for NotSent {
    fn from(why: SharedNoGrant) -> Self {
        Self::Claim(why)
    }
}

/// A consumer, as one process has it.
pub struct Consumer {
    pub model: loom::sync::Arc<Modelled>,
    pub member: Member,
    pub reader: SharedReader,
    pub notes: Notes,
    /// What was delivered to it: the value, and whether it had been taken before.
    pub delivered: Vec<(u32, bool)>,
}

impl Consumer {
    pub fn new(model: &loom::sync::Arc<Modelled>, number: u16) -> Self {
        let member = model.member(number);
        let reader = member.reader();
        let notes = SharedNotes::new(words(model.cells.len()));
        Self { model: model.clone(), member, reader, notes, delivered: Vec::new() }
    }

    /// Takes and reads at most so many.
    pub fn take(&mut self, max: usize) -> Result<SharedTaken, SharedTakeError> {
        let taken = self.member.take(&mut self.reader, &self.notes, max)?;
        for nth in 0..taken.count() {
            let message = self.member.message(&self.notes, &taken, nth).unwrap();
            assert_eq!(self.model.read(message.index), message.len_bytes.into(), "torn");
            self.delivered.push((message.len_bytes, message.redelivered));
        }
        Ok(taken)
    }

    pub fn finish(&self, taken: SharedTaken) -> bool {
        self.member.finish(&self.notes, taken).unwrap()
    }

    /// Takes and finishes at most so many.
    pub fn receive(&mut self, max: usize) -> Result<(), SharedTakeError> {
        let taken = self.take(max)?;
        let _ = self.finish(taken);
        Ok(())
    }

    /// Takes one over, writes to it as an owner may, and gives it back.
    pub fn receive_over(&mut self) -> Result<(), SharedTakeError> {
        let mut taken = self.take(1)?;
        let (grant, _) = self.member.keep(&self.notes, &mut taken).unwrap().unwrap();
        self.model.write(grant.index(), 0);
        let _ = self.member.release(grant).unwrap();
        Ok(())
    }

    /// Takes all that is there.
    pub fn drain(&mut self) {
        let end = loop {
            if let Err(end) = self.receive(usize::MAX) {
                break end;
            }
        };
        assert_eq!(end, SharedTakeError::Empty);
    }

    /// How often a value was delivered.
    pub fn times(&self, value: u32) -> usize {
        self.delivered.iter().filter(|&&(delivered, _)| delivered == value).count()
    }
}

/// Whether somebody has died in any execution of a model.
#[derive(Clone, Default)]
pub struct Deaths(Arc<AtomicBool>);

impl Deaths {
    /// Runs what a member does until it dies before its `writes`th write; nothing if it did.
    pub fn until<R>(&self, parts: &Parts, writes: u32, act: impl FnOnce() -> R) -> Option<R> {
        parts.die_before_write(writes);
        let outcome = self.outcome(act);
        parts.die_before_write(u32::MAX);
        outcome
    }

    /// The same of a consumer, which then keeps what it has noted.
    pub fn until_consumer<R>(
        &self,
        consumer: &mut Consumer,
        writes: u32,
        act: impl FnOnce(&mut Consumer) -> R,
    ) -> Option<R> {
        consumer.member.parts().die_before_write(writes);
        let outcome = self.outcome(|| act(consumer));
        consumer.member.parts().die_before_write(u32::MAX);
        outcome
    }

    fn outcome<R>(&self, act: impl FnOnce() -> R) -> Option<R> {
        match catch_unwind(AssertUnwindSafe(act)) {
            Ok(done) => Some(done),
            Err(died) if died.is::<Died>() => {
                self.0.store(true, Ordering::Relaxed);
                None
            }
            Err(other) => std::panic::resume_unwind(other),
        }
    }
}

/// Explores a model for a death before each write, until nobody lives to make so many; takes the least number of writes.
pub fn explore_deaths(
    preemptions: usize,
    least: u32,
    model: impl Fn(u32, &Deaths) + Clone + Send + Sync + 'static,
) {
    for writes in 0.. {
        let deaths = Deaths::default();
        let (model, noted) = (model.clone(), deaths.clone());
        print!("death before write {writes}: ");
        explore(preemptions, move || model(writes, &noted));
        if !deaths.0.load(Ordering::Relaxed) {
            assert!(writes >= least, "died at {writes} places only");
            return;
        }
    }
}
