//! What a proactor has done so far.

/// What a proactor has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Operations that were asked for.
    pub submitted: u64,
    /// Operations that have an outcome.
    pub finished: u64,
    /// Bytes that sends have handed to the kernel.
    pub sent_bytes: u64,
    /// Bytes that receives have delivered.
    pub received_bytes: u64,
    /// Sends that the kernel took in more than one part, each part after the first.
    pub short_sends: u64,
    /// Attempts that sent without a copy into the kernel.
    pub zero_copied: u64,
    /// Attempts that should have, and that the kernel copied all the same.
    pub copied: u64,
    /// Sends that were done again with a copy, because the kernel refused to pin their memory or knows no other way.
    pub zero_copy_refused: u64,
    /// How often a receive found no buffer and waited for one.
    pub starved: u64,
    /// How often a receive that had waited for a buffer went on.
    pub resumed: u64,
    /// How often a stream was held because nobody took what it delivered.
    pub paused: u64,
    /// How often completions overflowed the kernel's queue. None was lost.
    pub overflows: u64,
    /// Operations whose memory will never come back, because the kernel had not let go when the proactor ended.
    pub quarantined: u64,
}
