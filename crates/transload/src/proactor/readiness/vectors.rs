//! Pieces in the form that system calls take.

use std::io::{IoSlice, IoSliceMut};

use super::super::backend::Piece;

/// The kernel takes no more at once (`IOV_MAX`). What is beyond is left for the next attempt.
const MOST: usize = 1024;

/// Pieces as slices. Empty between calls; kept for its memory.
///
/// The pieces of an attempt belong to its operation from the start to the last completion (I1, I6), and stay in place (I2).
/// So while a call of this attempt lasts, and no longer, there may be references to their bytes (I3).
#[derive(Debug, Default)]
pub(super) struct Vectors {
    sources: Vec<IoSlice<'static>>,
    targets: Vec<IoSliceMut<'static>>,
}

impl Vectors {
    /// Makes a call that reads the pieces.
    pub(super) fn read_by<R>(&mut self, pieces: &[Piece], call: impl FnOnce(&[IoSlice<'_>]) -> R) -> R {
        self.sources.clear();
        for piece in pieces.iter().take(MOST) {
            // SAFETY: the bytes are initialised and there (I2), and nobody writes them while their operation sends
            // them (I1). The reference goes before the call's end is told (I3).
            let bytes = unsafe { std::slice::from_raw_parts(piece.address, piece.len_bytes) };
            self.sources.push(IoSlice::new(bytes));
        }
        let result = call(&self.sources);
        self.sources.clear();
        result
    }

    /// Makes a call that writes the pieces.
    pub(super) fn written_by<R>(
        &mut self,
        pieces: &[Piece],
        call: impl FnOnce(&mut [IoSliceMut<'_>]) -> R,
    ) -> R {
        self.targets.clear();
        for piece in pieces.iter().take(MOST) {
            // SAFETY: the bytes are initialised and there (I2), and belong to the operation that receives them alone;
            // its pieces do not overlap (I1). The reference goes before the call's end is told (I3).
            let bytes = unsafe { std::slice::from_raw_parts_mut(piece.address, piece.len_bytes) };
            self.targets.push(IoSliceMut::new(bytes));
        }
        let result = call(&mut self.targets);
        self.targets.clear();
        result
    }
}
