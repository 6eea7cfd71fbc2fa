//! What is said over the socket: one hello of the client, one answer of the server. All numbers are little-endian.
//!
//! ```text
//! hello    magic 8 | version 4 | wish 4 | nothing 8
//! answer   magic 8 | version 4 | kind 4 | region 16 | pid 4 | uid 4 | nothing 8
//! ```
//! Magic and version stand in front in all versions to come, so that each side can say which one the other speaks.

/// The first bytes of each message.
const MAGIC: [u8; 8] = *b"TLregion";

/// The version of the protocol that this library speaks.
pub(super) const VERSION: u32 = 1;

pub(super) const HELLO_BYTES: usize = 24;
pub(super) const ANSWER_BYTES: usize = 48;

/// What a client wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// The descriptor, and to take part.
    Join = 1,
    /// The descriptor, to look at the region only.
    Look = 2,
    /// No descriptor: to know who serves, and when that ends.
    Watch = 3,
}

/// What a server answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) kind: Kind,
    /// The region that is served.
    pub(super) region: u128,
    /// The process that serves, as it knows itself: another namespace may know it by another number.
    pub(super) pid: u32,
    /// The user whose process serves.
    pub(super) uid: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The wish is granted; the descriptor comes along if one was wished for.
    Granted = 1,
    /// This user is not served.
    WrongUser = 2,
    /// The hello was none.
    Malformed = 3,
    /// The server speaks another version.
    Version = 4,
    /// There are too many connections.
    Full = 5,
    /// The server has no descriptor to give.
    NoDescriptor = 6,
}

/// A message that is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strange {
    Version(u32),
    Malformed,
}

impl Wish {
    pub(super) fn encode(self) -> [u8; HELLO_BYTES] {
        let mut bytes = [0; HELLO_BYTES];
        preface(&mut bytes, self as u32);
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Strange> {
        let word = read_preface(bytes, HELLO_BYTES)?;
        let wishes = [Self::Join, Self::Look, Self::Watch];
        wishes.into_iter().find(|&wish| wish as u32 == word).ok_or(Strange::Malformed)
    }

    /// Whether a descriptor comes with the answer.
    pub(super) fn is_for_descriptor(self) -> bool {
        self != Self::Watch
    }
}

impl Answer {
    pub(super) fn encode(self) -> [u8; ANSWER_BYTES] {
        let mut bytes = [0; ANSWER_BYTES];
        preface(&mut bytes, self.kind as u32);
        bytes[16..32].copy_from_slice(&self.region.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.pid.to_le_bytes());
        bytes[36..40].copy_from_slice(&self.uid.to_le_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Strange> {
        let word = read_preface(bytes, ANSWER_BYTES)?;
        let kinds =
            [Kind::Granted, Kind::WrongUser, Kind::Malformed, Kind::Version, Kind::Full, Kind::NoDescriptor];
        let kind = kinds.into_iter().find(|&kind| kind as u32 == word).ok_or(Strange::Malformed)?;
        let region = bytes[16..].first_chunk().map_or(0, |bytes| u128::from_le_bytes(*bytes));
        Ok(Self { kind, region, pid: word_at(bytes, 32), uid: word_at(bytes, 36) })
    }
}

fn preface(bytes: &mut [u8], word: u32) {
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[12..16].copy_from_slice(&word.to_le_bytes());
}

/// Checks all that stands in front of any message, and its length. Gives the word behind the version.
fn read_preface(bytes: &[u8], len: usize) -> Result<u32, Strange> {
    if bytes.len() < 16 || bytes[..8] != MAGIC {
        return Err(Strange::Malformed);
    }
    match word_at(bytes, 8) {
        VERSION if bytes.len() == len => Ok(word_at(bytes, 12)),
        VERSION => Err(Strange::Malformed),
        other => Err(Strange::Version(other)),
    }
}

/// The word at an offset, or 0 behind the end.
fn word_at(bytes: &[u8], offset: usize) -> u32 {
    bytes.get(offset..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_as_they_are_written() {
        for wish in [Wish::Join, Wish::Look, Wish::Watch] {
            assert_eq!(Wish::decode(&wish.encode()), Ok(wish));
        }
        for kind in [Kind::Granted, Kind::WrongUser, Kind::Malformed, Kind::Version, Kind::Full] {
            let answer = Answer { kind, region: u128::MAX - 6, pid: 77, uid: u32::MAX - 1 };
            assert_eq!(Answer::decode(&answer.encode()), Ok(answer));
        }
    }

    #[test]
    fn golden_bytes() {
        let hello = b"TLregion\x01\0\0\0\x02\0\0\0\0\0\0\0\0\0\0\0";
        assert_eq!(&Wish::Look.encode(), hello);
        let answer = Answer { kind: Kind::Granted, region: 0x0102, pid: 3, uid: 4 };
        assert_eq!(
            &answer.encode(),
            b"TLregion\x01\0\0\0\x01\0\0\0\x02\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x03\0\0\0\x04\0\0\0\0\0\0\0\0\0\0\0"
        );
    }

    #[test]
    fn each_part_and_each_other_byte_in_front_is_noticed() {
        let hello = Wish::Join.encode();
        let answer = Answer { kind: Kind::Granted, region: 1, pid: 2, uid: 3 }.encode();
        for len in 0..hello.len() {
            assert_eq!(Wish::decode(&hello[..len]), Err(Strange::Malformed), "{len}");
        }
        for len in 0..answer.len() {
            assert_eq!(Answer::decode(&answer[..len]), Err(Strange::Malformed), "{len}");
        }
        for at in 0..16 {
            let mut bytes = hello;
            bytes[at] ^= 0x10;
            let wanted = match at {
                8..12 => Strange::Version(1 ^ 0x10 << (8 * (at - 8))),
                _ => Strange::Malformed,
            };
            assert_eq!(Wish::decode(&bytes), Err(wanted), "{at}");
        }
        // Also of another length than ours.
        let mut newer = [&hello[..], &[0; 8]].concat();
        newer[8] = 2;
        assert_eq!(Wish::decode(&newer), Err(Strange::Version(2)));
    }
}
