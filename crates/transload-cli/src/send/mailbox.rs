//! Input that can only be waited for by a thread: pipes, terminals, devices.

use std::collections::VecDeque;
use std::fs::File;
use std::future::Future;
use std::io::{ErrorKind, Read};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use event_listener::Event;
use transload::pool::{BufferPool, Lease};
use transload_core::Flag;

use super::stop::Stop;
use crate::failure::Failure;

/// How often the thread looks whether it is to stop while there is no buffer.
const LOOK: Duration = Duration::from_millis(50);

/// What the reading thread has read.
#[derive(Debug)]
pub(super) enum Letter {
    /// Whatever has come, as soon as it has: as long as its lease.
    Bytes(Lease),
    End,
    Failed(std::io::Error),
}

/// From the reading thread to the connection. It holds no more than the pool has buffers.
#[derive(Debug, Default)]
pub(super) struct Mailbox {
    letters: Mutex<VecDeque<Letter>>,
    event: Event,
}

impl Mailbox {
    /// Starts the thread. It ends with the input, or when it is to stop; held by a read, it ends with the process.
    pub(super) fn of(mut input: File, pool: BufferPool, stop: Arc<Flag>) -> Result<Arc<Self>, Failure> {
        let mailbox = Arc::new(Self::default());
        let to = mailbox.clone();
        let run = move || {
            while !stop.is_raised() {
                let mut lease = match pool.acquire_timeout(LOOK) {
                    Ok(lease) => lease,
                    // The peer takes its time.
                    Err(error) if error.is_exhausted() => continue,
                    Err(error) => return to.post(Letter::Failed(std::io::Error::other(error))),
                };
                match input.read(&mut lease) {
                    Ok(0) => return to.post(Letter::End),
                    Ok(bytes) => {
                        lease.resize(bytes);
                        to.post(Letter::Bytes(lease));
                    }
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => return to.post(Letter::Failed(error)),
                }
            }
        };
        std::thread::Builder::new().name("transload-read".to_owned()).spawn(run).map_err(|error| {
            Failure::new("source", format!("the reading thread could not be started: {error}"))
                .fix("raise the limit: ulimit -u")
        })?;
        Ok(mailbox)
    }

    fn post(&self, letter: Letter) {
        self.letters.lock().unwrap_or_else(PoisonError::into_inner).push_back(letter);
        self.event.notify(1);
    }

    fn take(&self) -> Option<Letter> {
        self.letters.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    /// The next, when it has come. None when it is time to stop and all has been taken that has come.
    pub(super) async fn next(&self, stop: &Stop) -> Option<Letter> {
        let mut stopped = pin!(stop.comes());
        loop {
            let mut posted = pin!(self.event.listen());
            if let Some(letter) = self.take() {
                return Some(letter);
            }
            let is_stopped = std::future::poll_fn(|context| {
                if posted.as_mut().poll(context).is_ready() {
                    return Poll::Ready(false);
                }
                stopped.as_mut().poll(context).map(|()| true)
            });
            if is_stopped.await {
                return self.take();
            }
        }
    }
}
