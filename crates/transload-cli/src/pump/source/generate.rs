//! Generated messages.

use super::{Ended, Outlet, Why};
use crate::pattern::Pattern;

/// One producer of generated messages.
#[derive(Debug)]
pub(in crate::pump) struct Generate {
    pub(in crate::pump) outlet: Outlet,
    pub(in crate::pump) pattern: Pattern,
    pub(in crate::pump) producer: u64,
    /// How many messages it offers, or no end.
    pub(in crate::pump) messages: Option<u64>,
}

impl Generate {
    #[expect(clippy::unnecessary_wraps, reason = "a source that cannot fail is still a source")]
    pub(in crate::pump) fn run(self) -> Ended {
        let Self { outlet, pattern, producer, messages } = self;
        for number in 0..messages.unwrap_or(u64::MAX) {
            if !outlet.offer(|slot| pattern.fill(producer, number, slot)) {
                return Ok(Why::Stopped);
            }
        }
        Ok(Why::Messages)
    }
}
