//! What a member says of itself: for people to read, never to decide by.

use transload_core::{MEMBER_WORDS, SharedWord};

use super::region::SharedRegion;
use super::words::Words;

/// Words of an entry. Word 0 is the core's.
const STATE: usize = 1;
const PID: usize = 2;
const SINCE: usize = 3;
const NAME: usize = 8;
/// In the state: somebody is in. Above it the number of those that were.
const LIVE: u64 = 1;
/// Bytes of a name.
const NAME_BYTES: usize = (MEMBER_WORDS - NAME) * 8;

/// One member's entry in the table.
pub(super) struct Entry {
    table: Words,
    first: usize,
}

impl Entry {
    pub(super) fn of(region: &SharedRegion, number: u16) -> Self {
        Self { table: region.members_table(), first: usize::from(number) * MEMBER_WORDS }
    }

    fn word(&self, nth: usize) -> &SharedWord {
        &self.table.as_ref()[self.first + nth]
    }

    /// Whether somebody has joined with this number and has not left, dead or alive.
    pub(super) fn is_live(&self) -> bool {
        self.word(STATE).load() & LIVE != 0
    }

    /// Its process, by the number that it has in its own namespace.
    pub(super) fn pid(&self) -> u32 {
        u32::try_from(self.word(PID).load()).unwrap_or(0)
    }

    /// When it joined: seconds since 1970.
    pub(super) fn since(&self) -> u64 {
        self.word(SINCE).load()
    }

    /// Its name; what is not printable is shown as a question mark.
    pub(super) fn name(&self) -> String {
        let words = (NAME..MEMBER_WORDS).map(|nth| self.word(nth).load());
        let bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).take_while(|&byte| byte != 0).collect();
        let shown = |c: char| if c.is_control() || c == char::REPLACEMENT_CHARACTER { '?' } else { c };
        String::from_utf8_lossy(&bytes).chars().map(shown).collect()
    }

    /// Begins an entry. Only by whoever has the number's lock.
    pub(super) fn enter(&self, name: &str, pid: u32, since: u64) {
        let mut bytes = [0; NAME_BYTES];
        let len = name.floor_char_boundary(NAME_BYTES);
        bytes[..len].copy_from_slice(&name.as_bytes()[..len]);
        for (nth, part) in bytes.chunks_exact(8).enumerate() {
            let mut word = [0; 8];
            word.copy_from_slice(part);
            self.word(NAME + nth).store(u64::from_le_bytes(word));
        }
        self.word(PID).store(pid.into());
        self.word(SINCE).store(since);
        self.word(STATE).store((self.word(STATE).load() | LIVE).wrapping_add(2));
    }

    /// Ends it. Only by whoever has the number's lock.
    pub(super) fn leave(&self) {
        self.word(STATE).store(self.word(STATE).load() & !LIVE);
    }
}
