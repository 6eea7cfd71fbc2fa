//! The seats of the calling thread, one for each pool that it has used.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::{mem, ptr};

use transload_core::{Grant, NoGrant, Notice, Seat};

use super::body::Core;

thread_local! {
    /// The pool that was used last, and its entry in the list below; null while there is none. Apart from the list, as
    /// what has to be dropped costs a check with each use.
    static LAST: Cell<(*const Core, *const Entry)> = const { Cell::new((ptr::null(), ptr::null())) };
    static ENTRIES: RefCell<Vec<Rc<Entry>>> = const { RefCell::new(Vec::new()) };
}

/// A seat, and what keeps it there (I5).
struct Entry {
    core: Arc<Core>,
    seat: Seat,
}

impl Drop for Entry {
    fn drop(&mut self) {
        // It may be the one that this points to.
        LAST.set((ptr::null(), ptr::null()));
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
        if notice.is_none() { None } else { told(core, notice) }
    });
    // Outside of `with`: it may run anybody's code, which may use a pool or end one.
    if let Some((core, notice)) = told {
        core.attend(notice);
    }
}

/// What is to be told, with a handle of its own on the core: the body may be gone, and the entry go meanwhile.
#[cold]
fn told(core: &Core, notice: Notice) -> Option<(Arc<Core>, Notice)> {
    Some((core.strong()?, notice))
}

/// Works with the calling thread's seat at this pool. The work runs nobody else's code.
#[inline]
fn with<T>(core: *const Core, strong: impl FnOnce() -> Arc<Core>, work: impl FnOnce(&Core, &Seat) -> T) -> T {
    let (last, entry) = LAST.get();
    if ptr::eq(last, core) {
        // SAFETY: set to an entry in this thread's list, and cleared before that entry is dropped, on this thread too.
        let entry = unsafe { &*entry };
        // SAFETY: the entry keeps the core, and this is its address. Used in the place of the entry's own pointer, which
        // would have to be loaded first.
        let core = unsafe { &*last };
        return work(core, &entry.seat);
    }
    let mut strong = Some(strong);
    match find(core, &mut strong) {
        Some(entry) => work(&entry.core, &entry.seat),
        // The thread is about to end, and its list has ended before it: the seat for all.
        None => match strong.take() {
            Some(strong) => work(&strong(), &Seat::shared()),
            None => unreachable!("asked for only where an entry is made"),
        },
    }
}

/// The entry for this pool, made if there is none; nothing if there is no list any more. From then on it is the last.
#[cold]
fn find(core: *const Core, strong: &mut Option<impl FnOnce() -> Arc<Core>>) -> Option<Rc<Entry>> {
    let found = ENTRIES.try_with(|entries| {
        let mut entries = entries.try_borrow_mut().ok()?;
        let known = entries.iter().find(|entry| ptr::eq(Arc::as_ptr(&entry.core), core));
        let entry = if let Some(entry) = known {
            entry.clone()
        } else {
            let core = strong.take()?();
            // Seats at pools that are over, whose control words nobody else may keep.
            entries.retain(|entry| !entry.core.pool.is_abandoned());
            let seat = core.sit();
            entries.push(Rc::new(Entry { core, seat }));
            entries.last()?.clone()
        };
        LAST.set((core, Rc::as_ptr(&entry)));
        Some(entry)
    });
    found.ok().flatten()
}

/// Gives up the calling thread's seats at pools that are over, so that it keeps no memory of theirs.
pub(super) fn forget_abandoned() {
    let _ = ENTRIES.try_with(|entries| {
        if let Ok(mut entries) = entries.try_borrow_mut() {
            entries.retain(|entry| !entry.core.pool.is_abandoned());
        }
    });
}
