//! The driver: which devices there are, or what is missing.

use std::sync::OnceLock;

use super::api::{self, Api, Missing};
use super::codes::Failure;
use super::device::CudaDevice;
use super::info;
use crate::device::process::{self, Process};
use crate::device::{Backend, Device, DeviceError, DeviceInfo, Driver};

/// All NVIDIA GPUs that the driver shows, numbered as the driver does (`CUDA_VISIBLE_DEVICES` counts).
#[derive(Clone, Copy, Debug, Default)]
pub struct Cuda;

impl Driver for Cuda {
    fn backend(&self) -> Backend {
        Backend::Cuda
    }

    fn probe(&self) -> Result<Vec<DeviceInfo>, DeviceError> {
        let (api, _, count) = start()?;
        (0..count).map(|index| Ok(info::describe(api, info::device(api, index)?, index))).collect()
    }

    fn open(&self, index: usize) -> Result<Box<dyn Device>, DeviceError> {
        Ok(Box::new(CudaDevice::open(index)?))
    }
}

/// The process that has loaded the driver: this one, or one that this was forked from.
static FIRST: OnceLock<Process> = OnceLock::new();

/// The driver, initialised, with the process that may use it, and how many devices it has: at least one.
pub(super) fn start() -> Result<(&'static Api, Process, usize), DeviceError> {
    // Before the driver is asked for anything: a child must not use what its parent has begun to use.
    if FIRST.get().is_some_and(|process| !process.is_here()) {
        return Err(unavailable(process::FORKED.to_owned()));
    }
    let api = api::load().map_err(|missing| unavailable(advice(missing)))?;
    let this = Process::this().map_err(|error| unavailable(format!("no memory to begin with: {error}")))?;
    let process = *FIRST.get_or_init(|| this);
    // SAFETY: the only flags there are.
    unsafe { api.init(0) }.map_err(|failure| unavailable(refusal(failure)))?;
    match info::count(api) {
        Ok(0) => Err(unavailable(NO_DEVICE.to_owned())),
        Ok(count) => Ok((api, process, count)),
        Err(failure) => Err(unavailable(refusal(failure))),
    }
}

fn unavailable(reason: String) -> DeviceError {
    DeviceError::Unavailable { backend: Backend::Cuda, reason }
}

const NO_DEVICE: &str = "the driver shows no GPU: look with `nvidia-smi`, whether CUDA_VISIBLE_DEVICES hides it, and in a \
     container whether it was started with the GPU (`--gpus all`)";

/// What to do about a driver that cannot be loaded.
fn advice(missing: Missing) -> String {
    match missing {
        Missing::Library => {
            "there is no NVIDIA driver: libcuda.so.1 cannot be loaded. Install the driver of the GPU \
             (`nvidia-smi` then works); in a container, start it with the GPU (`--gpus all`)"
                .to_owned()
        }
        Missing::Function(name) => format!(
            "what was loaded as libcuda.so.1 has no {name}: it is older than CUDA 11, or no driver. Install a newer driver \
             of the GPU, and look for another libcuda in LD_LIBRARY_PATH"
        ),
    }
}

/// What to do about a driver that does not begin.
fn refusal(failure: Failure) -> String {
    match failure.code() {
        3 => process::FORKED.to_owned(),
        34 => format!(
            "{failure}: what was loaded is the library that programs are linked with. Take the folder `stubs` out of \
             LD_LIBRARY_PATH, and install the driver of the GPU"
        ),
        100 => format!("{failure}: {NO_DEVICE}"),
        803 | 804 => format!(
            "{failure}: libcuda.so.1 and the kernel's module are of different versions. Restart the machine after an update \
             of the driver; in a container, take its own copy of libcuda out of the search path"
        ),
        _ => {
            format!("{failure}: look whether `nvidia-smi` works; if not, install the driver of the GPU anew")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_says_what_to_do() {
        for missing in [Missing::Library, Missing::Function("cuInit")] {
            assert!(advice(missing).contains("nstall"), "{missing:?}");
        }
        assert!(advice(Missing::Function("cuInit")).contains("cuInit"));
        for code in [3, 34, 100, 803, 999] {
            let reason = refusal(Failure::check("cuInit", code).unwrap_err());
            assert!(
                ["nstall", "exec", "Restart", "nvidia-smi"].iter().any(|word| reason.contains(word)),
                "{reason}"
            );
        }
    }

    #[test]
    fn devices_are_counted_from_0_or_unavailable() {
        match Cuda.probe() {
            Ok(found) => {
                let beyond = Cuda.open(found.len()).unwrap_err();
                assert!(matches!(beyond, DeviceError::NoSuchDevice { .. }), "{beyond}");
            }
            Err(error) => assert!(matches!(error, DeviceError::Unavailable { .. }), "{error}"),
        }
    }
}
