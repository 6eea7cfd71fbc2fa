//! A pool of equal buffers and a ring of messages that processes share, any of which may die at any instruction.
//!
//! ```text
//!  slot word   owner | state | tag | length      one a buffer: whose it is, in one word
//!  ring cell   lap | full | buffer | tag         one a message in flight: names a buffer
//!
//!  FREE --claim--> OWNED(producer) --send--> SENT(producer), named by a full cell
//!   ^                                           |
//!   |                                          take
//!   +----- cell emptied, slot freed ------- OWNED(consumer), the cell still full
//! ```
//!
//! Whatever is true of a buffer is one word, changed by one instruction. So wherever a member dies, the words say what it
//! had, and [`SharedParts::recover`] gives it back: a slot that no cell names is free again, one that a cell names is a
//! message, delivered once more if its consumer had died. Who is dead is for the caller to prove.
//!
//! Nothing here trusts the memory: each word is loaded once and range-checked, every loop is bounded, and a private
//! record of what this member holds keeps one buffer from being held twice whatever the words say.

mod cell;
mod claim;
mod done;
mod grant;
mod layout;
mod member;
mod parts;
mod poison;
mod recover;
mod send;
mod slot;
mod take;
mod taken;
mod word;

pub use claim::{ClaimCursor, SharedNoGrant};
pub use grant::SharedGrant;
pub use layout::{
    CONTROL_WORDS, MAX_MEMBERS, MAX_RING_SLOTS, MAX_SHARED_BUFFERS, MEMBER_WORDS, SLEEPER_WORDS, SharedCount,
    Sleeper,
};
pub use member::SharedMember;
pub use parts::{SharedGeometryError, SharedParts};
pub use poison::Poisoned;
pub use recover::Recovered;
pub use send::{SharedSendError, SharedSendRefused};
pub use slot::{Holding, SlotState};
pub use take::{SharedReader, SharedTakeError};
pub use taken::{SharedMessage, SharedNotes, SharedTaken};
pub use word::{FutexWord, SharedWord};
