//! Finds where messages end in bytes that go out as they are, and refuses what is none.

use crate::failure::Failure;
use crate::framing::Framing;

/// Follows a stream of bytes.
#[derive(Debug)]
pub(super) struct Cutter {
    framing: Framing,
    message_size: usize,
    /// How many messages are wanted.
    limit: Option<u64>,
    /// Messages that have ended.
    ended: u64,
    /// Where the stream stands, and where the message began that has not ended.
    offset: u64,
    begins: u64,
    /// Of `u32le` and `u32be`: what has come of the length, and the payload's bytes once it is known.
    header: [u8; 4],
    payload: Option<u64>,
}

/// What to do with some bytes.
#[derive(Debug)]
pub(super) struct Cut {
    /// So many of them go out.
    pub(super) bytes: usize,
    /// And so many messages end among those.
    pub(super) messages: u64,
    /// Whether more is wanted, or why not.
    pub(super) then: Then,
}

#[derive(Debug)]
pub(super) enum Then {
    More,
    Enough,
    Wrong(Failure),
}

impl Cutter {
    pub(super) fn new(framing: Framing, message_size: usize, limit: Option<u64>) -> Self {
        Self { framing, message_size, limit, ended: 0, offset: 0, begins: 0, header: [0; 4], payload: None }
    }

    /// Follows the stream over these bytes.
    pub(super) fn follow(&mut self, bytes: &[u8]) -> Cut {
        let (before, started) = (self.ended, self.offset);
        let mut at = 0;
        let cut = |cutter: &Self, at: usize, then| Cut { bytes: at, messages: cutter.ended - before, then };
        if self.framing == Framing::Stream {
            self.offset += bytes.len() as u64;
            return cut(self, bytes.len(), Then::More);
        }
        while at < bytes.len() {
            if self.limit == Some(self.ended) {
                return cut(self, at, Then::Enough);
            }
            match self.step(&bytes[at..]) {
                Ok((taken, ended)) => {
                    at += taken;
                    self.offset += taken as u64;
                    if ended {
                        self.ended += 1;
                        self.begins = self.offset;
                        self.payload = None;
                    }
                }
                // What stands before the message that is wrong is right.
                Err(failure) => {
                    let right = usize::try_from(self.begins.saturating_sub(started)).unwrap_or(0);
                    return cut(self, right, Then::Wrong(failure));
                }
            }
        }
        let then = if self.limit == Some(self.ended) { Then::Enough } else { Then::More };
        cut(self, at, then)
    }

    /// Whether a message has begun and not ended: wants no more than its rest then.
    pub(super) fn wants_rest_only(&mut self) -> bool {
        let is_within = self.framing != Framing::Stream && self.offset > self.begins;
        if is_within {
            self.limit = Some(self.ended + 1);
        }
        is_within
    }

    /// Says whether the stream may end here. A line needs no end then.
    pub(super) fn end(&self) -> Result<u64, Failure> {
        let there = self.offset - self.begins;
        match (self.framing, there) {
            (_, 0) | (Framing::Stream, _) => Ok(0),
            (Framing::Lines, _) => Ok(1),
            (Framing::Fixed, _) => Err(self.partial(there, self.message_size as u64)),
            (Framing::U32le | Framing::U32be, _) => {
                Err(self.partial(there, self.payload.map_or(4, |payload| payload.saturating_add(4))))
            }
        }
    }

    /// Goes on to the end of the message, of its length, or of the bytes. Says over how many bytes, and whether the
    /// message ends there.
    fn step(&mut self, bytes: &[u8]) -> Result<(usize, bool), Failure> {
        let there = self.offset - self.begins;
        let up_to = |end: u64| {
            let taken = usize::try_from(end - there).unwrap_or(usize::MAX).min(bytes.len());
            (taken, there + taken as u64 == end)
        };
        match self.framing {
            Framing::Stream => Ok((bytes.len(), false)),
            Framing::Fixed => Ok(up_to(self.message_size as u64)),
            Framing::Lines => {
                let line_end = bytes.iter().position(|&byte| byte == b'\n');
                let length = there + line_end.unwrap_or(bytes.len()) as u64;
                if length > self.message_size as u64 {
                    let at_least = if line_end.is_some() { "" } else { "at least " };
                    return Err(self.too_long(at_least, length));
                }
                Ok(line_end.map_or((bytes.len(), false), |end| (end + 1, true)))
            }
            Framing::U32le | Framing::U32be => {
                if let Some(payload) = self.payload {
                    return Ok(up_to(payload + 4));
                }
                let (taken, _) = up_to(4);
                let had = usize::try_from(there).unwrap_or(0);
                self.header[had..had + taken].copy_from_slice(&bytes[..taken]);
                if had + taken == 4 {
                    let length = match self.framing {
                        Framing::U32be => u32::from_be_bytes(self.header),
                        _ => u32::from_le_bytes(self.header),
                    };
                    if u64::from(length) > self.message_size as u64 {
                        return Err(self.too_long("", length.into()));
                    }
                    self.payload = Some(length.into());
                }
                Ok((taken, self.payload == Some(0)))
            }
        }
    }

    fn partial(&self, there: u64, wanted: u64) -> Failure {
        Failure::new(
            "source",
            format!(
                "the input ends within message {}, which begins at offset {}: {there} of {wanted} bytes are there",
                self.ended + 1,
                self.begins
            ),
        )
        .fix("check the input, --message-size and --framing; --framing stream takes any bytes")
    }

    fn too_long(&self, at_least: &str, length: u64) -> Failure {
        Failure::new(
            "source",
            format!(
                "message {}, at offset {}, has {at_least}{length} bytes, and a message has at most {}",
                self.ended + 1,
                self.begins,
                self.message_size
            ),
        )
        .fix(format!("use --message-size {length} or more, if the input has this framing"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Follows all bytes in pieces of this size: how many go out, in how many messages, and how it ends.
    fn run(mut cutter: Cutter, bytes: &[u8], piece: usize) -> (usize, u64, Result<(), String>) {
        let (mut out, mut messages) = (0, 0);
        for piece in bytes.chunks(piece) {
            let cut = cutter.follow(piece);
            out += cut.bytes;
            messages += cut.messages;
            match cut.then {
                Then::More => {}
                Then::Enough => return (out, messages, Ok(())),
                Then::Wrong(failure) => return (out, messages, Err(failure.message)),
            }
        }
        match cutter.end() {
            Ok(more) => (out, messages + more, Ok(())),
            Err(failure) => (out, messages, Err(failure.message)),
        }
    }

    #[test]
    fn messages_are_counted_whatever_the_pieces() {
        for (framing, bytes, messages) in [
            (Framing::Stream, &b"abc"[..], 0),
            (Framing::Fixed, b"abcdefgh", 2),
            (Framing::Fixed, b"", 0),
            (Framing::Lines, b"\n\nab\nabcd\n", 4),
            (Framing::Lines, b"ab\nabcd", 2),
            (Framing::U32le, b"\x02\0\0\0ab\0\0\0\0\x04\0\0\0abcd", 3),
            (Framing::U32be, b"\0\0\0\x02ab\0\0\0\0\0\0\0\x04abcd", 3),
        ] {
            for piece in [1, 2, 3, 5, 100] {
                let done = run(Cutter::new(framing, 4, None), bytes, piece);
                assert_eq!(done, (bytes.len(), messages, Ok(())), "{framing:?} by {piece}");
            }
        }
    }

    #[test]
    fn a_limit_cuts_behind_the_last_message() {
        for piece in [1, 2, 100] {
            let run = |framing, limit, bytes| run(Cutter::new(framing, 4, Some(limit)), bytes, piece);
            assert_eq!(run(Framing::Lines, 2, b"a\nbc\nd\n"), (5, 2, Ok(())));
            assert_eq!(run(Framing::Fixed, 1, b"abcdefg"), (4, 1, Ok(())), "what follows is not looked at");
            assert_eq!(run(Framing::U32be, 1, b"\0\0\0\x01a\0"), (5, 1, Ok(())));
            assert_eq!(run(Framing::Lines, 0, b"a"), (0, 0, Ok(())));
        }
    }

    #[test]
    fn a_stop_leaves_the_rest_of_a_message_to_be_wanted() {
        for (framing, first, rest) in [
            (Framing::Fixed, &b"abcdef"[..], 2),
            (Framing::Lines, b"ab\ncd", 3),
            (Framing::U32be, b"\0\0\0\x01a\0\0", 2),
        ] {
            let mut cutter = Cutter::new(framing, 4, None);
            assert!(!cutter.wants_rest_only(), "{framing:?}");
            cutter.follow(first);
            assert!(cutter.wants_rest_only(), "{framing:?}");
            let cut = cutter.follow(b"\0\x00\n\0\0\0\n");
            assert_eq!((cut.bytes, cut.messages), (rest, 1), "{framing:?}");
            assert!(matches!(cut.then, Then::Enough), "{framing:?}");
            assert!(!cutter.wants_rest_only(), "{framing:?}");
        }
        let mut stream = Cutter::new(Framing::Stream, 4, None);
        stream.follow(b"abc");
        assert!(!stream.wants_rest_only());
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        for (framing, bytes, words) in [
            (Framing::Fixed, &b"abcdef"[..], "message 2, which begins at offset 4: 2 of 4 bytes"),
            (Framing::Lines, b"a\nabcde\n", "message 2, at offset 2, has 5 bytes"),
            (Framing::U32le, b"\x01\0\0\0a\x05\0\0\0", "message 2, at offset 5, has 5 bytes"),
            (Framing::U32be, b"\0\0\0\x04ab", "message 1, which begins at offset 0: 6 of 8 bytes"),
            (Framing::U32be, b"\0\0", "message 1, which begins at offset 0: 2 of 4 bytes"),
        ] {
            let (_, _, end) = run(Cutter::new(framing, 4, None), bytes, 100);
            assert!(end.as_ref().is_err_and(|said| said.contains(words)), "{framing:?}: {end:?}");
        }
        // What stands before goes out.
        let (out, messages, end) = run(Cutter::new(Framing::Lines, 4, None), b"a\nabcde\n", 100);
        assert_eq!((out, messages, end.is_err()), (2, 1, true));
    }
}
