//! The context, and that it is current where the driver is called.

use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr;
use std::sync::Arc;

use cudarc::driver::sys::{CUcontext, CUdevice, CUdevice_attribute};

use super::api::Api;
use super::codes::Failure;
use crate::device::process::Process;

/// A context of a device. It stays there while this does (I2).
#[derive(Debug)]
pub(super) struct Context {
    api: &'static Api,
    raw: CUcontext,
    device: CUdevice,
    /// Whether it is the device's primary context, of which this holds a reference.
    is_retained: bool,
    process: Process,
}

// SAFETY: a context is a name for calls that may be made on any thread, once it is current there.
unsafe impl Send for Context {}
// SAFETY: as above; the driver's functions may be called by several threads at once.
unsafe impl Sync for Context {}

impl Context {
    /// The primary context of a device, which the runtime API of CUDA uses too.
    pub(super) fn primary(
        api: &'static Api,
        process: Process,
        device: CUdevice,
    ) -> Result<Arc<Self>, Failure> {
        let mut raw = ptr::null_mut();
        // SAFETY: the place of a context; the device is one of the driver's.
        unsafe { api.primary_context_retain(&raw mut raw, device) }?;
        Ok(Arc::new(Self { api, raw, device, is_retained: true, process }))
    }

    /// A context that is the user's.
    ///
    /// # Safety
    ///
    /// `raw` is a context, and stays there while this does.
    pub(super) unsafe fn adopted(
        api: &'static Api,
        process: Process,
        raw: CUcontext,
    ) -> Result<Arc<Self>, Failure> {
        let mut context = Self { api, raw, device: 0, is_retained: false, process };
        let mut device = 0;
        // SAFETY: the place of a device.
        unsafe { context.enter()?.context_device(&raw mut device) }?;
        context.device = device;
        Ok(Arc::new(context))
    }

    pub(super) fn raw(&self) -> CUcontext {
        self.raw
    }

    pub(super) fn device(&self) -> CUdevice {
        self.device
    }

    pub(super) fn process(&self) -> Process {
        self.process
    }

    /// Makes the context current on this thread, and the functions of the driver available, until what it gives is dropped:
    /// then the one that was current before is so again. Refused in a forked child.
    pub(super) fn enter(&self) -> Result<Current<'_>, Failure> {
        if !self.process.is_here() {
            return Err(Failure::forked());
        }
        let mut there = ptr::null_mut();
        // SAFETY: the place of a context.
        unsafe { self.api.current_context(&raw mut there) }?;
        let is_pushed = there != self.raw;
        if is_pushed {
            // SAFETY: the context is there.
            unsafe { self.api.push_context(self.raw) }?;
        }
        Ok(Current { api: self.api, is_pushed, context: PhantomData })
    }

    /// An attribute of the device; 0 where the driver does not know it.
    pub(super) fn attribute(&self, attribute: CUdevice_attribute) -> i32 {
        let mut value = 0;
        // SAFETY: the place of a number; the device is one of the driver's.
        let known = unsafe { self.api.device_attribute(&raw mut value, attribute, self.device) };
        if known.is_ok() { value } else { 0 }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if self.is_retained && self.process.is_here() {
            // SAFETY: gives up the reference that `primary` has taken; nothing that needs the context is there any more,
            // for all of it holds this (I2).
            if let Err(failure) = unsafe { self.api.primary_context_release(self.device) } {
                failure.note_release("a context");
            }
        }
    }
}

/// The driver's functions, on a thread where the context is current.
#[derive(Debug)]
pub(super) struct Current<'a> {
    api: &'static Api,
    is_pushed: bool,
    /// Of this thread only, and not longer than the context.
    context: PhantomData<(&'a Context, *mut ())>,
}

impl Deref for Current<'_> {
    type Target = Api;

    fn deref(&self) -> &Api {
        self.api
    }
}

impl Drop for Current<'_> {
    fn drop(&mut self) {
        if self.is_pushed {
            let mut popped = ptr::null_mut();
            // SAFETY: the place of a context; takes off what `enter` has put on.
            if let Err(failure) = unsafe { self.api.pop_context(&raw mut popped) } {
                failure.note_release("the current context");
            }
        }
    }
}
