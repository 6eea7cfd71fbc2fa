//! How a copy ended.

use opencl3::error_codes::CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
use opencl3::event::{CL_COMPLETE, CL_EVENT_COMMAND_EXECUTION_STATUS, get_event_info, wait_for_events};
use opencl3::types::cl_int;

use super::handle::{Event, Handle};

/// What is known of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// It has not ended.
    Running,
    /// It succeeded.
    Landed,
    /// It ended without success: its memory is no longer touched.
    Failed(cl_int),
    /// The driver cannot say: this call answered so.
    Unknown(&'static str, cl_int),
}

/// Asks for the progress of a copy. Never blocks: what waits is called only for an event that has ended.
pub(super) fn progress(event: &Handle<Event>) -> Progress {
    match get_event_info(event.raw(), CL_EVENT_COMMAND_EXECUTION_STATUS) {
        Err(code) => Progress::Unknown("clGetEventInfo", code),
        Ok(status) => match status.to_int() {
            status if status > CL_COMPLETE => Progress::Running,
            status => ended(status, wait_for_events(&[event.raw()])),
        },
    }
}

/// Judges a copy whose status says that it has ended, by the answer of the wait, which alone is to be believed: a
/// status may say "complete" of a command that never ran.
fn ended(status: cl_int, waited: Result<(), cl_int>) -> Progress {
    match waited {
        Ok(()) if status == CL_COMPLETE => Progress::Landed,
        Ok(()) => Progress::Failed(status),
        Err(code @ CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST) => {
            Progress::Failed(if status < CL_COMPLETE { status } else { code })
        }
        // The wait itself failed, so it says nothing about the copy.
        Err(code) => Progress::Unknown("clWaitForEvents", code),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_wait_is_believed() {
        assert_eq!(ended(0, Ok(())), Progress::Landed);
        assert_eq!(ended(0, Err(-14)), Progress::Failed(-14));
        assert_eq!(ended(-5, Err(-14)), Progress::Failed(-5));
        assert_eq!(ended(-5, Ok(())), Progress::Failed(-5));
        for status in [0, -5] {
            assert_eq!(ended(status, Err(-34)), Progress::Unknown("clWaitForEvents", -34));
        }
    }
}
