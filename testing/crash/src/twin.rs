//! Ways to do it that look right and are wrong, on the words of a real region: the suite must find each of them.

use std::sync::atomic::Ordering;

use transload_core::{SharedWord, SlotState};

use crate::view::{Slot, View, empty_cell, full_cell};

#[expect(clippy::disallowed_types, reason = "twins swap words as the core does")]
fn swap(word: &SharedWord, from: u64, to: u64) -> bool {
    // SAFETY: a `SharedWord` is an atomic of 64 bits and nothing else (`repr(transparent)`).
    let word = unsafe { &*std::ptr::from_ref(word).cast::<std::sync::atomic::AtomicU64>() };
    word.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
}

/// Takes a buffer, then writes down whose it is: between the two it is nobody's.
pub fn acquire(view: &View, me: u16) -> Option<u32> {
    let slots = view.slots();
    (0_u32..).zip(slots).find_map(|(index, word)| {
        let free = view.slot(index);
        let popped = Slot { owner: 0, state: SlotState::Owned, ..free };
        if free.state != SlotState::Free || !swap(word, free.to_word(), popped.to_word()) {
            return None;
        }
        word.store(Slot { owner: me, ..popped }.to_word());
        Some(index)
    })
}

/// Claims a place in the ring, then fills it: whoever comes behind waits for what the dead have claimed.
pub fn send(view: &View, me: u16, index: u32, len_bytes: u32) -> bool {
    let slot = Slot { owner: me, state: SlotState::Sent, len_bytes, ..view.slot(index) };
    view.slots()[index as usize].store(slot.to_word());
    let tail = view.tail().load();
    let (cell, lap) = view.cell(tail);
    if cell.load() != empty_cell(lap) || !swap(view.tail(), tail, tail.wrapping_add(1)) {
        return false;
    }
    cell.store(full_cell(lap, index, slot.tag));
    true
}

/// Frees all that a dead member had, without a look at what the ring says of it.
pub fn recover(view: &View, dead: u16) {
    for (index, word) in (0_u32..).zip(view.slots()) {
        let slot = view.slot(index);
        if slot.owner == dead {
            swap(
                word,
                slot.to_word(),
                Slot { owner: 0, state: SlotState::Free, tag: slot.tag, len_bytes: 0 }.to_word(),
            );
        }
    }
}

/// Frees each buffer before it empties the cell that names it.
pub fn finish(view: &View, me: u16, first: u64, count: usize) {
    for position in (first..).take(count) {
        let (cell, lap) = view.cell(position);
        let index = (cell.load() >> 15 & 0xff_ffff) as u32;
        let slot = view.slot(index);
        assert_eq!(slot.owner, me, "taken by whoever is done with it");
        let free = Slot { owner: 0, state: SlotState::Free, tag: slot.tag, len_bytes: 0 };
        swap(&view.slots()[index as usize], slot.to_word(), free.to_word());
        cell.store(empty_cell(lap + 1));
    }
}

/// Empties the cells of what it takes: nothing names the messages any more when it dies.
pub fn take(view: &View, me: u16, count: usize) {
    for position in (view.head().load()..).take(count) {
        let (cell, lap) = view.cell(position);
        let index = (cell.load() >> 15 & 0xff_ffff) as u32;
        let slot = view.slot(index);
        let owned = Slot { owner: me, state: SlotState::Owned, ..slot };
        swap(&view.slots()[index as usize], slot.to_word(), owned.to_word());
        cell.store(empty_cell(lap + 1));
    }
}
