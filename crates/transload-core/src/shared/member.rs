//! One member's way to the shared words.

use super::grant::SharedGrant;
use super::layout::{SharedCount, Sleeper};
use super::parts::SharedParts;
use super::poison::Poisoned;
use super::slot::{SlotState, SlotWord};
use super::word::{FutexWord, SharedWord};
use crate::sync::{AtomicBool, AtomicU64, Ordering, order};
use crate::wait::Barrier;

/// One member's way to the words, for all of its threads.
///
/// `held` and the like are the member's private memory. That this member has its number, and nobody else, is for the
/// caller to see to.
#[derive(Debug)]
pub struct SharedMember<W, F, P, B> {
    pub(super) parts: SharedParts<W, F>,
    pub(super) number: u16,
    /// The word by which this member has a buffer; 0 if it has not. One for each buffer.
    held: P,
    /// Why nothing is touched any more; 0 if it may be.
    poison: AtomicU64,
    /// Whether the last message found no room in the ring: then the next one looks first.
    pub(super) was_full: AtomicBool,
    pub(super) barrier: B,
}

impl<W, F, P, B> SharedMember<W, F, P, B>
where
    W: AsRef<[SharedWord]>,
    F: AsRef<[FutexWord]>,
    P: AsRef<[SharedWord]>,
    B: Barrier,
{
    /// A member.
    ///
    /// # Panics
    ///
    /// If `held` has not as many words as there are buffers, or there is no such number.
    pub fn new(parts: SharedParts<W, F>, number: u16, held: P, barrier: B) -> Self {
        assert_eq!(held.as_ref().len(), parts.buffers(), "one private word a buffer");
        assert!(parts.is_member(number), "members are numbered from 1");
        Self { parts, number, held, poison: AtomicU64::new(0), was_full: AtomicBool::new(false), barrier }
    }

    /// The words that all members see.
    pub fn parts(&self) -> &SharedParts<W, F> {
        &self.parts
    }

    /// This member's number.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// Refuses everything once the words were seen to be spoilt.
    ///
    /// # Errors
    ///
    /// [`Poisoned`].
    #[inline]
    pub fn check(&self) -> Result<(), Poisoned> {
        match self.poison.load(Ordering::Relaxed) {
            0 => Ok(()),
            word => Err(Poisoned::of_word(word).unwrap_or(Poisoned::Astray { position: 0 })),
        }
    }

    #[cold]
    pub(super) fn poisoned(&self, why: Poisoned) -> Poisoned {
        // The first reason stays.
        let first = self.poison.compare_exchange(0, why.to_word(), Ordering::Relaxed, Ordering::Relaxed);
        first.err().and_then(Poisoned::of_word).unwrap_or(why)
    }

    /// Notes that this member has a buffer by this word.
    #[inline]
    pub(super) fn hold(&self, index: u32, word: SlotWord) -> Result<(), Poisoned> {
        // Ordered by the shared word, which this member's threads have just swapped as well.
        if self.held(index).swap(word.0, Ordering::Relaxed) == 0 {
            Ok(())
        } else {
            Err(self.poisoned(Poisoned::Twice { buffer: index }))
        }
    }

    /// Notes that it has it no more, before anybody else can have it; and says by which word it had it.
    #[inline]
    pub(super) fn let_go(&self, index: u32) -> SlotWord {
        let held = self.held(index);
        let word = SlotWord(held.load(Ordering::Relaxed));
        held.store(0, Ordering::Relaxed);
        word
    }

    #[inline]
    pub(super) fn held(&self, index: u32) -> &AtomicU64 {
        &self.held.as_ref()[index as usize].0
    }

    /// The word of a slot that this member has, which so exists.
    #[inline]
    pub(super) fn own_slot(&self, index: u32) -> &AtomicU64 {
        match self.parts.slot(index) {
            Some(word) => word,
            None => unreachable!("a grant is of a buffer"),
        }
    }

    /// Gives a buffer back, and says whether somebody waits for it.
    ///
    /// # Errors
    ///
    /// [`Poisoned`] if somebody took it away meanwhile.
    #[inline]
    pub fn release(&self, grant: SharedGrant) -> Result<bool, Poisoned> {
        self.check()?;
        self.free(grant.index())?;
        self.barrier.light();
        Ok(self.parts.sleeper(Sleeper::Room).take_announcement())
    }

    /// Frees a slot that this member has.
    #[inline]
    pub(super) fn free(&self, index: u32) -> Result<(), Poisoned> {
        let word = self.let_go(index);
        let free = word.let_go();
        self.parts.step();
        // SYNC: shared-lend (release): our use of the bytes comes before the next owner's. A store would do, as the word
        // is ours; the swap sees whether it still was.
        let swapped = self.own_slot(index).compare_exchange(
            word.0,
            free.0,
            order!(SharedLend, Release),
            Ordering::Relaxed,
        );
        if swapped.is_err() {
            return Err(self.poisoned(Poisoned::TakenAway { buffer: index }));
        }
        if word.is_tainted() {
            self.parts.add(SharedCount::Quarantined, 1);
            return Ok(());
        }
        self.parts.step();
        // SYNC: shared-tally (release): the freed word comes before its count.
        self.parts.released_by(self.number).fetch_add(1, order!(SharedTally, Release));
        Ok(())
    }

    /// Notes in the word that a kernel or a device may access the buffer from now on, until
    /// [`take_back`](SharedMember::take_back): if this member dies meanwhile, nobody else gets it.
    ///
    /// # Errors
    ///
    /// [`Poisoned`].
    pub fn lend(&self, grant: &SharedGrant) -> Result<(), Poisoned> {
        self.turn(grant.index(), SlotState::Lent)
    }

    /// Notes that nobody but this member accesses the buffer any more.
    ///
    /// # Errors
    ///
    /// [`Poisoned`].
    pub fn take_back(&self, grant: &SharedGrant) -> Result<(), Poisoned> {
        self.turn(grant.index(), SlotState::Owned)
    }

    /// Changes the state of a slot that this member has.
    pub(super) fn turn(&self, index: u32, state: SlotState) -> Result<(), Poisoned> {
        self.check()?;
        let word = SlotWord(self.held(index).load(Ordering::Relaxed));
        let turned = word.with(self.number, state);
        self.parts.step();
        let swapped =
            self.own_slot(index).compare_exchange(word.0, turned.0, Ordering::Relaxed, Ordering::Relaxed);
        if swapped.is_err() {
            return Err(self.poisoned(Poisoned::TakenAway { buffer: index }));
        }
        self.held(index).store(turned.0, Ordering::Relaxed);
        Ok(())
    }

    /// Keeps a buffer from all owners for ever: somebody may still access it of whom nobody will know when it is done.
    ///
    /// # Errors
    ///
    /// [`Poisoned`].
    pub fn quarantine(&self, grant: SharedGrant) -> Result<(), Poisoned> {
        self.retire(grant.index())
    }

    pub(super) fn retire(&self, index: u32) -> Result<(), Poisoned> {
        self.turn(index, SlotState::Quarantined)?;
        self.held(index).store(0, Ordering::Relaxed);
        self.parts.add(SharedCount::Quarantined, 1);
        Ok(())
    }
}
