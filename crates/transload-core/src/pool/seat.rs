//! One line of counters and one short list of hints for each thread that uses a pool.

use core::cell::Cell;
use core::marker::PhantomData;

use crate::Counter;
use crate::sync::{AtomicU32, AtomicU64, Ordering, order};

/// How many threads at a time have a seat of their own. All others share one more, which costs them read-modify-writes
/// where a seat's owner stores.
pub const SEATS: usize = if cfg!(feature = "model") { 2 } else { 63 };
/// The seat for all who have none of their own.
const SHARED: usize = SEATS;
/// Hints of a seat: as many as a word of the summary has, so that an empty list takes a whole one.
const HINTS: usize = if cfg!(feature = "model") { 2 } else { 64 };

/// No index: there are at most 2^31 buffers.
const NONE: u32 = u32::MAX;

const ONE_RELEASE: u64 = 1 << 32;

/// One thread's place at a pool.
///
/// Neither `Clone` nor `Sync`: one thread at a time uses it, so its counters need no read-modify-write. It is of one pool
/// and must be used there only: with the seat of another pool, counts go wrong and buffers seem leased that are not.
#[derive(Debug)]
pub struct Seat {
    index: usize,
    one_thread: PhantomData<Cell<()>>,
}

impl Seat {
    /// The seat that any number of threads may use at once, for those who cannot keep one.
    pub fn shared() -> Self {
        Self::at(SHARED)
    }

    fn at(index: usize) -> Self {
        Self { index, one_thread: PhantomData }
    }

    /// Whether it is the shared seat.
    pub fn is_shared(&self) -> bool {
        self.index == SHARED
    }

    /// Its number, up to [`SEATS`].
    #[inline]
    pub fn index(&self) -> usize {
        self.index
    }
}

/// What stands in a seat. Written by its owner only, the shared one's counters by all; read by anybody.
///
/// On lines of its own, see [`Padded`](crate::Padded), and as large as a power of two, so that a shift finds it.
#[derive(Debug)]
#[repr(align(512))]
pub(super) struct Record {
    /// Claims, counted after the swap of the word. SYNC: tally
    acquired: AtomicU64,
    /// In the upper half, releases, counted before the store to the word; below, the buffer that was given back last,
    /// or `NONE`: mostly it is the same again, and then one store does for both. 32 bits of the count are enough, as
    /// only its distance from the claims is asked for, and that is at most 2^31. SYNC: drain
    released_top: AtomicU64,
    /// Claims that found nothing.
    exhausted: Counter,
    /// How many hints there are besides.
    len: AtomicU32,
    /// Buffers that were free a while ago; the newest is the last.
    hints: [AtomicU32; HINTS],
}

impl Record {
    fn new() -> Self {
        Self {
            acquired: AtomicU64::new(0),
            released_top: AtomicU64::new(NONE.into()),
            exhausted: Counter::new(),
            len: AtomicU32::new(0),
            hints: core::array::from_fn(|_| AtomicU32::new(0)),
        }
    }

    #[inline]
    pub(super) fn count_acquired(&self, seat: &Seat) {
        if seat.is_shared() {
            // SYNC: tally (release): as below.
            self.acquired.fetch_add(1, order!(Tally, Release));
        } else {
            self.count_acquired_alone();
        }
    }

    /// For all seats but the shared one.
    #[inline]
    pub(super) fn count_acquired_alone(&self) {
        let before = self.acquired.load(Ordering::Relaxed);
        // SYNC: tally (release): whoever counts this claim counts each release that we had seen.
        self.acquired.store(before.wrapping_add(1), order!(Tally, Release));
    }

    /// Counts a release that is about to be made; for all seats but the shared one. Says which buffer is the top, or
    /// `NONE`.
    #[inline]
    pub(super) fn count_released_alone(&self) -> u32 {
        let before = self.released_top.load(Ordering::Relaxed);
        // SYNC: drain (release): our use of the bytes comes before the end of the pool.
        self.released_top.store(before.wrapping_add(ONE_RELEASE), order!(Drain, Release));
        Self::top_of(before)
    }

    /// Counts a release that is about to be made by the shared seat.
    pub(super) fn count_released_with_others(&self) {
        // SYNC: drain (release): as above.
        self.released_top.fetch_add(ONE_RELEASE, order!(Drain, Release));
    }

    pub(super) fn count_exhausted(&self, seat: &Seat) {
        if seat.is_shared() {
            self.exhausted.add(1);
        } else {
            self.exhausted.add_as_only_writer(1);
        }
    }

    /// The buffer that was given back last. It may have been claimed since.
    fn top(&self) -> Option<u32> {
        Some(self.top_or_none()).filter(|&top| top != NONE)
    }

    /// The same, or `NONE`, which is no slot's index.
    #[inline]
    pub(super) fn top_or_none(&self) -> u32 {
        Self::top_of(self.released_top.load(Ordering::Relaxed))
    }

    #[inline]
    fn top_of(released_top: u64) -> u32 {
        #[expect(clippy::cast_possible_truncation, reason = "the lower half")]
        let index = released_top as u32;
        index
    }

    /// Makes a buffer the top, or `NONE`.
    pub(super) fn set_top(&self, index: u32) {
        let count = self.released_top.load(Ordering::Relaxed) & !u64::from(NONE);
        // SYNC: drain (release): whoever loads this counts the releases before it.
        self.released_top.store(count | u64::from(index), order!(Drain, Release));
    }

    /// The newest hint but for the top, taken out.
    #[inline]
    pub(super) fn pop(&self) -> Option<u32> {
        let len = self.len.load(Ordering::Relaxed);
        let last = len.checked_sub(1)?;
        self.len.store(last, Ordering::Relaxed);
        self.hints.get(last as usize).map(|hint| hint.load(Ordering::Relaxed))
    }

    /// Keeps a hint, unless there are too many.
    #[inline]
    pub(super) fn push(&self, index: u32) -> bool {
        let len = self.len.load(Ordering::Relaxed);
        let Some(hint) = self.hints.get(len as usize) else { return false };
        hint.store(index, Ordering::Relaxed);
        self.len.store(len + 1, Ordering::Relaxed);
        true
    }

    /// Takes out the older half of the hints, of a full list; all, if `all`.
    pub(super) fn shed(&self, all: bool, mut each: impl FnMut(u32)) {
        let len = (self.len.load(Ordering::Relaxed) as usize).min(HINTS);
        let count = if all { len } else { len / 2 };
        if all && let Some(index) = self.top() {
            self.set_top(NONE);
            each(index);
        }
        for hint in &self.hints[..count] {
            each(hint.load(Ordering::Relaxed));
        }
        for (to, from) in self.hints.iter().zip(&self.hints[count..len]) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        #[expect(clippy::cast_possible_truncation, reason = "a few dozen")]
        self.len.store((len - count) as u32, Ordering::Relaxed);
    }

    /// The hints as anybody may read them, beginning with one that depends on the reader.
    pub(super) fn peek(&self, reader: usize) -> impl Iterator<Item = u32> {
        let len = (self.len.load(Ordering::Relaxed) as usize).min(HINTS);
        let others = (0..len).map(move |step| {
            // Readers that begin apart take buffers whose words lie on different lines.
            self.hints[(step + reader * 8) % len].load(Ordering::Relaxed)
        });
        // Its owner wants the top next, so it comes last.
        others.chain(self.top())
    }
}

/// All seats of a pool.
#[derive(Debug)]
pub(super) struct Seats {
    /// One bit for each seat that somebody has. Swapped by whoever takes one or leaves. SYNC: seat
    taken: AtomicU64,
    /// Seats below this have been used at some time. Only grows.
    used: AtomicU32,
    records: [Record; SEATS + 1],
}

impl Seats {
    pub(super) fn new() -> Self {
        Self {
            taken: AtomicU64::new(0),
            used: AtomicU32::new(0),
            records: core::array::from_fn(|_| Record::new()),
        }
    }

    #[inline]
    pub(super) fn record(&self, seat: &Seat) -> &Record {
        &self.records[seat.index]
    }

    /// The record of any seat but the shared one: what tells the two apart is the check of the bounds.
    #[inline]
    pub(super) fn own(&self, seat: &Seat) -> Option<&Record> {
        self.records[..SEATS].get(seat.index)
    }

    pub(super) fn shared(&self) -> &Record {
        &self.records[SHARED]
    }

    /// A seat for the caller alone, or the shared one when all are taken.
    pub(super) fn take(&self) -> Seat {
        // SYNC: seat (acquire): the counters that its last owner stored.
        let mut taken = self.taken.load(order!(Seat, Acquire));
        loop {
            let index = (!taken).trailing_zeros() as usize;
            if index >= SEATS {
                return Seat::shared();
            }
            let now = taken | 1 << index;
            match self.taken.compare_exchange(taken, now, order!(Seat, Acquire), order!(Seat, Acquire)) {
                Ok(_) => {
                    #[expect(clippy::cast_possible_truncation, reason = "at most 63")]
                    self.used.fetch_max(index as u32 + 1, Ordering::Relaxed);
                    return Seat::at(index);
                }
                Err(other) => taken = other,
            }
        }
    }

    /// Gives a seat back.
    pub(super) fn leave(&self, seat: Seat) {
        if !seat.is_shared() {
            // SYNC: seat (release): the counters that we stored.
            self.taken.fetch_and(!(1 << seat.index), order!(Seat, Release));
        }
    }

    /// The records that have been used so far, the shared one among them.
    pub(super) fn used(&self) -> impl Iterator<Item = &Record> {
        // Loaded when the walk begins. A seat whose count we must not miss was marked as used before it counted.
        let used = self.used.load(Ordering::Relaxed) as usize;
        self.records[..used.min(SEATS)].iter().chain(&self.records[SHARED..])
    }

    /// The sum of all claims.
    pub(super) fn acquired(&self) -> u64 {
        // SYNC: tally (acquire): pairs with the claimers' counts.
        let each = self.used().map(|record| record.acquired.load(order!(Tally, Acquire)));
        each.fold(0, u64::wrapping_add)
    }

    /// How many of `acquired` claims, the sum that was asked for before, are not given back: modulo 2^32.
    pub(super) fn out(&self, acquired: u64) -> u64 {
        // SYNC: drain (acquire): the releasers' use of the bytes comes before what we do when all are back.
        let each = self.used().map(|record| record.released_top.load(order!(Drain, Acquire)) >> 32);
        acquired.wrapping_sub(each.fold(0, u64::wrapping_add)) & u64::from(u32::MAX)
    }

    /// The sum of all claims that found nothing.
    pub(super) fn exhausted(&self) -> u64 {
        self.used().map(|record| record.exhausted.value()).fold(0, u64::wrapping_add)
    }
}

const _: () = assert!(SEATS < 64 && HINTS <= 64, "one word of bits");
