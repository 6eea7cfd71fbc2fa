//! Places that are used again, with what they hold.

use std::ops::{Index, IndexMut};

/// Values by number. One that is given back stays where it is, so that its vectors keep their memory.
#[derive(Debug, Default)]
pub(super) struct Slots<T> {
    values: Vec<T>,
    free: Vec<usize>,
}

impl<T: Default> Slots<T> {
    /// A place whose value is as it was given back, or new.
    pub(super) fn take(&mut self) -> usize {
        self.free.pop().unwrap_or_else(|| {
            self.values.push(T::default());
            self.values.len() - 1
        })
    }

    pub(super) fn give_back(&mut self, place: usize) {
        debug_assert!(!self.free.contains(&place), "given back twice");
        self.free.push(place);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.values.iter()
    }
}

impl<T> Index<usize> for Slots<T> {
    type Output = T;

    fn index(&self, place: usize) -> &T {
        &self.values[place]
    }
}

impl<T> IndexMut<usize> for Slots<T> {
    fn index_mut(&mut self, place: usize) -> &mut T {
        &mut self.values[place]
    }
}
