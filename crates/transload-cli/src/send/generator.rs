//! Generated messages as a stream of bytes: the pattern that `pump --verify` knows, framed.

use crate::failure::Failure;
use crate::framing::Framing;
use crate::pattern::Pattern;

/// Makes the messages of one connection, which counts as one producer.
#[derive(Debug)]
pub(super) struct Generator {
    pattern: Pattern,
    framing: Framing,
    producer: u64,
    message_size: usize,
    /// The message that is being made, and how much of its frame has been.
    number: u64,
    made: usize,
    /// How many it makes, or no end.
    messages: Option<u64>,
}

impl Generator {
    /// One for each connection.
    ///
    /// # Errors
    ///
    /// Messages too small to tell the connections apart.
    pub(super) fn all(
        framing: Framing,
        message_size: usize,
        connections: u16,
        messages: Option<u64>,
    ) -> Result<Vec<Self>, Failure> {
        let pattern = Pattern::new(pattern_bytes(framing, message_size), connections).ok_or_else(|| {
            Failure::usage(format!(
                "messages of {message_size} bytes cannot tell {connections} connections apart: use a larger --message-size"
            ))
        })?;
        let all = u64::from(connections);
        let generator = |producer| Self {
            pattern,
            framing,
            producer,
            message_size,
            number: 0,
            made: 0,
            messages: messages.map(|messages| messages / all + u64::from(producer < messages % all)),
        };
        Ok((0..all).map(generator).collect())
    }

    /// One for a member of a region, which others tell apart by its number.
    ///
    /// # Errors
    ///
    /// Messages too small for that.
    #[cfg(target_os = "linux")]
    pub(super) fn of_member(
        framing: Framing,
        message_size: usize,
        messages: Option<u64>,
    ) -> Result<Self, Failure> {
        let pattern = Pattern::of_members(pattern_bytes(framing, message_size)).ok_or_else(|| {
            Failure::usage(format!(
                "messages of {message_size} bytes cannot tell the members of a region apart: use a larger --message-size"
            ))
        })?;
        Ok(Self { pattern, framing, producer: 0, message_size, number: 0, made: 0, messages })
    }

    /// Fills a buffer; says with how many bytes, none at the end, and how many messages end among them.
    ///
    /// A message is begun only where there is room for all of it, if a buffer has that: whoever stops between two
    /// buffers stops between two messages then.
    pub(super) fn fill(&mut self, buffer: &mut [u8]) -> (usize, u64) {
        let (mut filled, begun_with) = (0, self.number);
        while filled < buffer.len() && self.messages != Some(self.number) {
            let begins = self.made == 0 && filled > 0;
            if begins && self.frame_bytes() > (buffer.len() - filled) as u64 {
                break;
            }
            filled += self.part(&mut buffer[filled..]);
        }
        (filled, self.number - begun_with)
    }

    /// Writes the payload of a member's next message; nothing at the end.
    #[cfg(target_os = "linux")]
    pub(super) fn next_payload(&mut self, member: u16, payload: &mut [u8]) -> Option<()> {
        if self.messages == Some(self.number) {
            return None;
        }
        self.producer = member.into();
        self.payload(0, payload);
        self.number += 1;
        Some(())
    }

    /// Whether the peer would miss the rest of a message, were this the end.
    pub(super) fn is_within_message(&self) -> bool {
        self.made > 0 && self.framing != Framing::Stream
    }

    /// Bytes of a message with what its framing adds.
    fn frame_bytes(&self) -> u64 {
        let added = match self.framing {
            Framing::Stream | Framing::Fixed => 0,
            Framing::Lines => 1,
            Framing::U32le | Framing::U32be => 4,
        };
        self.message_size as u64 + added
    }

    /// Goes on with the frame: to the end of its length, its payload or its end mark, or of the buffer, which has room.
    fn part(&mut self, buffer: &mut [u8]) -> usize {
        // It fits: the options refuse longer ones.
        let length = u32::try_from(self.message_size).unwrap_or(u32::MAX);
        let (header, end): (&[u8], &[u8]) = match self.framing {
            Framing::Stream | Framing::Fixed => (&[], &[]),
            Framing::Lines => (&[], b"\n"),
            Framing::U32le => (&length.to_le_bytes(), &[]),
            Framing::U32be => (&length.to_be_bytes(), &[]),
        };
        let ends = header.len() + self.message_size;
        let copied = |from: &[u8], buffer: &mut [u8]| {
            let bytes = from.len().min(buffer.len());
            buffer[..bytes].copy_from_slice(&from[..bytes]);
            bytes
        };
        let bytes = if self.made < header.len() {
            copied(&header[self.made..], buffer)
        } else if self.made < ends {
            let bytes = (ends - self.made).min(buffer.len());
            self.payload(self.made - header.len(), &mut buffer[..bytes]);
            bytes
        } else {
            copied(&end[self.made - ends..], buffer)
        };
        self.made += bytes;
        if self.made == ends + end.len() {
            self.made = 0;
            self.number += 1;
        }
        bytes
    }

    /// Writes a part of the payload, from an offset in it on.
    fn payload(&self, mut offset: usize, part: &mut [u8]) {
        if self.framing != Framing::Lines {
            return self.pattern.fill_from(self.producer, self.number, offset, part);
        }
        let mut bytes = [0; 256];
        for digits in part.chunks_mut(2 * bytes.len() - 1) {
            self.pattern.fill_from(self.producer, self.number, offset / 2, &mut bytes);
            for (at, digit) in (offset % 2..).zip(&mut *digits) {
                let byte = bytes[at / 2];
                let value = if at % 2 == 0 { byte >> 4 } else { byte & 15 };
                *digit = b"0123456789abcdef"[usize::from(value)];
            }
            offset += digits.len();
        }
    }
}

/// Bytes of the pattern in a message: of lines, two digits are a byte.
fn pattern_bytes(framing: Framing, message_size: usize) -> usize {
    if framing == Framing::Lines { message_size.div_ceil(2) } else { message_size }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All bytes, through buffers of this size.
    fn bytes(framing: Framing, message_size: usize, messages: u64, buffer: usize) -> Vec<u8> {
        let mut generator = Generator::all(framing, message_size, 1, Some(messages)).unwrap().remove(0);
        let (mut all, mut counted) = (Vec::new(), 0);
        loop {
            let mut part = vec![0xAA; buffer];
            let (filled, ended) = generator.fill(&mut part);
            counted += ended;
            if filled == 0 {
                assert_eq!(counted, messages);
                return all;
            }
            all.extend_from_slice(&part[..filled]);
        }
    }

    #[test]
    fn buffers_of_any_size_make_the_same_stream() {
        for framing in [Framing::Stream, Framing::Fixed, Framing::Lines, Framing::U32le, Framing::U32be] {
            for message_size in [1, 2, 7, 8, 64, 1000] {
                let whole = bytes(framing, message_size, 9, 1 << 20);
                for buffer in [1, 3, 8, 64, 999, 1004, 4096] {
                    assert!(
                        bytes(framing, message_size, 9, buffer) == whole,
                        "{framing:?} {message_size} {buffer}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_buffer_ends_with_a_message_if_it_has_room_for_one() {
        for framing in [Framing::Fixed, Framing::Lines, Framing::U32le, Framing::U32be] {
            let mut generator = Generator::all(framing, 10, 1, None).unwrap().remove(0);
            let frame = usize::try_from(generator.frame_bytes()).unwrap();
            assert_eq!(generator.fill(&mut [0; 37]), (37 / frame * frame, (37 / frame) as u64));
            assert!(!generator.is_within_message(), "{framing:?}");
            // Less room than that: in parts, and nothing else is begun behind the last.
            assert_eq!(generator.fill(&mut [0; 8]), (8, 0));
            assert!(generator.is_within_message(), "{framing:?}");
            assert_eq!(generator.fill(&mut [0; 8]), (frame - 8, 1));
            assert!(!generator.is_within_message(), "{framing:?}");
        }
    }

    #[test]
    fn frames() {
        assert_eq!(bytes(Framing::U32be, 1, 2, 64), [0, 0, 0, 1, 0, 0, 0, 0, 1, 1]);
        assert_eq!(bytes(Framing::U32le, 1, 2, 64), [1, 0, 0, 0, 0, 1, 0, 0, 0, 1]);
        assert_eq!(bytes(Framing::Lines, 3, 2, 64), b"000\n010\n");
        assert_eq!(bytes(Framing::Fixed, 8, 2, 64), [0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
        assert!(bytes(Framing::Stream, 8, 0, 64).is_empty());
    }

    #[test]
    fn connections_share_the_messages() {
        let generators = Generator::all(Framing::Fixed, 16, 3, Some(8)).unwrap();
        let counts: Vec<u64> = generators.into_iter().map(|mut one| one.fill(&mut [0; 1024]).1).collect();
        assert_eq!(counts, [3, 3, 2]);
        assert!(Generator::all(Framing::Fixed, 1, 257, None).is_err());
    }
}
