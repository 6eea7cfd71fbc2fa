//! How the bytes of a connection lie in slots.

/// Bytes of the length in front of a payload, where a slot has one.
pub const LENGTH_BYTES: usize = 4;

/// How the bytes of a connection lie in slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SlotLayout {
    /// A slot is a message, and a message is a slot: a connection carries whole messages, one behind the other.
    Dense,
    /// A slot begins with the length of its payload, [`LENGTH_BYTES`] bytes, little-endian. Then come as many bytes as
    /// were there, then zeros.
    Prefixed,
}

impl SlotLayout {
    /// The most bytes of payload in a slot of so many bytes; 0 if none fit.
    pub fn payload_bytes(self, slot_bytes: usize) -> usize {
        match self {
            Self::Dense => slot_bytes,
            Self::Prefixed => slot_bytes.saturating_sub(LENGTH_BYTES),
        }
    }

    /// The number by which a region that processes share says, in its `user_word`, how messages lie in its buffers.
    pub fn code(self) -> u64 {
        match self {
            Self::Dense => 1,
            Self::Prefixed => 2,
        }
    }

    /// The layout that a number stands for, if it stands for one.
    pub fn of_code(code: u64) -> Option<Self> {
        [Self::Dense, Self::Prefixed].into_iter().find(|layout| layout.code() == code)
    }

    /// Completes a slot whose payload of so many bytes is in its place.
    ///
    /// # Panics
    ///
    /// If the slot is shorter than that.
    #[inline]
    pub fn complete(self, slot: &mut [u8], payload_bytes: usize) {
        if self == Self::Prefixed {
            let (length, rest) = slot.split_at_mut(LENGTH_BYTES);
            // A slot is shorter than what 32 bits count, or its maker has other worries.
            length.copy_from_slice(&u32::try_from(payload_bytes).unwrap_or(u32::MAX).to_le_bytes());
            rest[payload_bytes..].fill(0);
        }
    }
}
