//! What the driver's numbers mean.

use ash::vk;

use crate::device::{Backend, DeviceError};

/// Name and number.
pub(super) fn name(code: vk::Result) -> String {
    format!("VK_{code:?} ({})", code.as_raw())
}

/// The error of a call that gave `code`.
pub(super) fn failed(call: &'static str, code: vk::Result) -> DeviceError {
    if code == vk::Result::ERROR_DEVICE_LOST {
        return DeviceError::Lost { reason: format!("{call} answered {}", name(code)) };
    }
    DeviceError::Driver { backend: Backend::Vulkan, call, code: name(code) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_names_and_numbers() {
        let refused = failed("vkQueueSubmit", vk::Result::ERROR_OUT_OF_HOST_MEMORY);
        assert_eq!(refused.to_string(), "vulkan: vkQueueSubmit failed with VK_ERROR_OUT_OF_HOST_MEMORY (-1)");
        let lost = failed("vkQueueSubmit", vk::Result::ERROR_DEVICE_LOST);
        assert!(matches!(lost, DeviceError::Lost { .. }), "{lost}");
    }
}
