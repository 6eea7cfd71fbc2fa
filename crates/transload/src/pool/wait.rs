//! Waiting for a lease.

use std::future::Future;
use std::time::{Duration, Instant};

use event_listener::{Listener, listener};

use super::body::Core;
use super::{AcquireError, BufferPool, Lease};

/// No sleep of a thread is longer than this, so that a fault elsewhere is a delay and not a hang.
const LONGEST_SLEEP: Duration = Duration::from_millis(100);

/// Counts somebody as waiting, also if its future is dropped.
struct Announced<'a>(&'a Core);

impl<'a> Announced<'a> {
    fn new(core: &'a Core) -> Self {
        core.pool.announce_waiter();
        Self(core)
    }
}

impl Drop for Announced<'_> {
    fn drop(&mut self) {
        self.0.pool.withdraw_waiter();
    }
}

impl BufferPool {
    /// A lease, waited for at most so long.
    ///
    /// # Errors
    ///
    /// [`AcquireError::TimedOut`], with what a person needs to know; [`AcquireError::Closed`].
    pub fn acquire_timeout(&self, timeout: Duration) -> Result<Lease, AcquireError> {
        let begun = match self.try_acquire() {
            Err(AcquireError::Exhausted { .. }) => Instant::now(),
            done => return done,
        };
        let core = &*self.body.core;
        let deadline = begun.checked_add(timeout);
        loop {
            listener!(core.freed => freed);
            let announced = Announced::new(core);
            match self.try_acquire() {
                Err(AcquireError::Exhausted { .. }) => {}
                done => return done,
            }
            let now = Instant::now();
            if deadline.is_some_and(|deadline| deadline <= now) {
                return Err(self.timed_out());
            }
            core.waited.add(1);
            // So that leases are known to be about as old as this wait is long.
            core.at_time(|_| ());
            let wake_at = now + LONGEST_SLEEP;
            freed.wait_deadline(deadline.map_or(wake_at, |deadline| deadline.min(wake_at)));
            drop(announced);
        }
    }

    #[cold]
    fn timed_out(&self) -> AcquireError {
        let held = self.oldest().map_or(Duration::ZERO, |oldest| oldest.held);
        let held_seconds = u16::try_from(held.as_secs()).unwrap_or(u16::MAX);
        AcquireError::TimedOut { held_seconds, capacity: self.capacity() }
    }

    /// A lease, waited for as long as it takes, as a future that any executor drives.
    ///
    /// # Errors
    ///
    /// [`AcquireError::Closed`].
    ///
    /// # Cancellation
    ///
    /// Dropping the future before it is ready leaves everything as it was; a wake-up that it had got goes to the next.
    pub fn acquire(&self) -> impl Future<Output = Result<Lease, AcquireError>> + Send + 'static {
        let pool = self.clone();
        async move {
            loop {
                match pool.try_acquire() {
                    Err(AcquireError::Exhausted { .. }) => {}
                    done => return done,
                }
                let freed = pool.body.core.freed.listen();
                let announced = Announced::new(&pool.body.core);
                match pool.try_acquire() {
                    Err(AcquireError::Exhausted { .. }) => {}
                    done => return done,
                }
                pool.body.core.waited.add(1);
                freed.await;
                drop(announced);
            }
        }
    }
}
