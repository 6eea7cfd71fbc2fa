//! The functions of the driver, under the names that its library has.
#![allow(non_snake_case, reason = "the driver's own names")]

mod driver;
mod kernel;
mod memory;
mod stream;

use std::ffi::c_void;

use crate::world::INVALID_VALUE;

/// Writes what a call gives.
fn put<T>(to: *mut T, value: T) -> Result<(), u32> {
    if to.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: the caller gives the place of such a value.
    unsafe { to.write(value) };
    Ok(())
}

/// A handle as the driver gives it.
fn pointer(handle: usize) -> *mut c_void {
    std::ptr::without_provenance_mut(handle)
}
