//! Messages out of a file or the standard input.

use std::io::{self, BufRead};
use std::sync::Arc;

use transload_core::Flag;

use super::{Ended, Outlet, Why};
use crate::failure::Failure;
use crate::pump::digest::Digests;
use crate::pump::framing::Framing;

/// Reads messages, frames them and offers them.
pub(in crate::pump) struct Read<R> {
    pub(in crate::pump) outlet: Outlet,
    pub(in crate::pump) input: R,
    pub(in crate::pump) framing: Framing,
    /// The most bytes of a payload.
    pub(in crate::pump) message_size: usize,
    /// How many messages it offers at most.
    pub(in crate::pump) messages: Option<u64>,
    /// Where messages are noted if they are to be checked.
    pub(in crate::pump) digests: Option<Digests>,
    /// Raised if the last line has no end.
    pub(in crate::pump) unended: Arc<Flag>,
}

/// What was read.
enum Got {
    Message,
    End,
}

impl<R: BufRead> Read<R> {
    pub(in crate::pump) fn run(mut self) -> Ended {
        let mut payload = Vec::with_capacity(self.message_size.min(1 << 20));
        let (mut number, mut offset) = (0u64, 0u64);
        loop {
            if self.messages == Some(number) {
                return Ok(Why::Messages);
            }
            number += 1;
            payload.clear();
            match self.next(&mut payload, number, &mut offset)? {
                Got::End => return Ok(Why::End),
                Got::Message => {}
            }
            let (framing, digests) = (self.framing, &self.digests);
            let goes_on = self.outlet.offer(|slot| {
                framing.fill(slot, &payload);
                if let Some(digests) = digests {
                    digests.note(slot);
                }
            });
            if !goes_on {
                return Ok(Why::Stopped);
            }
        }
    }

    /// Reads the payload of the message with this number; `offset` is where the input stands.
    fn next(&mut self, payload: &mut Vec<u8>, number: u64, offset: &mut u64) -> Result<Got, Failure> {
        let begins = *offset;
        match self.framing {
            Framing::Stream => {
                self.read(payload, self.message_size, offset)?;
                Ok(if payload.is_empty() { Got::End } else { Got::Message })
            }
            Framing::Fixed => {
                self.read(payload, self.message_size, offset)?;
                match payload.len() {
                    0 => Ok(Got::End),
                    whole if whole == self.message_size => Ok(Got::Message),
                    part => Err(partial(number, begins, part, self.message_size)),
                }
            }
            Framing::Lines => self.next_line(payload, number, offset),
            Framing::U32le | Framing::U32be => {
                self.read(payload, 4, offset)?;
                let header = match payload.len() {
                    0 => return Ok(Got::End),
                    4 => [payload[0], payload[1], payload[2], payload[3]],
                    part => return Err(partial(number, begins, part, 4)),
                };
                let length = if self.framing == Framing::U32le {
                    u32::from_le_bytes(header)
                } else {
                    u32::from_be_bytes(header)
                };
                let wanted = usize::try_from(length).unwrap_or(usize::MAX);
                if wanted > self.message_size {
                    return Err(too_long(number, begins, u64::from(length), self.message_size));
                }
                payload.clear();
                self.read(payload, wanted, offset)?;
                if payload.len() < wanted {
                    return Err(partial(number, begins, payload.len() + 4, wanted + 4));
                }
                Ok(Got::Message)
            }
        }
    }

    /// Appends bytes until there are `wanted`, or the input ends.
    fn read(&mut self, payload: &mut Vec<u8>, wanted: usize, offset: &mut u64) -> Result<(), Failure> {
        while payload.len() < wanted {
            let there = fill_buf(&mut self.input)?;
            if there.is_empty() {
                break;
            }
            let taken = there.len().min(wanted - payload.len());
            payload.extend_from_slice(&there[..taken]);
            self.input.consume(taken);
            *offset += taken as u64;
        }
        Ok(())
    }

    /// Appends a line without its end. A line that is too long is read to its end, for its length.
    fn next_line(&mut self, payload: &mut Vec<u8>, number: u64, offset: &mut u64) -> Result<Got, Failure> {
        let begins = *offset;
        let (mut length, mut ended) = (0u64, false);
        while !ended {
            let there = fill_buf(&mut self.input)?;
            if there.is_empty() {
                break;
            }
            let line_end = there.iter().position(|&byte| byte == b'\n');
            ended = line_end.is_some();
            let part = &there[..line_end.unwrap_or(there.len())];
            length += part.len() as u64;
            if length <= self.message_size as u64 {
                payload.extend_from_slice(part);
            }
            let taken = part.len() + usize::from(ended);
            self.input.consume(taken);
            *offset += taken as u64;
        }
        if length > self.message_size as u64 {
            return Err(too_long(number, begins, length, self.message_size));
        }
        match (ended, length) {
            (false, 0) => Ok(Got::End),
            (false, _) => {
                // Before the message is on its way, so that whoever writes it back knows.
                self.unended.raise();
                Ok(Got::Message)
            }
            (true, _) => Ok(Got::Message),
        }
    }
}

fn fill_buf(input: &mut impl BufRead) -> Result<&[u8], Failure> {
    // Two calls, since a result that borrows cannot be looked at and returned from a loop.
    loop {
        match input.fill_buf() {
            Ok(_) => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Failure::new("source", format!("the input cannot be read: {error}"))),
        }
    }
    input.fill_buf().map_err(|error| Failure::new("source", format!("the input cannot be read: {error}")))
}

fn partial(number: u64, offset: u64, there: usize, wanted: usize) -> Failure {
    Failure::new(
        "source",
        format!(
            "the input ends within message {number}, which begins at offset {offset}: {there} of {wanted} bytes are there"
        ),
    )
    .fix("check the input, --message-size and --framing; --framing stream takes any length")
}

fn too_long(number: u64, offset: u64, length: u64, message_size: usize) -> Failure {
    Failure::new(
        "source",
        format!("message {number}, at offset {offset}, has {length} bytes, and a message has at most {message_size}"),
    )
    .fix(format!("use --message-size {length} or more"))
}
