//! The kernels that the stand-in knows by name: what they do on a device, done here.

use std::ops::Range;

use crate::work::address;

/// What a kernel does with a payload and the place for its output: gives the length of that.
pub(crate) type PerMessage = fn(&[u8], &mut [u8]) -> u32;

/// A launch of a kernel whose name is known.
#[derive(Clone, Debug)]
pub(crate) enum Twin {
    /// Over the messages of a batch.
    Batch { function: PerMessage, batch: Batch },
    /// Over two queues.
    Echo { memory: usize, inbound: usize, outbound: usize },
}

/// What a kernel over a batch is given.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batch {
    pub(crate) slots: usize,
    pub(crate) slots_at: usize,
    pub(crate) count: u32,
    pub(crate) slot_bytes: u32,
    pub(crate) prefix_bytes: u32,
    pub(crate) output: usize,
    pub(crate) outputs_at: u32,
    pub(crate) output_bytes: u32,
}

const DROPPED: u32 = u32::MAX;

fn usize_of(number: u32) -> usize {
    number as usize
}

/// The kernel of a name, if it is one over batches.
pub(crate) fn batch_kernel(name: &str) -> Option<PerMessage> {
    match name {
        "fnv1a" => Some(fnv1a),
        "keep_even" => Some(keep_even),
        "check_pattern" => Some(check_pattern),
        "transload_measure" => Some(sum),
        _ => None,
    }
}

/// FNV-1a, 64 bits.
fn fnv1a(payload: &[u8], output: &mut [u8]) -> u32 {
    let sum = payload
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    let room = output.len().min(8);
    output[..room].copy_from_slice(&sum.to_le_bytes()[..room]);
    8
}

/// Keeps messages whose first byte is even.
fn keep_even(payload: &[u8], output: &mut [u8]) -> u32 {
    if payload.first().is_none_or(|byte| byte % 2 != 0) {
        return DROPPED;
    }
    let len_bytes = payload.len().min(output.len());
    output[..len_bytes].copy_from_slice(&payload[..len_bytes]);
    u32::try_from(len_bytes).unwrap_or(DROPPED)
}

/// Whether each byte of a message follows from its first 8, as the command generates them: those 8, the length, and 1, or 2 if
/// one does not.
fn check_pattern(payload: &[u8], output: &mut [u8]) -> u32 {
    let Some(record) = output.first_chunk_mut::<16>() else { return DROPPED };
    let mut stamp = [0; 8];
    let len_bytes = payload.len().min(8);
    stamp[..len_bytes].copy_from_slice(&payload[..len_bytes]);
    let number = u64::from_le_bytes(stamp);
    let follows = |(word, index): (&[u8], u64)| {
        let mixed = (number ^ index).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        *word == (mixed ^ mixed >> 32).to_le_bytes()[..word.len()]
    };
    let is_right = payload.chunks(8).zip(0..).skip(1).all(follows);
    let length = u32::try_from(payload.len()).unwrap_or(DROPPED);
    record[..8].copy_from_slice(&stamp);
    record[8..12].copy_from_slice(&length.to_le_bytes());
    record[12..].copy_from_slice(&if is_right { 1_u32 } else { 2 }.to_le_bytes());
    16
}

/// The sum of the words, for the measurement.
fn sum(payload: &[u8], output: &mut [u8]) -> u32 {
    let words = payload.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word));
    let sum = words.fold(0_u32, u32::wrapping_add);
    if let Some(place) = output.first_chunk_mut::<4>() {
        *place = sum.to_le_bytes();
    }
    4
}

impl Twin {
    pub(crate) fn uses(&self) -> Vec<Range<usize>> {
        match self {
            Self::Batch { batch, .. } => batch.uses(),
            Self::Echo { memory, inbound, outbound } => {
                [inbound, outbound].map(|queue| memory + queue..memory + queue + 256).to_vec()
            }
        }
    }

    pub(crate) fn run(&self) {
        match self {
            Self::Batch { function, batch } => batch.run(*function),
            Self::Echo { memory, inbound, outbound } => echo(memory + inbound, memory + outbound),
        }
    }
}

impl Batch {
    fn uses(&self) -> Vec<Range<usize>> {
        let (slots, count) = (self.slots + self.slots_at, usize_of(self.count));
        let outputs = self.output + usize_of(self.outputs_at);
        vec![
            slots..slots + count * usize_of(self.slot_bytes),
            self.output..self.output + count * 4,
            outputs..outputs + count * usize_of(self.output_bytes),
        ]
    }

    fn run(&self, function: PerMessage) {
        let (slot_bytes, output_bytes) = (usize_of(self.slot_bytes), usize_of(self.output_bytes));
        for nth in 0..usize_of(self.count) {
            let slot = address(self.slots + self.slots_at + nth * slot_bytes);
            // SAFETY: the ranges were checked when the kernel was launched; nobody writes a slot in flight.
            let slot = unsafe { std::slice::from_raw_parts(slot, slot_bytes) };
            let output = address(self.output + usize_of(self.outputs_at) + nth * output_bytes);
            // SAFETY: as above; outputs are device memory, which nobody else reaches.
            let output = unsafe { std::slice::from_raw_parts_mut(output, output_bytes) };
            let payload = match (self.prefix_bytes, slot.split_first_chunk::<4>()) {
                (4, Some((length, rest))) => &rest[..usize_of(u32::from_le_bytes(*length)).min(rest.len())],
                _ => slot,
            };
            put(self.output + nth * 4, function(payload, output));
        }
    }
}

fn word(at: usize) -> u32 {
    // SAFETY: the words of a queue are device memory, checked when the kernel was launched.
    u32::from_le_bytes(unsafe { address::<[u8; 4]>(at).read() })
}

fn put(at: usize, word: u32) {
    // SAFETY: as above.
    unsafe { address::<[u8; 4]>(at).write(word.to_le_bytes()) };
}

/// Takes each message of one queue, and gives it to the other with all bits of 0x5a turned.
fn echo(inbound: usize, outbound: usize) {
    const TAIL: usize = 128;
    const HEAD: usize = 192;
    let slot = |queue: usize, position: u32| {
        let place = usize_of(position & (word(queue) - 1));
        (
            queue + usize_of(word(queue + 8)) + place * 4,
            queue + usize_of(word(queue + 12)) + place * usize_of(word(queue + 4)),
        )
    };
    let size = usize_of(word(inbound + 4).min(word(outbound + 4)));
    loop {
        let (head, tail) = (word(inbound + HEAD), word(outbound + TAIL));
        let is_full = tail.wrapping_sub(word(outbound + HEAD)) >= word(outbound);
        if head == word(inbound + TAIL) || is_full {
            return;
        }
        let (mark, from) = slot(inbound, head);
        put(inbound + HEAD, head.wrapping_add(1));
        if word(mark) != 0 {
            continue;
        }
        let (mark, to) = slot(outbound, tail);
        for nth in 0..size {
            // SAFETY: both slots are device memory, checked when the kernel was launched.
            let byte = unsafe { address::<u8>(from + nth).read() };
            // SAFETY: as above.
            unsafe { address::<u8>(to + nth).write(byte ^ 0x5a) };
        }
        put(mark, 0);
        put(outbound + TAIL, tail.wrapping_add(1));
    }
}
