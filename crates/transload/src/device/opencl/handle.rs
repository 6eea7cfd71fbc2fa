//! References to objects of the driver, each released once.

use std::ffi::c_void;
use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;

use opencl3::command_queue::{release_command_queue, retain_command_queue};
use opencl3::context::context::{release_context, retain_context};
use opencl3::event::{release_event, retain_event};
use opencl3::kernel::{release_kernel, retain_kernel};
use opencl3::memory::{release_mem_object, retain_mem_object};
use opencl3::program::{release_program, retain_program};
use opencl3::types::cl_int;

use super::codes;
use crate::device::DeviceError;

/// A kind of object that the driver counts references of.
pub(super) trait Object {
    /// What it is called in messages.
    const NAME: &'static str;

    /// # Safety
    ///
    /// `raw` is an object of this kind to which somebody holds a reference.
    unsafe fn retain(raw: *mut c_void) -> Result<(), cl_int>;

    /// # Safety
    ///
    /// As for `retain`; the reference is the caller's, and it is not used again.
    unsafe fn release(raw: *mut c_void) -> Result<(), cl_int>;
}

macro_rules! objects {
    ($($(#[$doc:meta])* $kind:ident, $name:literal, $retain:ident, $release:ident;)*) => {$(
        $(#[$doc])*
        pub(super) enum $kind {}

        impl Object for $kind {
            const NAME: &'static str = $name;

            unsafe fn retain(raw: *mut c_void) -> Result<(), cl_int> {
                // SAFETY: the same contract.
                unsafe { $retain(raw) }
            }

            unsafe fn release(raw: *mut c_void) -> Result<(), cl_int> {
                // SAFETY: the same contract.
                unsafe { $release(raw) }
            }
        }
    )*};
}

objects! {
    /// `cl_context`.
    Context, "context", retain_context, release_context;
    /// `cl_command_queue`.
    Queue, "command queue", retain_command_queue, release_command_queue;
    /// `cl_mem`.
    Buffer, "buffer", retain_mem_object, release_mem_object;
    /// `cl_event`.
    Event, "event", retain_event, release_event;
    /// `cl_program`.
    Program, "program", retain_program, release_program;
    /// `cl_kernel`.
    Function, "kernel", retain_kernel, release_kernel;
}

/// One reference to an object of the driver. The object stays there while it exists (I2).
pub(super) struct Handle<T: Object> {
    raw: NonNull<c_void>,
    leaked: bool,
    kind: PhantomData<T>,
}

// SAFETY: the driver's objects may be used and released on any thread; all calls made here are thread-safe by the
// rules of OpenCL 1.1 and later.
unsafe impl<T: Object> Send for Handle<T> {}
// SAFETY: as above.
unsafe impl<T: Object> Sync for Handle<T> {}

impl<T: Object> Handle<T> {
    /// Takes over the caller's reference. `None` for a null pointer.
    ///
    /// # Safety
    ///
    /// `raw` is null, or an object of this kind to which the caller has a reference that it gives up.
    pub(super) unsafe fn own(raw: *mut c_void) -> Option<Self> {
        NonNull::new(raw).map(|raw| Self { raw, leaked: false, kind: PhantomData })
    }

    /// Takes a reference of its own.
    ///
    /// # Safety
    ///
    /// `raw` is null, or an object of this kind that stays there during the call.
    pub(super) unsafe fn retained(raw: *mut c_void) -> Result<Self, DeviceError> {
        let refuse = |reason| DeviceError::Unsuitable { handle: T::NAME, reason };
        let raw = NonNull::new(raw).ok_or_else(|| refuse("it is a null pointer".to_owned()))?;
        // SAFETY: by this function's contract.
        let retained = unsafe { T::retain(raw.as_ptr()) };
        retained.map_err(|code| refuse(format!("the driver answers {}", codes::name(code))))?;
        Ok(Self { raw, leaked: false, kind: PhantomData })
    }

    /// The object, which stays there while `self` does.
    pub(super) fn raw(&self) -> *mut c_void {
        self.raw.as_ptr()
    }

    /// One more reference, which is the caller's to release.
    pub(super) fn retain_for_caller(&self) -> Result<*mut c_void, cl_int> {
        // SAFETY: `self` holds a reference.
        unsafe { T::retain(self.raw()) }?;
        Ok(self.raw())
    }

    /// Never releases the object: the driver may still use it.
    pub(super) fn leak(&mut self) {
        self.leaked = true;
    }
}

impl<T: Object> Drop for Handle<T> {
    fn drop(&mut self) {
        if self.leaked {
            return;
        }
        // SAFETY: the reference is this handle's, and is given up here once.
        if let Err(code) = unsafe { T::release(self.raw()) } {
            // Nothing can be done about it, and a lost device is reported where it is used.
            tracing::debug!("an OpenCL {} was not released: {}", T::NAME, codes::name(code));
        }
    }
}

impl<T: Object> fmt::Debug for Handle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:p}", T::NAME, self.raw)
    }
}
