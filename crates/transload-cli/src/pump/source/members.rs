//! The members of a shared region as a source: they send by themselves, and it is watched until enough have left.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::{Ended, Why};
use crate::pump::region::Leavers;
use crate::pump::stop::Stop;
use crate::pump::tally::Tally;

/// How often it is looked who has left.
const LOOK: Duration = Duration::from_millis(20);

/// Members that send.
#[derive(Debug)]
pub(in crate::pump) struct Members {
    pub(in crate::pump) leavers: Leavers,
    pub(in crate::pump) stop: Arc<Stop>,
    /// After how many have left it is over.
    pub(in crate::pump) connections: Option<u64>,
    /// Whether the pump ends by itself, when it has taken so many messages as it should.
    pub(in crate::pump) is_limited: bool,
    pub(in crate::pump) tally: Arc<Tally>,
}

impl Members {
    pub(in crate::pump) fn run(self) -> Ended {
        loop {
            // Before the look at who has left: what was sent before is counted with it.
            let is_stopped = self.stop.is_raised();
            let left = self.leavers.count();
            self.tally.connections.set(left);
            if self.connections.is_some_and(|most| left >= most) {
                return Ok(Why::Connections);
            }
            if is_stopped {
                // It is asked why only if the pump has ended by itself.
                return Ok(if self.is_limited { Why::Messages } else { Why::Stopped });
            }
            thread::sleep(LOOK);
        }
    }
}
