//! What stands behind the handles and leases of one pool, and how it ends.

use std::fmt;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use event_listener::Event;
use transload_core::{Counter, Grant, HintWord, Notice, Padded, Pool, SEATS, Seat, Slot};

use super::clock::Clock;
use super::statistics::Holder;
use crate::barrier::ProcessBarrier;
use crate::memory::Tenancy;
use crate::region::Region;

/// The pool of `transload-core` as it is used here.
pub(super) type CorePool = Pool<Box<[Slot]>, Box<[HintWord]>, ProcessBarrier>;

/// Control words, counters and sleepers: no bytes of buffers. Kept by the body and by each thread that has a seat, so
/// that a thread may finish its release after the body has gone (I5).
pub(super) struct Core {
    pub(super) pool: CorePool,
    /// The number of the pool, no other's.
    pub(super) id: u64,
    /// Where those sleep who wait for a buffer.
    pub(super) freed: Padded<Event>,
    /// How often somebody had to wait.
    pub(super) waited: Counter,
    clock: Mutex<Clock>,
    /// Who has each seat.
    holders: Mutex<[Option<Holder>; SEATS]>,
    /// Itself, for those who were lent it and need it longer.
    this: Weak<Core>,
    /// The body of an abandoned pool, until its last buffer is back (I5).
    keep: Mutex<Option<Arc<Body>>>,
}

/// A pool: the memory that it lends, and the core that says to whom.
#[derive(Debug)]
pub(super) struct Body {
    pub(super) core: Arc<Core>,
    base: Base,
    pub(super) buffer_size: usize,
    /// The same; buffers are shorter than 4 GiB.
    pub(super) buffer_len: u32,
    // Held until the end, and dropped in this order: another may hand out the slab's parts only afterwards.
    pub(super) region: Region,
    _tenancy: Tenancy,
}

/// The start of the slab.
#[derive(Debug)]
struct Base(NonNull<u8>);

// SAFETY: an address. Who may access which bytes behind it is decided by the pool (I1), not by who holds this.
unsafe impl Send for Base {}
// SAFETY: as above.
unsafe impl Sync for Base {}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing of ours panics under these locks, and all values are whole between any two statements.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A number that no pool of this process has had.
fn next_id() -> u64 {
    static LAST: Mutex<u64> = Mutex::new(0);
    let mut last = lock(&LAST);
    *last += 1;
    *last
}

impl Core {
    pub(super) fn new(pool: CorePool) -> Arc<Self> {
        let core = Arc::new_cyclic(|this| Self {
            this: this.clone(),
            pool,
            id: next_id(),
            freed: Padded(Event::new()),
            waited: Counter::new(),
            clock: Mutex::new(Clock::new()),
            holders: Mutex::new([None; SEATS]),
            keep: Mutex::new(None),
        });
        // An event allocates when it is first listened to: do it now, so that no later release does.
        drop(core.freed.listen());
        core
    }

    /// A handle of the caller's own.
    pub(super) fn strong(&self) -> Option<Arc<Core>> {
        self.this.upgrade()
    }

    /// A seat for the calling thread, and its name beside it.
    pub(super) fn sit(&self) -> Seat {
        let seat = self.pool.take_seat();
        if let Some(holder) = lock(&self.holders).get_mut(seat.index()) {
            *holder = Some(Holder::current());
        }
        seat
    }

    /// Gives a seat back. The name stays until somebody else sits there: leases of that thread may still be out.
    pub(super) fn stand(&self, seat: Seat) {
        self.pool.leave(seat);
    }

    pub(super) fn holder(&self, seat: usize) -> Option<Holder> {
        *lock(&self.holders).get(seat)?
    }

    /// Lets time go on, and then asks the clock.
    pub(super) fn at_time<T>(&self, ask: impl FnOnce(&Clock) -> T) -> T {
        let mut clock = lock(&self.clock);
        if let Some(tick) = clock.advance() {
            self.pool.set_tick(tick);
        }
        ask(&clock)
    }

    /// Does what a release has to tell others.
    #[cold]
    pub(super) fn attend(&self, notice: Notice) {
        if notice.wakes() {
            // One more than have been called already: two releases wake two.
            self.freed.notify_additional(1);
        }
        if notice.is_abandoned() {
            self.reap();
        }
    }

    /// Lets the body of an abandoned pool go if its last buffer is back.
    fn reap(&self) {
        let body = {
            let mut keep = lock(&self.keep);
            if self.pool.is_drained() { keep.take() } else { None }
        };
        // Outside the lock: it ends a registration, which may run anybody's code.
        drop(body);
    }
}

impl Body {
    pub(super) fn new(core: Arc<Core>, region: Region, tenancy: Tenancy, buffer_len: u32) -> Arc<Self> {
        let slab = region.slab();
        let base = Base(NonNull::new(slab.as_ptr()).unwrap_or(NonNull::dangling()));
        let buffer_size = slab.buffer_size();
        Arc::new(Self { core, base, buffer_size, buffer_len, region, _tenancy: tenancy })
    }

    /// Where a buffer begins, in bytes from the start of the slab.
    #[inline]
    pub(super) fn offset(&self, index: u32) -> usize {
        index as usize * self.buffer_size
    }

    #[inline]
    pub(super) fn address(&self, index: u32) -> *mut u8 {
        self.base.0.as_ptr().wrapping_add(self.offset(index))
    }

    /// Fills a buffer that was just claimed with zeros. The grant goes through by value: one that is lent has an address,
    /// so it would be stored with each claim, wiped or not.
    #[cold]
    #[inline(never)]
    pub(super) fn wipe(&self, grant: Grant) -> Grant {
        // SAFETY: the buffer is the claimer's alone (I1), no reference to it exists (I3), and it is `buffer_size` long.
        unsafe { self.address(grant.index()).write_bytes(0, self.buffer_size) };
        grant
    }
}

/// Abandons the pool when the last handle on it goes.
#[derive(Debug)]
pub(super) struct LastHandle(pub(super) Arc<Body>);

impl Drop for LastHandle {
    fn drop(&mut self) {
        let core = &self.0.core;
        core.pool.abandon();
        {
            let mut keep = lock(&core.keep);
            if !core.pool.is_drained() {
                // Leases are out, which point to the body without counting (I5).
                *keep = Some(self.0.clone());
            }
        }
        super::local::forget_abandoned();
    }
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core").field("id", &self.id).field("pool", &self.pool).finish_non_exhaustive()
    }
}

const _: () = {
    const fn shared<T: Send + Sync>() {}
    // Leases point to the body from any thread, and rest on this.
    shared::<Body>();
};
