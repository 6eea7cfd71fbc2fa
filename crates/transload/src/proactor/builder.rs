//! How a proactor is made.

use std::sync::{Arc, Mutex, PoisonError};

use super::capability::{Capabilities, Capability};
use super::choice::{Backend, Choice};
use super::engine::Engine;
use super::error::ProactorError;
use super::proactor::Proactor;
use super::readiness::ReadinessBackend;
use super::shared::Shared;
use super::thread::ProactorThread;
#[cfg(all(feature = "uring", target_os = "linux"))]
use super::uring::UringBackend;

/// The number of the last proactor that was made.
static LAST: Mutex<u64> = Mutex::new(0);

/// How a proactor is made.
///
/// ```
/// use transload::proactor::{Backend, Capability, Proactor};
///
/// let proactor = Proactor::builder()
///     .backend(Backend::Readiness)
///     .without(Capability::ZeroCopySend)
///     .build()?;
/// assert_eq!(proactor.choice().backend, Backend::Readiness);
/// # Ok::<(), transload::proactor::ProactorError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct ProactorBuilder {
    backend: Option<Backend>,
    allowed: Capabilities,
    entries: u32,
    zero_copy_from: usize,
}

impl Default for ProactorBuilder {
    fn default() -> Self {
        Self { backend: None, allowed: Capabilities::ALL, entries: 256, zero_copy_from: 64 << 10 }
    }
}

impl ProactorBuilder {
    /// Uses this back end or none: asking for `io_uring` where it is denied is an error.
    ///
    /// Without this call the best that works is taken.
    pub fn backend(mut self, backend: Backend) -> Self {
        self.backend = Some(backend);
        self
    }

    /// Does without a capability, also where the kernel has it.
    pub fn without(mut self, capability: Capability) -> Self {
        self.allowed = self.allowed.without(capability);
        self
    }

    /// How many requests fit between two system calls, rounded up to a power of two by the kernel; 256 at first. More
    /// may be in flight. Only `io_uring` has this queue; it counts against the locked memory of the user.
    pub fn entries(mut self, entries: u32) -> Self {
        self.entries = entries.clamp(1, 32_768);
        self
    }

    /// Sends go without a copy from so many bytes on, where nothing else is said; 64 KiB at first. Below that a copy is
    /// cheaper than pinning, and everywhere on the loop-back device, which always copies.
    pub fn zero_copy_from(mut self, bytes: usize) -> Self {
        self.zero_copy_from = bytes;
        self
    }

    /// Makes the proactor, on the thread that will poll it.
    ///
    /// # Errors
    ///
    /// [`ProactorError`]: why there is no such back end, and what to do.
    pub fn build(self) -> Result<Proactor, ProactorError> {
        let (backend, choice) = self.open()?;
        let (capabilities, alarm) = (backend.capabilities(), backend.alarm());
        let id = {
            let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
            *last += 1;
            *last
        };
        let shared = Arc::new(Shared::new(id, choice, capabilities, alarm));
        Ok(Proactor::of(Engine::new(backend, shared, self.zero_copy_from)))
    }

    /// Makes the proactor on a thread of its own, which polls it.
    ///
    /// # Errors
    ///
    /// As [`build`](ProactorBuilder::build), and if there can be no thread.
    pub fn spawn(self) -> Result<ProactorThread, ProactorError> {
        ProactorThread::start(self)
    }

    fn open(&self) -> Result<(Box<dyn super::backend::Backend>, Choice), ProactorError> {
        let asked = "asked for".to_owned();
        match self.backend {
            Some(Backend::Uring) => Ok((self.open_uring()?, Choice { backend: Backend::Uring, why: asked })),
            Some(Backend::Readiness) => {
                Ok((self.open_readiness()?, Choice { backend: Backend::Readiness, why: asked }))
            }
            None => match self.open_uring() {
                Ok(backend) => {
                    let why = "the kernel has it, and lets us use it".to_owned();
                    Ok((backend, Choice { backend: Backend::Uring, why }))
                }
                Err(error) => {
                    tracing::debug!(%error, "no io_uring: readiness does the work");
                    let choice = Choice { backend: Backend::Readiness, why: error.to_string() };
                    Ok((self.open_readiness()?, choice))
                }
            },
        }
    }

    #[cfg(all(feature = "uring", target_os = "linux"))]
    fn open_uring(&self) -> Result<Box<dyn super::backend::Backend>, ProactorError> {
        Ok(Box::new(UringBackend::open(self.entries, self.allowed)?))
    }

    #[cfg(not(all(feature = "uring", target_os = "linux")))]
    #[expect(clippy::unused_self, reason = "as where there is one")]
    fn open_uring(&self) -> Result<Box<dyn super::backend::Backend>, ProactorError> {
        Err(ProactorError::NotBuilt)
    }

    fn open_readiness(&self) -> Result<Box<dyn super::backend::Backend>, ProactorError> {
        Ok(Box::new(ReadinessBackend::open(self.allowed)?))
    }
}
