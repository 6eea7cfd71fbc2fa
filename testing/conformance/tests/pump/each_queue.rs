//! Queues in device memory on every back end that runs kernels of devices, with the example `echo`.

use transload::device::{self, DeviceError, KernelSource};
use transload_conformance::device::example::Example;
use transload_conformance::queues::Subject;

/// The first device of a back end, and `echo` in its language.
fn subject(name: &str, echo: &KernelSource) -> Result<Subject, DeviceError> {
    Subject::new(device::open(&name.parse().unwrap())?, echo)
}

mod opencl {
    use super::{Example, subject};

    transload_conformance::queue_suite!(|| subject("opencl", &Example::Echo.source("cl")));
}

mod vulkan {
    use super::{Example, subject};

    transload_conformance::queue_suite!(|| subject("vulkan", &Example::Echo.source("spv")));
}

#[cfg(target_os = "linux")]
mod cuda {
    use transload_conformance::cuda;

    use super::{Example, Subject};

    transload_conformance::queue_suite!(|| Subject::new(
        Box::new(cuda::device()),
        &cuda::kernel(Example::Echo)
    ));
}
