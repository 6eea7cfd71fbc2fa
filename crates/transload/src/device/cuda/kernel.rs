//! Kernels: code in PTX, or in CUDA C where NVRTC is there.

use std::ffi::{CString, c_void};
use std::sync::Arc;

use cudarc::driver::sys::{CUfunction, CUfunction_attribute, CUjit_option, CUmodule};

use super::context::{Context, Current};
use super::device::Shared;
use super::launch::BLOCK;
use super::nvrtc;
use crate::device::{Backend, Code, DeviceError, Kernel, KernelSource};

/// Room for what the driver's compiler says.
const LOG_BYTES: usize = 8 << 10;

/// A kernel of a device: its module stays loaded while this exists.
#[derive(Debug)]
pub(super) struct CudaKernel {
    function: CUfunction,
    module: CUmodule,
    device: Arc<Context>,
}

// SAFETY: names for calls that may be made on any thread.
unsafe impl Send for CudaKernel {}
// SAFETY: as above.
unsafe impl Sync for CudaKernel {}

impl CudaKernel {
    pub(super) fn function(&self) -> CUfunction {
        self.function
    }
}

impl Drop for CudaKernel {
    fn drop(&mut self) {
        // SAFETY: loaded by `load`, and unloaded here once; each launch that used it held this (I2).
        let unloaded = self.device.enter().and_then(|cuda| unsafe { cuda.module_unload(self.module) });
        if let Err(failure) = unloaded {
            failure.note_release("a module");
        }
    }
}

/// [`Device::build`](crate::device::Device::build).
pub(super) fn build(device: &Arc<Shared>, source: &KernelSource) -> Result<Kernel, DeviceError> {
    let context = device.context();
    let entry = &source.entry;
    let kernel = match &source.code {
        Code::Ptx(text) => load(context, text, entry)?,
        Code::CudaC(text) => load(context, &nvrtc::compile(context, text, entry)?, entry)?,
        other => {
            return Err(DeviceError::OtherLanguage {
                backend: Backend::Cuda,
                language: other.language(),
                takes: "PTX or CUDA C",
            });
        }
    };
    Ok(Kernel::new(entry, kernel))
}

/// The kernel, if it was built by this device.
pub(super) fn of_device<'a>(kernel: &'a Kernel, device: &Shared) -> Result<&'a CudaKernel, DeviceError> {
    let refuse = |reason| DeviceError::OtherKernel { entry: kernel.entry().to_owned(), reason };
    let built: Option<&CudaKernel> = kernel.built().downcast_ref();
    match built {
        Some(built) if Arc::ptr_eq(&built.device, device.context()) => Ok(built),
        Some(_) => Err(refuse("it was built by another device: build it by the device of the stream")),
        None => Err(refuse("it was built by a device of another back end")),
    }
}

/// Loads PTX, which the driver translates for the device.
pub(super) fn load(context: &Arc<Context>, ptx: &str, entry: &str) -> Result<CudaKernel, DeviceError> {
    let failed = |log: String| DeviceError::Build { entry: entry.to_owned(), log };
    let none = |reason: String| DeviceError::NoSuchKernel { entry: entry.to_owned(), reason };
    let image = CString::new(ptx).map_err(|_| failed("there is a zero byte in the code".to_owned()))?;
    let name = CString::new(entry).map_err(|_| none(which(ptx)))?;
    let cuda = context.enter()?;
    let module = load_module(&cuda, &image).map_err(|(failure, log)| {
        if failure.is_loss() { failure.into() } else { failed(format!("{failure}\n{log}")) }
    })?;
    // From here on the drop unloads it.
    let mut kernel = CudaKernel { function: std::ptr::null_mut(), module, device: context.clone() };
    // SAFETY: the place of a function; the module is there.
    unsafe { cuda.module_function(&raw mut kernel.function, module, name.as_ptr()) }
        .map_err(|failure| if failure.is_not_found() { none(which(ptx)) } else { failure.into() })?;
    let mut most = 0;
    let attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK;
    // SAFETY: the place of a number; the function is there.
    unsafe { cuda.function_attribute(&raw mut most, attribute, kernel.function) }?;
    if u32::try_from(most).is_ok_and(|most| most < BLOCK) {
        return Err(none(format!("it can run with {most} threads in a block, and it is run with {BLOCK}")));
    }
    Ok(kernel)
}

/// The module, or why not and what the driver's compiler says.
fn load_module(cuda: &Current<'_>, image: &CString) -> Result<CUmodule, (super::codes::Failure, String)> {
    let mut log = vec![0_u8; LOG_BYTES];
    let mut names = [CUjit_option::CU_JIT_ERROR_LOG_BUFFER, CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
    // The second is a number in the place of a pointer.
    let mut values: [*mut c_void; 2] = [log.as_mut_ptr().cast(), std::ptr::without_provenance_mut(log.len())];
    let mut module = std::ptr::null_mut();
    let (names, values) = (names.as_mut_ptr(), values.as_mut_ptr());
    // SAFETY: the place of a module; text that ends with a zero; two options, with room for the log as long as they say.
    let loaded = unsafe { cuda.module_load(&raw mut module, image.as_ptr().cast(), 2, names, values) };
    loaded.map(|()| module).map_err(|failure| {
        let len_bytes = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
        (failure, String::from_utf8_lossy(&log[..len_bytes]).trim().to_owned())
    })
}

/// Which kernels there are in PTX.
fn which(ptx: &str) -> String {
    let is_name = |c: char| c.is_alphanumeric() || c == '_' || c == '$' || c == '%';
    let name = |text: &'_ str| text.trim_start().split(|c| !is_name(c)).next().unwrap_or("").to_owned();
    let names: Vec<String> = ptx.split(".entry ").skip(1).map(name).filter(|name| !name.is_empty()).collect();
    if names.is_empty() {
        "there is none in it; in CUDA C a kernel is `extern \"C\" __global__ void`".to_owned()
    } else {
        format!("there are: {}", names.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_of_a_text_are_named() {
        assert_eq!(
            which(".version 6.0\n.visible .entry one(.param .u64 a)\n.entry two\n("),
            "there are: one, two"
        );
        assert!(which(".version 6.0").contains("extern \"C\""));
    }
}
