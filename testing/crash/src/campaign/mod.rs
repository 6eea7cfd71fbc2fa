//! Members that are killed and stopped at random moments, while they do all that members do.
//!
//! | module | holds |
//! |---|---|
//! | `side` | a memory beside the region: what producers know to be sent, and what consumers have got |
//! | [`actor`] | the members: producers, consumers, recoverers; they check what they see |
//! | [`puppet`] | one of them, as whoever kills it has it |
//! | [`director`] | who kills, stops and replaces them, and checks the end |

pub mod actor;
pub mod director;
pub mod puppet;
mod side;
