//! Messages out of a file or the standard input.

use std::io::{self, BufRead};

use super::{Ended, Stage, Why};
use crate::failure::Failure;

/// Reads messages, frames them and offers them.
pub(in crate::pump) struct Read<R> {
    pub(in crate::pump) stage: Stage,
    pub(in crate::pump) input: R,
    /// What people call it.
    pub(in crate::pump) name: String,
}

impl<R: BufRead> Read<R> {
    pub(in crate::pump) fn run(mut self) -> Ended {
        let mut assembler = self.stage.assembler();
        if let Err(why) = self.stage.begin() {
            return Ok(why);
        }
        loop {
            let piece = fill_buf(&mut self.input, &self.name)?;
            if piece.is_empty() {
                return self.stage.end(&mut assembler).map_or_else(Into::into, |()| Ok(Why::End));
            }
            let piece_bytes = piece.len();
            if let Err(halt) = self.stage.piece(&mut assembler, piece) {
                return halt.into();
            }
            self.input.consume(piece_bytes);
        }
    }
}

fn fill_buf<'a>(input: &'a mut impl BufRead, name: &str) -> Result<&'a [u8], Failure> {
    let failed = |error: io::Error| {
        Failure::new("source", format!("cannot read {name}: {error}"))
            .fix("name a file or a stream that can be read to its end")
    };
    // Two calls, since a result that borrows cannot be looked at and returned from a loop.
    loop {
        match input.fill_buf() {
            Ok(_) => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(failed(error)),
        }
    }
    input.fill_buf().map_err(failed)
}
