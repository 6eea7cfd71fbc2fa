//! Generated messages as a stream of bytes: the pattern that `pump --verify` knows, framed.

use crate::failure::Failure;
use crate::pump::framing::Framing;
use crate::pump::pattern::Pattern;

/// Makes the messages of one connection, which counts as one producer.
#[derive(Debug)]
pub(super) struct Generator {
    pattern: Pattern,
    framing: Framing,
    producer: u64,
    message_size: usize,
    /// The message that is made next.
    number: u64,
    /// How many it makes, or no end.
    messages: Option<u64>,
    /// A frame that does not fit what is left of a buffer, and how much of it has gone out.
    rest: Vec<u8>,
    gone: usize,
    /// The bytes whose digits make a line.
    bytes_of_line: Vec<u8>,
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
        // Two digits a byte.
        let bytes = if framing == Framing::Lines { message_size.div_ceil(2) } else { message_size };
        let pattern = Pattern::new(bytes, connections).ok_or_else(|| {
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
            messages: messages.map(|messages| messages / all + u64::from(producer < messages % all)),
            rest: Vec::new(),
            gone: 0,
            bytes_of_line: vec![0; if framing == Framing::Lines { bytes } else { 0 }],
        };
        Ok((0..all).map(generator).collect())
    }

    /// Fills a buffer; says with how many bytes, none at the end, and how many messages end among them.
    pub(super) fn fill(&mut self, buffer: &mut [u8]) -> (usize, u64) {
        let (mut filled, mut messages) = (0, 0);
        let frame = self.frame_bytes();
        while filled < buffer.len() {
            if self.gone < self.rest.len() {
                let part = (self.rest.len() - self.gone).min(buffer.len() - filled);
                buffer[filled..filled + part].copy_from_slice(&self.rest[self.gone..self.gone + part]);
                filled += part;
                self.gone += part;
                messages += u64::from(self.gone == self.rest.len());
            } else if self.messages == Some(self.number) {
                break;
            } else if buffer.len() - filled >= frame {
                self.make(&mut buffer[filled..filled + frame]);
                filled += frame;
                messages += 1;
            } else {
                let mut rest = std::mem::take(&mut self.rest);
                rest.resize(frame, 0);
                self.make(&mut rest);
                (self.rest, self.gone) = (rest, 0);
            }
        }
        (filled, messages)
    }

    fn frame_bytes(&self) -> usize {
        match self.framing {
            Framing::Stream | Framing::Fixed => self.message_size,
            Framing::Lines => self.message_size + 1,
            Framing::U32le | Framing::U32be => self.message_size + 4,
        }
    }

    /// Makes the next message, in its frame.
    fn make(&mut self, frame: &mut [u8]) {
        // It fits: the options refuse longer ones.
        let length = u32::try_from(self.message_size).unwrap_or(u32::MAX);
        let payload = match self.framing {
            Framing::Stream | Framing::Fixed => frame,
            Framing::U32le | Framing::U32be => {
                let (header, payload) = frame.split_at_mut(4);
                let big = self.framing == Framing::U32be;
                header.copy_from_slice(&if big { length.to_be_bytes() } else { length.to_le_bytes() });
                payload
            }
            Framing::Lines => {
                self.pattern.fill(self.producer, self.number, &mut self.bytes_of_line);
                let (digits, end) = frame.split_at_mut(self.message_size);
                end.fill(b'\n');
                for (two, byte) in digits.chunks_mut(2).zip(&self.bytes_of_line) {
                    let both = [byte >> 4, byte & 15].map(|digit| b"0123456789abcdef"[usize::from(digit)]);
                    two.copy_from_slice(&both[..two.len()]);
                }
                self.number += 1;
                return;
            }
        };
        self.pattern.fill(self.producer, self.number, payload);
        self.number += 1;
    }
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
