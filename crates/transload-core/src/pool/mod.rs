//! A pool of equal buffers, lent one at a time to any thread and given back by any other.
//!
//! ```text
//!            claim: one compare-and-swap                  release: one store
//!   free  -------------------------------->  leased  -------------------------->  free, the next generation
//!                                             |   ^
//!                                    lay down |   | take up: one compare-and-swap
//!                                             v   |
//!                                              raw (a lease as plain numbers)
//! ```
//!
//! The word of a slot is the truth, and the only one: who swaps it from free to leased has the buffer. Everything else
//! is a *hint* where a free one may be: a short list in each thread's seat, and a summary, a tree of bits, for all. A
//! hint may be old, doubled or lost, and then costs a look. So nothing has to be taken back from a thread that ends or
//! stands still: whatever it has given back, anybody finds.
//!
//! **Exhausted is proved, not guessed.** Each seat counts its claims *after* the swap of the word and its releases
//! *before* the store to it. Whoever adds up first all claims and then all releases gets no more than what was leased
//! at the moment between. If that is the capacity, all buffers were leased at that moment. This costs one line a seat,
//! at sixteen buffers as at a million. A thread that stands still between its swap and its count makes the sums too
//! small for ever; then the words decide: two looks over all of them in which each is leased and the sum of all
//! generations is the same. Generations only grow, so no word changed hands between the looks.

mod attention;
mod claim;
mod find;
mod geometry;
mod release;
mod seat;
mod slot;
mod summary;

pub use attention::Notice;
pub use claim::NoGrant;
pub use geometry::{MAX_BUFFERS, PoolGeometryError};
pub use pool::{Oldest, Pool, Tally};
pub use seat::{SEATS, Seat};
pub use slot::{Grant, Slot};
pub use summary::HintWord;

#[expect(clippy::module_inception, reason = "the folder is the pool, this file its state")]
mod pool;
