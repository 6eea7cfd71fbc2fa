//! What the driver's numbers mean.

use opencl3::error_codes::{
    CL_CONTEXT_TERMINATED_KHR, CL_DEVICE_NOT_AVAILABLE, CL_INVALID_COMMAND_QUEUE, CL_INVALID_CONTEXT,
    error_text,
};
use opencl3::types::cl_int;

use crate::device::{Backend, DeviceError};

/// Name and number.
pub(super) fn name(code: cl_int) -> String {
    format!("{} ({code})", error_text(code))
}

/// The error of a call that gave `code`.
pub(super) fn failed(call: &'static str, code: cl_int) -> DeviceError {
    if is_loss(code) {
        return DeviceError::Lost { reason: format!("{call} answered {}", name(code)) };
    }
    DeviceError::Driver { backend: Backend::OpenCl, call, code: name(code) }
}

/// Whether a handle that was good when it was made is so no more: drivers say this of a device that is gone.
fn is_loss(code: cl_int) -> bool {
    matches!(
        code,
        CL_DEVICE_NOT_AVAILABLE | CL_INVALID_CONTEXT | CL_INVALID_COMMAND_QUEUE | CL_CONTEXT_TERMINATED_KHR
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_names_and_numbers() {
        assert_eq!(name(-5), "CL_OUT_OF_RESOURCES (-5)");
        assert_eq!(name(-123_456), "UNKNOWN_ERROR (-123456)");
        assert_eq!(
            failed("clFlush", -6).to_string(),
            "opencl: clFlush failed with CL_OUT_OF_HOST_MEMORY (-6)"
        );
        assert!(matches!(failed("clFlush", -36), DeviceError::Lost { .. }));
    }
}
