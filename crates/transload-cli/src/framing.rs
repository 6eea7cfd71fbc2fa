//! How bytes are cut into messages, and how that is undone.
//!
//! A message of every framing but `fixed` begins with its length in the slot: 4 bytes, little-endian, then the payload,
//! then zeros.

use std::io::{self, Write};
use std::sync::Arc;

use clap::ValueEnum;
use transload::pump::{LENGTH_BYTES, SlotLayout};
use transload_core::Flag;

/// Bytes of the length in front of a payload, in a slot and in an input.
pub(crate) const HEADER_BYTES: usize = LENGTH_BYTES;

/// The same, as kernels are told.
const PREFIX_BYTES: u32 = 4;
const _: () = assert!(PREFIX_BYTES as usize == HEADER_BYTES, "one length");

/// How bytes are cut into messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Framing {
    /// As many bytes as fit each; the last is short.
    #[default]
    Stream,
    /// Whole messages without a header; a partial one at the end is an error.
    Fixed,
    /// One line each.
    Lines,
    /// A 32-bit little-endian length, then as many bytes.
    U32le,
    /// A 32-bit big-endian length, then as many bytes.
    U32be,
}

impl Framing {
    /// Bytes of a slot for payloads of at most so many, if that can be.
    pub(crate) fn slot_bytes(self, payload_bytes: usize) -> Option<usize> {
        match self {
            Self::Fixed => Some(payload_bytes),
            _ if u32::try_from(payload_bytes).is_err() => None,
            _ => payload_bytes.checked_add(HEADER_BYTES),
        }
    }

    /// How payloads lie in slots.
    pub(crate) fn layout(self) -> SlotLayout {
        if self == Self::Fixed { SlotLayout::Dense } else { SlotLayout::Prefixed }
    }

    /// Bytes in front of each payload in a slot.
    pub(crate) fn prefix_bytes(self) -> u32 {
        if self == Self::Fixed { 0 } else { PREFIX_BYTES }
    }

    /// Writes a payload into its slot.
    pub(crate) fn fill(self, slot: &mut [u8], payload: &[u8]) {
        let begins = if self == Self::Fixed { 0 } else { HEADER_BYTES };
        slot[begins..begins + payload.len()].copy_from_slice(payload);
        self.layout().complete(slot, payload.len());
    }

    /// The payload in a slot, or nothing if its length is beyond the slot.
    pub(crate) fn payload(self, slot: &[u8]) -> Option<&[u8]> {
        if self == Self::Fixed {
            return Some(slot);
        }
        let (header, body) = slot.split_first_chunk::<HEADER_BYTES>()?;
        body.get(..usize::try_from(u32::from_le_bytes(*header)).ok()?)
    }
}

/// Undoes a framing: writes payloads as they were in the source.
pub(crate) struct Unframer<W> {
    framing: Framing,
    out: W,
    /// Raised by the source if its last line had no end.
    unended: Arc<Flag>,
    /// A line has been written without its end, which comes before the next, or when it is known that it has one.
    line_is_open: bool,
}

impl<W: Write> Unframer<W> {
    pub(crate) fn new(framing: Framing, out: W, unended: Arc<Flag>) -> Self {
        Self { framing, out, unended, line_is_open: false }
    }

    pub(crate) fn write(&mut self, slot: &[u8]) -> io::Result<()> {
        let payload = self.framing.payload(slot).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, "a message came back with a length beyond its slot")
        })?;
        self.write_payload(payload)
    }

    /// Writes what is no message that came from the source, as if it had.
    pub(crate) fn write_payload(&mut self, payload: &[u8]) -> io::Result<()> {
        // It fits, see `fill`; and so does what a kernel makes of a message.
        let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        match self.framing {
            Framing::Lines if self.line_is_open => self.out.write_all(b"\n")?,
            Framing::Stream | Framing::Fixed | Framing::Lines => {}
            Framing::U32le => self.out.write_all(&length.to_le_bytes())?,
            Framing::U32be => self.out.write_all(&length.to_be_bytes())?,
        }
        self.line_is_open = true;
        self.out.write_all(payload)
    }

    /// Hands on what has been written so far, so that a reader has it while nothing more comes.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        // The flag is raised before the message that it speaks of is on its way: while it is down, every line that has
        // come back had an end.
        if self.framing == Framing::Lines && self.line_is_open && !self.unended.is_raised() {
            self.line_is_open = false;
            self.out.write_all(b"\n")?;
        }
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_filled_comes_out_again() {
        for framing in [Framing::Stream, Framing::Lines, Framing::U32le, Framing::U32be] {
            for payload in [&b""[..], b"a", b"abcdefgh"] {
                let mut slot = vec![0xFF; framing.slot_bytes(8).unwrap()];
                framing.fill(&mut slot, payload);
                assert_eq!(framing.payload(&slot), Some(payload));
                assert!(slot[HEADER_BYTES + payload.len()..].iter().all(|&byte| byte == 0));
            }
        }
    }

    #[test]
    fn a_length_beyond_the_slot_is_noticed() {
        assert_eq!(Framing::Stream.payload(&[9, 0, 0, 0, 1, 2]), None);
        assert_eq!(Framing::Stream.payload(&[9, 0]), None);
        assert_eq!(Framing::Lines.slot_bytes(usize::MAX), None);
    }
}
