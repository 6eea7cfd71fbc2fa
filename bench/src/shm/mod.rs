//! Messages between two processes: a shared pool and ring beside iceoryx2, and beside a bare cache line.
//!
//! The program starts itself as the other process (`shm-peer`), each of the two on a core of its own. Both poll, neither
//! sleeps. Each message is written, and each word of it is read and compared, on either side, in the timed runs too.

mod alone;
mod compare;
mod content;
mod drive;
mod end;
mod folder;
mod iceoryx;
mod line;
mod link;
mod ours;
mod peer;
mod report;
mod way;

pub use alone::Alone;
pub use compare::compare;
pub use content::{Content, Hashed, Plain, Seen};
pub use drive::{Outcome, Until, drain, ping, pong, pour};
pub use link::Link;
pub use peer::be_the_peer;
pub use report::{Row, ShmDocument, Table};
pub use way::Way;
