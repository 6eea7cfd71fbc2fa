//! Into a region that processes share: each message is written into a buffer of it, and published.
//!
//! This process takes part in the region: while it runs, the region outlives its pump, and the next pump of that name
//! takes over what is in it. It ends when all that it has sent is done, so that its death loses nothing either.

mod document;
mod feed;
mod run;
mod session;
mod watch;

pub(super) use self::run::main;
