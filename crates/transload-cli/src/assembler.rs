//! Cuts bytes that come in pieces into payloads.

use crate::failure::Failure;
use crate::framing::{Framing, HEADER_BYTES};

/// Cuts the bytes of one input, which come in pieces of any size, into payloads.
///
/// A payload that lies within a piece is handed out in place; of others, what has come is kept until the rest has.
#[derive(Debug)]
pub(crate) struct Assembler {
    framing: Framing,
    message_size: usize,
    /// What has come of a payload that is not whole.
    partial: Vec<u8>,
    /// The payload in `partial` has been handed out.
    handed_out: bool,
    /// What has come of the length in front of a payload.
    header: Vec<u8>,
    /// The length of the payload, once it is known.
    wanted: Option<usize>,
    /// Bytes of the line so far, also those that are not kept since it is too long.
    line_bytes: u64,
    /// Messages that were whole.
    messages: u64,
    /// Bytes before the message, and bytes that were taken in.
    begins: u64,
    taken: u64,
}

/// How an input ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Last<'a> {
    /// Between two messages.
    Nothing,
    /// With a message that its end makes whole.
    Message(&'a [u8]),
    /// With a line that has no end.
    UnendedLine(&'a [u8]),
}

/// An input does not keep to its framing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Broken {
    #[error(
        "the input ends within message {number}, which begins at offset {offset}: {there} of {wanted} bytes are there"
    )]
    Partial { number: u64, offset: u64, there: usize, wanted: usize },
    #[error(
        "message {number}, at offset {offset}, has {length} bytes, and a message has at most {message_size}"
    )]
    TooLong { number: u64, offset: u64, length: u64, message_size: usize },
}

impl From<Broken> for Failure {
    fn from(broken: Broken) -> Self {
        let fix = match broken {
            Broken::Partial { .. } => {
                "check the input, --message-size and --framing; --framing stream takes any length".to_owned()
            }
            Broken::TooLong { length, .. } => format!("use --message-size {length} or more"),
        };
        Self::new("source", broken).fix(fix)
    }
}

impl Assembler {
    pub(crate) fn new(framing: Framing, message_size: usize) -> Self {
        Self {
            framing,
            message_size,
            partial: Vec::new(),
            handed_out: false,
            header: Vec::with_capacity(HEADER_BYTES),
            wanted: None,
            line_bytes: 0,
            messages: 0,
            begins: 0,
            taken: 0,
        }
    }

    /// Takes bytes off the front of a piece, up to the end of a message if that is in it, and hands out its payload.
    pub(crate) fn next<'a, 'piece: 'a>(
        &'a mut self,
        piece: &mut &'piece [u8],
    ) -> Result<Option<&'a [u8]>, Broken> {
        if std::mem::take(&mut self.handed_out) {
            self.partial.clear();
        }
        match self.framing {
            Framing::Stream | Framing::Fixed => Ok(self.next_of(piece, self.message_size)),
            Framing::Lines => self.next_line(piece),
            Framing::U32le | Framing::U32be => self.next_measured(piece),
        }
    }

    /// A line that is already too long, though its end has not come.
    pub(crate) fn too_long(&self) -> Option<Broken> {
        self.is_overlong().then(|| self.broken_by(self.line_bytes))
    }

    /// The input has ended.
    pub(crate) fn end(&mut self) -> Result<Last<'_>, Broken> {
        if std::mem::take(&mut self.handed_out) {
            self.partial.clear();
        }
        let there = self.partial.len();
        match (self.framing, self.wanted) {
            (Framing::Lines, _) if self.is_overlong() => Err(self.broken_by(self.line_bytes)),
            (Framing::Lines, _) if there > 0 => Ok(Last::UnendedLine(&self.partial)),
            (Framing::Stream, _) if there > 0 => Ok(Last::Message(&self.partial)),
            (Framing::Fixed, _) if there > 0 => Err(self.ends_within(there, self.message_size)),
            (_, Some(wanted)) => Err(self.ends_within(there + HEADER_BYTES, wanted + HEADER_BYTES)),
            _ if !self.header.is_empty() => Err(self.ends_within(self.header.len(), HEADER_BYTES)),
            _ => Ok(Last::Nothing),
        }
    }

    /// A payload of so many bytes, if the rest of it has come.
    fn next_of<'a, 'piece: 'a>(&'a mut self, piece: &mut &'piece [u8], wanted: usize) -> Option<&'a [u8]> {
        let missing = wanted - self.partial.len();
        let part = self.take(piece, missing);
        let is_whole = part.len() == missing;
        if is_whole {
            self.complete();
            if self.partial.is_empty() {
                return Some(part);
            }
        }
        self.partial.extend_from_slice(part);
        self.handed_out = is_whole;
        is_whole.then_some(&self.partial[..])
    }

    fn next_measured<'a, 'piece: 'a>(
        &'a mut self,
        piece: &mut &'piece [u8],
    ) -> Result<Option<&'a [u8]>, Broken> {
        if self.wanted.is_none() {
            self.wanted = self.measure(piece)?;
        }
        let Some(wanted) = self.wanted else { return Ok(None) };
        Ok(self.next_of(piece, wanted))
    }

    /// The length in front of a payload, if the rest of it has come.
    fn measure(&mut self, piece: &mut &[u8]) -> Result<Option<usize>, Broken> {
        let part = self.take(piece, HEADER_BYTES - self.header.len());
        self.header.extend_from_slice(part);
        let Ok(header) = <[u8; HEADER_BYTES]>::try_from(&self.header[..]) else { return Ok(None) };
        let length = match self.framing {
            Framing::U32be => u32::from_be_bytes(header),
            _ => u32::from_le_bytes(header),
        };
        match usize::try_from(length) {
            Ok(wanted) if wanted <= self.message_size => Ok(Some(wanted)),
            _ => Err(self.broken_by(length.into())),
        }
    }

    /// A line without its end. Of one that is too long, bytes are counted only.
    fn next_line<'a, 'piece: 'a>(&'a mut self, piece: &mut &'piece [u8]) -> Result<Option<&'a [u8]>, Broken> {
        let end = piece.iter().position(|&byte| byte == b'\n');
        let part = self.take(piece, end.unwrap_or(piece.len()));
        self.line_bytes += part.len() as u64;
        if end.is_some() {
            self.take(piece, 1);
        }
        if self.is_overlong() {
            return if end.is_some() { Err(self.broken_by(self.line_bytes)) } else { Ok(None) };
        }
        if end.is_some() {
            self.complete();
            if self.partial.is_empty() {
                return Ok(Some(part));
            }
        }
        self.partial.extend_from_slice(part);
        self.handed_out = end.is_some();
        Ok(end.map(|_| &self.partial[..]))
    }

    /// Takes at most so many bytes off the front.
    fn take<'piece>(&mut self, piece: &mut &'piece [u8], most: usize) -> &'piece [u8] {
        let (part, rest) = piece.split_at(most.min(piece.len()));
        *piece = rest;
        self.taken += part.len() as u64;
        part
    }

    /// A message is whole, the next begins.
    fn complete(&mut self) {
        self.messages += 1;
        self.begins = self.taken;
        self.line_bytes = 0;
        self.wanted = None;
        self.header.clear();
    }

    fn is_overlong(&self) -> bool {
        self.line_bytes > self.message_size as u64
    }

    fn ends_within(&self, there: usize, wanted: usize) -> Broken {
        Broken::Partial { number: self.messages + 1, offset: self.begins, there, wanted }
    }

    fn broken_by(&self, length: u64) -> Broken {
        let (number, offset) = (self.messages + 1, self.begins);
        Broken::TooLong { number, offset, length, message_size: self.message_size }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cuts an input that comes in pieces of this size.
    fn cut(framing: Framing, bytes: &[u8], piece_bytes: usize) -> Result<Vec<Vec<u8>>, Broken> {
        let mut assembler = Assembler::new(framing, 4);
        let mut payloads = Vec::new();
        for mut piece in bytes.chunks(piece_bytes) {
            while let Some(payload) = assembler.next(&mut piece)? {
                payloads.push(payload.to_vec());
            }
            assert!(piece.is_empty(), "all of a piece is taken");
        }
        match assembler.end()? {
            Last::Nothing => {}
            Last::Message(payload) | Last::UnendedLine(payload) => payloads.push(payload.to_vec()),
        }
        Ok(payloads)
    }

    #[test]
    fn pieces_of_any_size_make_the_same_messages() {
        type Case<'a> = (Framing, &'a [u8], &'a [&'a [u8]]);
        let cases: [Case<'_>; 6] = [
            (Framing::Stream, b"aaaabbbbcc", &[b"aaaa", b"bbbb", b"cc"]),
            (Framing::Fixed, b"aaaabbbb", &[b"aaaa", b"bbbb"]),
            (Framing::Lines, b"a\n\nbbbb\ncc", &[b"a", b"", b"bbbb", b"cc"]),
            (Framing::Lines, b"\n\n", &[b"", b""]),
            (Framing::U32le, b"\x01\0\0\0a\0\0\0\0\x04\0\0\0bbbb", &[b"a", b"", b"bbbb"]),
            (Framing::U32be, b"\0\0\0\x04bbbb\0\0\0\x01a\0\0\0\0", &[b"bbbb", b"a", b""]),
        ];
        for (framing, bytes, expected) in cases {
            for piece_bytes in 1..=bytes.len() {
                assert_eq!(cut(framing, bytes, piece_bytes).unwrap(), expected, "{framing:?} {piece_bytes}");
            }
            assert!(cut(framing, b"", 1).unwrap().is_empty());
        }
    }

    #[test]
    fn what_is_broken_says_where() {
        let message_size = 4;
        let partial = |number, offset, there, wanted| Err(Broken::Partial { number, offset, there, wanted });
        let long = |number, offset, length| Err(Broken::TooLong { number, offset, length, message_size });
        for piece_bytes in 1..20 {
            for (framing, bytes, expected) in [
                (Framing::Fixed, &b"aaaabb"[..], partial(2, 4, 2, 4)),
                (Framing::Lines, b"a\nbbbbbb\n", long(2, 2, 6)),
                (Framing::Lines, b"a\nbbbbbbb", long(2, 2, 7)),
                (Framing::U32le, b"\x01\0\0\0a\x01\0", partial(2, 5, 2, 4)),
                (Framing::U32le, b"\x01\0\0\0a\x03\0\0\0bb", partial(2, 5, 6, 7)),
                (Framing::U32le, b"\x03\0\0\0", partial(1, 0, 4, 7)),
                (Framing::U32be, b"\0\0\0\x05aaaaa", long(1, 0, 5)),
            ] {
                assert_eq!(cut(framing, bytes, piece_bytes), expected, "{framing:?} {piece_bytes}");
            }
        }
    }

    #[test]
    fn a_line_that_is_too_long_is_noticed_before_its_end() {
        let mut assembler = Assembler::new(Framing::Lines, 4);
        assert_eq!(assembler.next(&mut &b"aaaa"[..]), Ok(None));
        assert_eq!(assembler.too_long(), None);
        assert_eq!(assembler.next(&mut &b"a"[..]), Ok(None));
        let expected = Broken::TooLong { number: 1, offset: 0, length: 5, message_size: 4 };
        assert_eq!(assembler.too_long(), Some(expected));
        assert!(assembler.partial.capacity() <= 8, "what is too long is not kept");
    }
}
