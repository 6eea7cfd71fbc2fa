//! A ring with one sender and one receiver, neither of whom can write what the other reads by.
//!
//! ```text
//!  the sender's memory      tail | asleep, signal | lengths | (buffers)     the receiver can only read it
//!  the receiver's memory    head | asleep, signal                           the sender can only read it
//!
//!           head            next              tail          head + slots
//!   --------- | --- taken --- | --- published --- | --- free --- |
//! ```
//!
//! Positions only grow, and wrap with their word; a position lies in the slot of its number, modulo the slots, of which
//! there is a power of two. Each side keeps its own position in private memory too, and never reads back what it wrote.
//! What it reads of the other side it loads once, without writing to that memory (relaxed loads and a fence, since all
//! other atomic operations may write), and checks: a position must lie between what it was before and what this side has
//! allowed it to be. If it does not, this side stops, for ever: what is private to it is as it was.

mod fault;
mod receiver;
mod sender;
mod side;

pub use fault::SpscFault;
pub use receiver::{SpscReceiver, SpscRun};
pub use sender::{SpscSendError, SpscSender};
pub use side::{SPSC_FUTEX_WORDS, SPSC_SIGNAL, SpscOwn, SpscPeer};
