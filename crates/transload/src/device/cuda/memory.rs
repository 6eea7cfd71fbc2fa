//! What a context owns: memory of the device, streams, events.

use std::sync::Arc;

use cudarc::driver::sys::{CUdeviceptr, CUevent, CUevent_flags, CUstream, CUstream_flags};

use super::codes::Failure;
use super::context::{Context, Current};

/// A kind of thing that the driver makes and ends.
pub(super) trait Object: Copy + Send + std::fmt::Debug {
    /// What it is called in messages.
    const NAME: &'static str;

    /// # Safety
    ///
    /// The thing is the caller's, and is not used again.
    unsafe fn release(self, cuda: &Current<'_>) -> Result<(), Failure>;
}

/// Memory of the device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Memory(CUdeviceptr);

/// A stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queue(CUstream);

// SAFETY: a name for calls that may be made on any thread.
unsafe impl Send for Queue {}

/// An event.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event(CUevent);

// SAFETY: as above.
unsafe impl Send for Event {}

impl Object for Memory {
    const NAME: &'static str = "device memory";

    unsafe fn release(self, cuda: &Current<'_>) -> Result<(), Failure> {
        // SAFETY: the same contract. The driver waits for what uses the memory.
        unsafe { cuda.memory_free(self.0) }
    }
}

impl Object for Queue {
    const NAME: &'static str = "a stream";

    unsafe fn release(self, cuda: &Current<'_>) -> Result<(), Failure> {
        // SAFETY: the same contract. What is in the stream is still done.
        unsafe { cuda.stream_destroy(self.0) }
    }
}

impl Object for Event {
    const NAME: &'static str = "an event";

    unsafe fn release(self, cuda: &Current<'_>) -> Result<(), Failure> {
        // SAFETY: the same contract.
        unsafe { cuda.event_destroy(self.0) }
    }
}

/// A thing of a context, which it keeps (I2). Ended once, unless it is the user's or leaked.
#[derive(Debug)]
pub(super) struct Handle<T: Object> {
    object: T,
    is_ours: bool,
    context: Arc<Context>,
}

impl<T: Object> Handle<T> {
    fn own(object: T, context: &Arc<Context>) -> Self {
        Self { object, is_ours: true, context: context.clone() }
    }

    fn adopt(object: T, context: &Arc<Context>) -> Self {
        Self { object, is_ours: false, context: context.clone() }
    }

    /// Never ends it: the driver may still use it.
    pub(super) fn leak(&mut self) {
        self.is_ours = false;
        // And what it is of stays too.
        let _never_dropped = std::mem::ManuallyDrop::new(self.context.clone());
    }
}

impl<T: Object> Drop for Handle<T> {
    fn drop(&mut self) {
        if self.is_ours {
            // SAFETY: made by the driver, and ended here once; whatever used it has ended (I2).
            let ended = self.context.enter().and_then(|cuda| unsafe { self.object.release(&cuda) });
            if let Err(failure) = ended {
                failure.note_release(T::NAME);
            }
        }
    }
}

impl Handle<Memory> {
    /// So many bytes, at least one, in the current context, which is `context`. Their address is a multiple of 256.
    pub(super) fn allocate(
        cuda: &Current<'_>,
        context: &Arc<Context>,
        len_bytes: usize,
    ) -> Result<Self, Failure> {
        let mut pointer = 0;
        // SAFETY: the place of an address.
        unsafe { cuda.memory_allocate(&raw mut pointer, len_bytes) }?;
        Ok(Self::own(Memory(pointer), context))
    }

    /// The user's.
    pub(super) fn of_user(pointer: CUdeviceptr, context: &Arc<Context>) -> Self {
        Self::adopt(Memory(pointer), context)
    }

    pub(super) fn pointer(&self) -> CUdeviceptr {
        self.object.0
    }
}

impl Handle<Queue> {
    /// One that does not wait for the default stream, nor that for it.
    pub(super) fn create(cuda: &Current<'_>, context: &Arc<Context>) -> Result<Self, Failure> {
        let mut stream = std::ptr::null_mut();
        // SAFETY: the place of a stream.
        unsafe { cuda.stream_create(&raw mut stream, CUstream_flags::CU_STREAM_NON_BLOCKING as u32) }?;
        Ok(Self::own(Queue(stream), context))
    }

    /// The user's.
    pub(super) fn of_user(stream: CUstream, context: &Arc<Context>) -> Self {
        Self::adopt(Queue(stream), context)
    }

    pub(super) fn raw(&self) -> CUstream {
        self.object.0
    }
}

impl Handle<Event> {
    /// One without a time stamp, which is the fastest.
    pub(super) fn create(cuda: &Current<'_>, context: &Arc<Context>) -> Result<Self, Failure> {
        let mut event = std::ptr::null_mut();
        // SAFETY: the place of an event.
        unsafe { cuda.event_create(&raw mut event, CUevent_flags::CU_EVENT_DISABLE_TIMING as u32) }?;
        Ok(Self::own(Event(event), context))
    }

    pub(super) fn raw(&self) -> CUevent {
        self.object.0
    }
}
