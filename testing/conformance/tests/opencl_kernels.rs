//! What only OpenCL can say of kernels: its compiler's words, and the parameters of its functions.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use transload::device::opencl::OpenClDevice;
use transload::device::{Code, Device, DeviceError, KernelSource};
use transload_conformance::skip::skip;

fn device(test: &str) -> Option<OpenClDevice> {
    OpenClDevice::open(0).map_err(|error| skip(test, &error.to_string())).ok()
}

fn source(text: &str, entry: &str) -> KernelSource {
    // SAFETY: text that is refused, or is not run.
    unsafe { KernelSource::new(Code::OpenClC(text.to_owned()), entry) }
}

/// The line is that of the user's file, although the header stands before it.
#[test]
fn a_build_error_shows_the_log_with_the_users_own_line() {
    let Some(device) = device("opencl_kernels::a_build_error_shows_the_log_with_the_users_own_line") else {
        return;
    };
    let text = "// first\n#include \"transload_device.h\"\nTRANSLOAD_KERNEL broken(TRANSLOAD_BATCH) {\n    no_such_thing();\n}\n";
    let error = device.build(&source(text, "broken")).unwrap_err();
    let DeviceError::Build { entry, log } = &error else { panic!("{error}") };
    assert_eq!(entry, "broken");
    assert!(log.contains("no_such_thing"), "{log}");
    assert!(log.contains("kernel:4:"), "{log}");
    assert!(error.to_string().contains("no_such_thing"), "{error}");
}

#[test]
fn functions_that_are_no_kernels_of_ours_are_refused() {
    let Some(device) = device("opencl_kernels::functions_that_are_no_kernels_of_ours_are_refused") else {
        return;
    };
    let text =
        "__kernel void one(__global int *a) { *a = 1; }\n__kernel void two(__global int *a) { *a = 2; }\n";
    let reason = |entry| match device.build(&source(text, entry)).unwrap_err() {
        DeviceError::NoSuchKernel { reason, .. } => reason,
        other => panic!("{other}"),
    };
    let names = reason("three");
    assert!(names.contains("one") && names.contains("two"), "{names}");
    let parameters = reason("one");
    assert!(
        parameters.contains("1 parameters") && parameters.contains("TRANSLOAD_BATCH (8)"),
        "{parameters}"
    );
}
