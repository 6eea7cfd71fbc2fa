//! What Metal says when it refuses: nothing but nil.

use crate::device::{Backend, DeviceError};

/// The error of a call that gave no object.
pub(super) fn nil(call: &'static str) -> DeviceError {
    DeviceError::Driver { backend: Backend::Metal, call, code: "nil".to_owned() }
}
