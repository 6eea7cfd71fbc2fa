//! The proactor itself.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::pin;
use std::ptr::NonNull;
use std::rc::Rc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::builder::ProactorBuilder;
use super::capability::Capabilities;
use super::choice::Choice;
use super::engine::Engine;
use super::error::{IoError, ProactorError};
use super::handle::Handle;
use super::operation::Pinning;
use super::pools::register;
use super::receive_pool::ReceivePool;
use super::statistics::Statistics;
use crate::memory::Slab;
use crate::region::{Access, Region, RegisterError, Registrar};

/// How long a proactor that is dropped waits for the kernel to let go of memory.
const DROP_PATIENCE: Duration = Duration::from_secs(1);

/// Completion-based I/O: operations take their memory along and give it back when the kernel is done.
///
/// It stays on the thread that made it, and gets nothing done but in [`poll`](Proactor::poll),
/// [`block_on`](Proactor::block_on) and [`shut_down`](Proactor::shut_down). Operations are submitted through its
/// [`Handle`], from any thread. For a proactor with a thread of its own, see
/// [`ProactorBuilder::spawn`](ProactorBuilder::spawn).
///
/// When it is dropped it cancels what is in flight and waits a second for the kernel to let go; see
/// [`shut_down`](Proactor::shut_down) for what happens to the rest.
pub struct Proactor {
    /// Gone when it has been shut down.
    engine: RefCell<Option<Engine>>,
    handle: Handle,
    /// How many calls of `block_on` are under way, one within the other.
    blocking: Cell<usize>,
    /// The process that made it: the engine is nothing to a child of a fork.
    process: u32,
    /// The kernel takes calls for a ring from one thread only.
    _stays: PhantomData<Rc<()>>,
}

/// How a proactor ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub struct ShutDown {
    /// Operations whose memory the kernel had not let go of by the deadline. It is never freed or used again, their
    /// buffers are lost to their pools.
    pub quarantined: usize,
}

impl Proactor {
    /// The best back end that works here.
    ///
    /// # Errors
    ///
    /// [`ProactorError`] if not even readiness works, for lack of descriptors for instance.
    pub fn new() -> Result<Self, ProactorError> {
        Self::builder().build()
    }

    /// Starts a proactor with choices.
    pub fn builder() -> ProactorBuilder {
        ProactorBuilder::default()
    }

    pub(super) fn of(engine: Engine) -> Self {
        let handle = Handle { shared: engine.shared.clone() };
        Self {
            engine: RefCell::new(Some(engine)),
            handle,
            blocking: Cell::new(0),
            process: std::process::id(),
            _stays: PhantomData,
        }
    }

    /// The way to it from other threads, and the one that operations are submitted through.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Which back end does the work, and why.
    pub fn choice(&self) -> &Choice {
        self.handle.choice()
    }

    /// What the back end can do by itself and is allowed to.
    pub fn capabilities(&self) -> Capabilities {
        self.handle.capabilities()
    }

    /// What has been done so far.
    pub fn statistics(&self) -> Statistics {
        self.handle.statistics()
    }

    /// Starts what has been submitted, waits for completions at most so long (`None`: until something happens), and
    /// wakes whoever waits for them. Says how many there were.
    ///
    /// # Errors
    ///
    /// The kernel's, when it does not let us wait. Nothing is lost by that; the next call tries again.
    ///
    /// `EDEADLK` when called from within a waker that it calls.
    pub fn poll(&self, timeout: Option<Duration>) -> Result<usize, IoError> {
        let done = self.turn(timeout);
        self.call_outer();
        done
    }

    /// Tells a call of `block_on`, in whose future we are, to look around: what calls there were for it, the turns
    /// within have taken.
    fn call_outer(&self) {
        if self.blocking.get() > 0 {
            self.handle.shared.wake_by_ref();
        }
    }

    fn turn(&self, timeout: Option<Duration>) -> Result<usize, IoError> {
        const NAME: &str = "wait for completions";
        let engine = self.engine.try_borrow_mut();
        let mut engine = engine.map_err(|_| IoError::os(NAME, Errno::DEADLK))?;
        let engine = engine.as_mut().ok_or(IoError::ShutDown { operation: NAME })?;
        engine.turn(timeout).map_err(|errno| IoError::os(NAME, errno))
    }

    /// Polls until a future is ready.
    ///
    /// # Errors
    ///
    /// As [`poll`](Proactor::poll); the future is dropped then.
    pub fn block_on<F: Future>(&self, future: F) -> Result<F::Output, IoError> {
        let outer = self.blocking.replace(self.blocking.get() + 1);
        let done = self.block_within(future);
        self.blocking.set(outer);
        self.call_outer();
        done
    }

    fn block_within<F: Future>(&self, future: F) -> Result<F::Output, IoError> {
        let waker = Waker::from(self.handle.shared.clone());
        let mut context = Context::from_waker(&waker);
        let mut future = pin!(future);
        loop {
            // The last turn's own completions have nudged us to do what is done now. Left standing, they would cost each
            // of them a second turn that finds nothing.
            self.handle.shared.heed();
            if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                return Ok(output);
            }
            self.turn(None)?;
        }
    }

    /// Registers a slab: pinned in pieces of at most 1 GiB if the kernel permits, and else as
    /// [`Copy`](crate::region::Registration::Copy), with the reason. The caller may drop its handle on the slab.
    ///
    /// # Errors
    ///
    /// [`RegisterError::Unsupported`] for remote access, [`RegisterError::Refused`] when called from within a waker that
    /// the proactor calls.
    pub fn register_slab(&self, slab: &Slab, access: Access) -> Result<Region, RegisterError> {
        self.register_as(slab, access, Pinning::Preferred)
    }

    fn register_as(&self, slab: &Slab, access: Access, pinning: Pinning) -> Result<Region, RegisterError> {
        let Ok(mut engine) = self.engine.try_borrow_mut() else {
            return Err(refused(slab.len_bytes(), "it is at work; do not call it from a waker"));
        };
        let Some(engine) = engine.as_mut() else {
            return Err(refused(slab.len_bytes(), "it has been shut down"));
        };
        // What has gone since the last turn makes room.
        engine.obey();
        register(&mut *engine.backend, &engine.shared, slab, access, pinning)
    }

    /// As [`register_slab`](Proactor::register_slab), for whoever cannot do with less than pinned memory.
    ///
    /// # Errors
    ///
    /// [`RegisterError::Refused`] with what was wanted, what is allowed and what to do.
    pub fn register_pinned(&self, slab: &Slab, access: Access) -> Result<Region, RegisterError> {
        self.register_as(slab, access, Pinning::Required)
    }

    /// Registers memory that is there already, as one buffer.
    ///
    /// # Errors
    ///
    /// [`RegisterError`]
    ///
    /// # Safety
    ///
    /// As [`Slab::wrap`], until the region's last handle and everything made of it has ended.
    pub unsafe fn register_buffer(
        &self,
        base: NonNull<u8>,
        len_bytes: usize,
        access: Access,
    ) -> Result<Region, RegisterError> {
        // SAFETY: the caller's promise is the same.
        let slab = unsafe { one_buffer(base, len_bytes) }?;
        self.register_slab(&slab, access)
    }

    /// Makes a pool of all buffers of a region, for receives. Any number of buffers will do.
    ///
    /// # Errors
    ///
    /// [`ProactorError::NotWritable`] if the region is not registered for writing, [`ProactorError::Pool`] if somebody
    /// else hands its memory out, or when called from within a waker that the proactor calls.
    pub fn receive_pool(&self, region: &Region) -> Result<ReceivePool, ProactorError> {
        let engine = self.engine.try_borrow_mut();
        let mut engine = engine.map_err(|_| ProactorError::Pool {
            reason: "the proactor is at work; do not call it from a waker".to_owned(),
        })?;
        let engine = engine.as_mut().ok_or(ProactorError::ShutDown)?;
        // What has gone since the last turn makes room.
        engine.obey();
        engine.pools.make(&mut *engine.backend, &engine.shared, region)
    }

    /// Accepts nothing more, cancels what is in flight, and works on until the kernel has let go of all memory, at most
    /// so long.
    ///
    /// Memory that the kernel still has then is quarantined: never freed, never used again, counted.
    pub fn shut_down(mut self, patience: Duration) -> ShutDown {
        self.end(patience)
    }

    fn end(&mut self, patience: Duration) -> ShutDown {
        let Some(mut engine) = self.engine.get_mut().take() else { return ShutDown { quarantined: 0 } };
        if self.process != std::process::id() {
            // A child of a fork has neither the ring's memory nor the threads, and what it told the kernel would be told
            // of the parent's descriptors.
            let _never_dropped = std::mem::ManuallyDrop::new(engine);
            return ShutDown { quarantined: 0 };
        }
        let now = Instant::now();
        let quarantined = engine.shut_down(now.checked_add(patience).unwrap_or(now + DROP_PATIENCE));
        if quarantined > 0 {
            // A ring that is closed lets go of no memory: it stays, with all that the kernel may still use (I2, I6).
            let _never_dropped = std::mem::ManuallyDrop::new(engine);
        }
        ShutDown { quarantined }
    }
}

/// Foreign memory as a slab of one buffer.
///
/// # Safety
///
/// As [`Slab::wrap`].
pub(super) unsafe fn one_buffer(base: NonNull<u8>, len_bytes: usize) -> Result<Slab, RegisterError> {
    // SAFETY: the caller's promise is the same.
    let slab = unsafe { Slab::wrap(base, 1, len_bytes) };
    slab.map_err(|error| refused(len_bytes, &error.to_string()))
}

fn refused(len_bytes: usize, reason: &str) -> RegisterError {
    RegisterError::Refused { registrar: "the proactor".to_owned(), len_bytes, reason: reason.to_owned() }
}

impl Registrar for Proactor {
    fn register(&self, slab: &Slab, access: Access) -> Result<Region, RegisterError> {
        self.register_slab(slab, access)
    }

    fn register_pinned(&self, slab: &Slab, access: Access) -> Result<Region, RegisterError> {
        Proactor::register_pinned(self, slab, access)
    }
}

impl Drop for Proactor {
    fn drop(&mut self) {
        let _counted_in_the_statistics = self.end(DROP_PATIENCE);
    }
}

impl fmt::Debug for Proactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proactor").field("choice", self.choice()).finish_non_exhaustive()
    }
}
