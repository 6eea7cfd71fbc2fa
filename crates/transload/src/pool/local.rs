//! The seats of the calling thread, one for each pool that it has used.

use std::cell::RefCell;
use std::mem;
use std::sync::Arc;

use transload_core::{Grant, NoGrant, Notice, Seat};

use super::body::Core;

thread_local! {
    /// The pool used last comes first.
    static SEATS: RefCell<Vec<Entry>> = const { RefCell::new(Vec::new()) };
}

/// A seat, and what keeps it there (I5).
struct Entry {
    core: Arc<Core>,
    seat: Seat,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.core.stand(mem::replace(&mut self.seat, Seat::shared()));
    }
}

/// Claims a buffer for the calling thread.
#[inline]
pub(super) fn claim(core: &Arc<Core>) -> Result<Grant, NoGrant> {
    with(Arc::as_ptr(core), || core.clone(), |core, seat| core.pool.claim(seat))
}

/// Gives a buffer back. `core` may be gone when this returns, so it is not borrowed; `strong` is called, if at all,
/// before the buffer is given back.
#[inline]
pub(super) fn release(core: *const Core, strong: impl FnOnce() -> Arc<Core>, grant: Grant) {
    let told = with(core, strong, |core, seat| {
        let notice = core.pool.release(seat, grant);
        told(core, notice)
    });
    // Outside of our list: it may run anybody's code, which may use a pool.
    if let Some((core, notice)) = told {
        core.attend(notice);
    }
}

#[inline]
fn told(core: &Arc<Core>, notice: Notice) -> Option<(Arc<Core>, Notice)> {
    (!notice.is_none()).then(|| (core.clone(), notice))
}

/// Works with the calling thread's seat; with the shared one where there is no list any more, or not now.
#[inline]
fn with<T>(
    core: *const Core,
    strong: impl FnOnce() -> Arc<Core>,
    work: impl FnOnce(&Arc<Core>, &mut Seat) -> T,
) -> T {
    // Taken by whichever of the two ways below comes to use them.
    let mut given = Some((strong, work));
    let done = SEATS.try_with(|seats| {
        let mut seats = seats.try_borrow_mut().ok()?;
        let (strong, work) = given.take()?;
        let is_first = seats.first().is_some_and(|first| std::ptr::eq(Arc::as_ptr(&first.core), core));
        if !is_first {
            bring_to_front(&mut seats, core, strong);
        }
        let first = seats.first_mut()?;
        Some(work(&first.core, &mut first.seat))
    });
    match (done, given) {
        (Ok(Some(done)), _) => done,
        (_, Some((strong, work))) => without(&strong(), work),
        (_, None) => unreachable!("the list has an entry once it was brought to the front"),
    }
}

#[cold]
fn without<T>(core: &Arc<Core>, work: impl FnOnce(&Arc<Core>, &mut Seat) -> T) -> T {
    work(core, &mut Seat::shared())
}

/// Makes the seat at this pool the first, taking one if there is none. Seats at pools that are over are given up.
#[cold]
fn bring_to_front(seats: &mut Vec<Entry>, core: *const Core, strong: impl FnOnce() -> Arc<Core>) {
    let at = seats.iter().position(|entry| std::ptr::eq(Arc::as_ptr(&entry.core), core));
    let at = at.unwrap_or_else(|| {
        let core = strong();
        seats.retain(|entry| !entry.core.pool.is_abandoned());
        let seat = core.sit();
        seats.push(Entry { core, seat });
        seats.len() - 1
    });
    seats.swap(0, at);
}

/// Gives up the calling thread's seats at pools that are over, so that it keeps no memory of theirs.
pub(super) fn forget_abandoned() {
    let _ = SEATS.try_with(|seats| {
        if let Ok(mut seats) = seats.try_borrow_mut() {
            seats.retain(|entry| !entry.core.pool.is_abandoned());
        }
    });
}
