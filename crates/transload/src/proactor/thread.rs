//! A proactor on a thread of its own.

use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use transload_core::Flag;

use super::builder::ProactorBuilder;
use super::error::ProactorError;
use super::handle::Handle;
use super::proactor::ShutDown;

/// A proactor on a thread of its own, which polls it until this is dropped or shut down.
///
/// ```
/// use transload::proactor::Proactor;
///
/// let thread = Proactor::builder().spawn()?;
/// let operation = thread.handle().nop(); // await it on any executor
/// # drop(operation);
/// let ended = thread.shut_down(std::time::Duration::from_secs(1));
/// assert_eq!(ended.map(|ended| ended.quarantined), Some(0));
/// # Ok::<(), transload::proactor::ProactorError>(())
/// ```
#[derive(Debug)]
pub struct ProactorThread {
    handle: Handle,
    stop: Arc<Flag>,
    patience: Arc<std::sync::Mutex<Duration>>,
    thread: Option<JoinHandle<ShutDown>>,
    /// The process that has the thread: a child of a fork has not.
    process: u32,
}

impl ProactorThread {
    pub(super) fn start(builder: ProactorBuilder) -> Result<Self, ProactorError> {
        let stop = Arc::new(Flag::new());
        let patience = Arc::new(std::sync::Mutex::new(Duration::from_secs(1)));
        let (sender, receiver) = sync_channel(1);
        let (stopped, waits) = (stop.clone(), patience.clone());
        let run = move || {
            let proactor = match builder.build() {
                Ok(proactor) => proactor,
                Err(error) => {
                    let _ = sender.send(Err(error));
                    return ShutDown { quarantined: 0 };
                }
            };
            let _ = sender.send(Ok(proactor.handle()));
            while !stopped.is_raised() {
                if let Err(error) = proactor.poll(None) {
                    // Nobody to tell: go on, a little slower, so that a fault that stays is no busy loop.
                    tracing::warn!(%error, "the proactor's thread cannot wait");
                    thread::sleep(Duration::from_millis(10));
                }
            }
            let patience = *waits.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            proactor.shut_down(patience)
        };
        let failed = |error: std::io::Error| ProactorError::Os {
            call: "start the proactor's thread",
            code: error.raw_os_error().unwrap_or_default(),
        };
        let thread = thread::Builder::new().name("transload-io".to_owned()).spawn(run).map_err(failed)?;
        let handle = receiver.recv().unwrap_or(Err(ProactorError::ShutDown))?;
        Ok(Self { handle, stop, patience, thread: Some(thread), process: std::process::id() })
    }

    /// The way to the proactor.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// As [`Proactor::shut_down`](super::Proactor::shut_down); `None` if its thread panicked, if this is
    /// called on that very thread, and in a child of a fork, which does not have it.
    pub fn shut_down(mut self, patience: Duration) -> Option<ShutDown> {
        *self.patience.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = patience;
        self.end()
    }

    fn end(&mut self) -> Option<ShutDown> {
        if self.process != std::process::id() {
            return None;
        }
        self.stop.raise();
        std::task::Wake::wake_by_ref(&self.handle.shared);
        let thread = self.thread.take()?;
        // Dropped on its own thread, it is left to end by itself.
        if thread.thread().id() == thread::current().id() { None } else { thread.join().ok() }
    }
}

impl Drop for ProactorThread {
    fn drop(&mut self) {
        let _ended = self.end();
    }
}
