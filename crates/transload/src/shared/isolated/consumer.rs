//! The end that the messages of many lanes come out of.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::wait;
use super::batch::IsolatedBatch;
use super::error::{IsolatedTakeError, LaneEnd};
use super::lane::Lane;
use super::sleep::{self, Sleep};

/// Takes messages out of many lanes, in turn. It may move between threads.
///
/// Each take is of one lane, and the next begins with the lane behind it: a producer that floods its lane delays the others
/// by at most one batch each. A lane ends when its producer is gone and all that it had published has been taken, or when it
/// lies; the others go on.
#[derive(Debug, Default)]
pub struct Consumer {
    lanes: Vec<Member>,
    /// Which comes first at the next take.
    turn: usize,
    /// How many there ever were.
    added: u64,
}

#[derive(Debug)]
struct Member {
    number: u64,
    lane: Arc<Lane>,
    /// Seen to be gone: what is not published yet never will be.
    is_gone: bool,
}

impl Consumer {
    /// A consumer without lanes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes from this lane too. Its number: from 0 on, and never given again.
    pub fn add(&mut self, lane: Lane) -> u64 {
        let number = self.added;
        self.added += 1;
        self.lanes.push(Member { number, lane: Arc::new(lane), is_gone: false });
        number
    }

    /// Ends a lane, whatever is in it. Says whether there was one of this number.
    pub fn remove(&mut self, lane: u64) -> bool {
        let before = self.lanes.len();
        self.lanes.retain(|member| member.number != lane);
        self.lanes.len() < before
    }

    /// The lanes, by their numbers.
    pub fn lanes(&self) -> impl Iterator<Item = (u64, &Lane)> {
        self.lanes.iter().map(|member| (member.number, &*member.lane))
    }

    /// Takes at most `max` messages of one lane, in place. They stay where they are until the batch is dropped.
    ///
    /// # Errors
    ///
    /// [`IsolatedTakeError`]. [`Ended`](IsolatedTakeError::Ended) is said once for each lane that ends.
    pub fn take(&mut self, max: usize) -> Result<IsolatedBatch, IsolatedTakeError> {
        if max == 0 {
            return Err(IsolatedTakeError::ZeroMax);
        }
        let count = self.lanes.len();
        for nth in 0..count {
            let at = (self.turn + nth) % count;
            let member = &self.lanes[at];
            member.lane.check_process()?;
            let end = match member.lane.take(max) {
                Ok(Some((run, batch))) => {
                    self.turn = at + 1;
                    return Ok(IsolatedBatch::new(member.lane.clone(), member.number, run, batch));
                }
                Ok(None) if member.is_gone => LaneEnd::Gone,
                Ok(None) => continue,
                Err(fault) => LaneEnd::Fault(fault),
            };
            let lane = self.lanes.remove(at).number;
            self.turn = at;
            tracing::info!(lane, %end, "a lane has ended");
            return Err(IsolatedTakeError::Ended { lane, end });
        }
        Err(IsolatedTakeError::Empty)
    }

    /// Looks whether producers are gone, so that their lanes end when they are empty: one system call a lane. It happens by
    /// itself while one waits.
    pub fn look_for_ends(&mut self) {
        for member in &mut self.lanes {
            member.is_gone = member.is_gone || !member.lane.is_connected();
        }
    }

    /// Whether a take would give something, or say that a lane has ended.
    ///
    /// # Errors
    ///
    /// [`IsolatedTakeError::Forked`].
    pub fn is_ready(&self) -> Result<bool, IsolatedTakeError> {
        for member in &self.lanes {
            member.lane.check_process()?;
            if member.is_gone || member.lane.is_ready() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Waits until a take would give something, or say that a lane has ended, for at most so long; says whether it would.
    ///
    /// # Errors
    ///
    /// [`IsolatedTakeError::Forked`].
    pub fn wait_timeout(&mut self, timeout: Duration) -> Result<bool, IsolatedTakeError> {
        let deadline = Instant::now().checked_add(timeout);
        loop {
            let found = wait::spin(|| match self.is_ready() {
                Ok(false) => None,
                done => Some(done),
            });
            let left = wait::left(deadline);
            match found {
                Some(done) => return done,
                None if left == Some(Duration::ZERO) => return Ok(false),
                None => {}
            }
            let words: Vec<Sleep<'_>> = self.lanes.iter().map(|member| member.lane.begin_sleep()).collect();
            let is_ready = self.is_ready();
            if is_ready == Ok(false) {
                sleep::sleep(&words, left);
            }
            self.lanes.iter().for_each(|member| member.lane.end_sleep());
            if is_ready != Ok(false) {
                return is_ready;
            }
            self.look_for_ends();
        }
    }
}
