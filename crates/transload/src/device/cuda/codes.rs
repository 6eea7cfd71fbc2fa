//! What the driver's numbers mean.

use std::ffi::CStr;

use super::api;
use crate::device::{Backend, DeviceError, process};

/// The numbers are those of `CUresult` in `cuda.h`.
const OUT_OF_MEMORY: u32 = 2;
const DEINITIALIZED: u32 = 4;
const NOT_FOUND: u32 = 500;
const NOT_READY: u32 = 600;
const ALREADY_REGISTERED: u32 = 712;

/// No number of the driver's: the call was not made, since this process was forked from the one that may make it.
const FORKED: u32 = u32::MAX;

/// A call that did not succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    call: &'static str,
    code: u32,
}

impl Failure {
    /// The result of a call.
    pub(super) fn check(call: &'static str, code: u32) -> Result<(), Self> {
        if code == 0 { Ok(()) } else { Err(Self { call, code }) }
    }

    /// A call that is not made in a forked child.
    pub(super) fn forked() -> Self {
        Self { call: "fork", code: FORKED }
    }

    /// Of a call that succeeded and gave nothing.
    pub(super) fn gave_nothing(call: &'static str) -> Self {
        Self { call, code: OUT_OF_MEMORY }
    }

    pub(super) fn is_forked(self) -> bool {
        self.code == FORKED
    }

    pub(super) fn is_not_ready(self) -> bool {
        self.code == NOT_READY
    }

    pub(super) fn is_not_found(self) -> bool {
        self.code == NOT_FOUND
    }

    pub(super) fn is_already_registered(self) -> bool {
        self.code == ALREADY_REGISTERED
    }

    /// The number.
    pub(super) fn code(self) -> u32 {
        self.code
    }

    /// Whether the context can do nothing more. The driver's documentation says of these that the process is left in an
    /// inconsistent state and each further call answers the same, or that the context, the device or the driver is gone.
    pub(super) fn is_loss(self) -> bool {
        matches!(
            self.code,
            // Not initialised, shut down, context gone or destroyed.
            3 | 4 | 201 | 709
            // Memory or link faults that were not corrected.
            | 214 | 220
            // Faults of kernels: address, time, assertion, hardware stack, instruction, alignment, space, counter, launch.
            | 700 | 702 | 710 | 714
                ..=719
            // The service that shares the device among processes has ended this one's part.
            | 805 | 806 | 810 | 812
            | 999
        )
    }

    /// Notes a release that failed. There is nothing to be done about it, and a lost device is reported where it is used;
    /// that a driver which has shut down, or is another process's, releases nothing is as it should be.
    pub(super) fn note_release(self, what: &str) {
        if self.code != DEINITIALIZED && !self.is_forked() {
            tracing::debug!("{what} of CUDA was not released: {self}");
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.is_forked() {
            return f.write_str(process::FORKED);
        }
        write!(f, "{} answered {}", self.call, name(self.code))
    }
}

impl From<Failure> for DeviceError {
    fn from(failure: Failure) -> Self {
        if failure.is_forked() {
            return Self::Unavailable { backend: Backend::Cuda, reason: process::FORKED.to_owned() };
        }
        if failure.is_loss() {
            return Self::Lost { reason: failure.to_string() };
        }
        Self::Driver { backend: Backend::Cuda, call: failure.call, code: name(failure.code) }
    }
}

/// Name and number.
fn name(code: u32) -> String {
    let mut text = std::ptr::null();
    // SAFETY: the place of a pointer, which the driver sets to a text of its own or leaves alone.
    let known = api::loaded().is_some_and(|api| unsafe { api.error_name(code, &raw mut text) }.is_ok());
    if !known || text.is_null() {
        return format!("error {code}");
    }
    // SAFETY: the driver's texts end with a zero, and stay.
    format!("{} ({code})", unsafe { CStr::from_ptr(text) }.to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(code: u32) -> Failure {
        Failure::check("cuCall", code).unwrap_err()
    }

    #[test]
    fn what_cannot_go_on_is_a_loss() {
        for code in [3, 4, 201, 214, 700, 702, 709, 710, 716, 719, 999] {
            assert!(matches!(failure(code).into(), DeviceError::Lost { .. }), "{code}");
        }
        for code in [1, 2, 218, 400, 500, 600, 712, 801] {
            assert!(matches!(failure(code).into(), DeviceError::Driver { .. }), "{code}");
        }
        assert_eq!(Failure::check("cuCall", 0), Ok(()));
    }

    #[test]
    fn a_forked_child_is_told_so() {
        let error = DeviceError::from(Failure::forked());
        assert!(matches!(error, DeviceError::Unavailable { .. }));
        assert!(error.to_string().contains("forked") && error.to_string().contains("exec"), "{error}");
    }
}
