//! CUDA C to PTX, by NVRTC: a library of the CUDA toolkit that is loaded when the first such kernel is built.

use std::ffi::{CString, c_char, c_int, c_uint};
use std::sync::{Arc, OnceLock};

use cudarc::driver::sys::CUdevice_attribute as Attribute;
use cudarc::nvrtc::sys::{self, nvrtcProgram};

use super::context::Context;
use crate::device::{Backend, DeviceError, OPENCL_AND_CUDA_HEADER};

/// Headers that code may include without there being a file: their names and texts.
const HEADERS: [(&str, &str); 1] = [("transload_device.h", OPENCL_AND_CUDA_HEADER)];

const SUCCESS: c_uint = 0;
const COMPILATION: c_uint = 6;

/// The functions that are used, found before any is. The results are numbers, for a newer library has more of them than the
/// bindings know.
struct Nvrtc {
    create: unsafe extern "C" fn(
        *mut nvrtcProgram,
        *const c_char,
        *const c_char,
        c_int,
        *const *const c_char,
        *const *const c_char,
    ) -> c_uint,
    destroy: unsafe extern "C" fn(*mut nvrtcProgram) -> c_uint,
    compile: unsafe extern "C" fn(nvrtcProgram, c_int, *const *const c_char) -> c_uint,
    log_bytes: unsafe extern "C" fn(nvrtcProgram, *mut usize) -> c_uint,
    log: unsafe extern "C" fn(nvrtcProgram, *mut c_char) -> c_uint,
    ptx_bytes: unsafe extern "C" fn(nvrtcProgram, *mut usize) -> c_uint,
    ptx: unsafe extern "C" fn(nvrtcProgram, *mut c_char) -> c_uint,
    architecture_count: unsafe extern "C" fn(*mut c_int) -> c_uint,
    architectures: unsafe extern "C" fn(*mut c_int) -> c_uint,
}

static NVRTC: OnceLock<Nvrtc> = OnceLock::new();

const ABSENT: &str = "CUDA C needs NVRTC, which is not there: libnvrtc.so cannot be loaded. Install it, as with `apt-get \
     install cuda-nvrtc-12-9` or `pip install nvidia-cuda-nvrtc-cu12`, and add its folder to LD_LIBRARY_PATH; or give the \
     kernel as PTX (`nvcc -ptx`), which needs the driver only";

macro_rules! find {
    ($library:expr, $name:literal) => {{
        // SAFETY: the library's function of that name has the type of the field: its interface is kept.
        let function = unsafe { $library.get(concat!($name, "\0").as_bytes()) };
        *function.map_err(|_| unavailable(format!("libnvrtc.so has no {}: {ABSENT}", $name)))?
    }};
}

fn unavailable(reason: String) -> DeviceError {
    DeviceError::Unavailable { backend: Backend::Cuda, reason }
}

fn load() -> Result<&'static Nvrtc, DeviceError> {
    if let Some(nvrtc) = NVRTC.get() {
        return Ok(nvrtc);
    }
    // SAFETY: loads libraries by the names that NVRTC has.
    if !unsafe { sys::is_culib_present() } {
        return Err(unavailable(ABSENT.to_owned()));
    }
    // SAFETY: loads the library that was found to be there.
    let library = unsafe { sys::culib() };
    let nvrtc = Nvrtc {
        create: find!(library, "nvrtcCreateProgram"),
        destroy: find!(library, "nvrtcDestroyProgram"),
        compile: find!(library, "nvrtcCompileProgram"),
        log_bytes: find!(library, "nvrtcGetProgramLogSize"),
        log: find!(library, "nvrtcGetProgramLog"),
        ptx_bytes: find!(library, "nvrtcGetPTXSize"),
        ptx: find!(library, "nvrtcGetPTX"),
        architecture_count: find!(library, "nvrtcGetNumSupportedArchs"),
        architectures: find!(library, "nvrtcGetSupportedArchs"),
    };
    Ok(NVRTC.get_or_init(|| nvrtc))
}

/// A program, destroyed when it is dropped.
struct Program {
    nvrtc: &'static Nvrtc,
    raw: nvrtcProgram,
}

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: made by `compile`, and destroyed here once.
        unsafe { (self.nvrtc.destroy)(&raw mut self.raw) };
    }
}

impl Program {
    /// A text of the program, by the functions for its length, which counts the zero at its end, and for itself.
    fn text(
        &self,
        len_bytes: unsafe extern "C" fn(nvrtcProgram, *mut usize) -> c_uint,
        text: unsafe extern "C" fn(nvrtcProgram, *mut c_char) -> c_uint,
    ) -> String {
        let mut bytes = 0;
        // SAFETY: the program is there; the place of a length.
        if unsafe { len_bytes(self.raw, &raw mut bytes) } != SUCCESS {
            return String::new();
        }
        let mut buffer = vec![0_u8; bytes];
        // SAFETY: the program is there; there is room for so many bytes.
        if unsafe { text(self.raw, buffer.as_mut_ptr().cast()) } != SUCCESS {
            return String::new();
        }
        String::from_utf8_lossy(&buffer).trim_end_matches('\0').to_owned()
    }
}

/// Translates code for the device of a context.
pub(super) fn compile(context: &Arc<Context>, code: &str, entry: &str) -> Result<String, DeviceError> {
    let failed = |log: String| DeviceError::Build { entry: entry.to_owned(), log };
    let text =
        |text: &str| CString::new(text).map_err(|_| failed("there is a zero byte in the code".to_owned()));
    let (code, name) = (text(code)?, text("kernel.cu")?);
    let nvrtc = load()?;
    let headers: Vec<(CString, CString)> = HEADERS
        .iter()
        .map(|(name, header)| Ok((text(name)?, text(header)?)))
        .collect::<Result<_, DeviceError>>()?;
    let names: Vec<*const c_char> = headers.iter().map(|(name, _)| name.as_ptr()).collect();
    let texts: Vec<*const c_char> = headers.iter().map(|(_, text)| text.as_ptr()).collect();
    let mut raw = std::ptr::null_mut();
    let count = c_int::try_from(headers.len()).unwrap_or(0);
    // SAFETY: the place of a program; all texts end with a zero, and there are so many headers.
    let code = unsafe {
        (nvrtc.create)(&raw mut raw, code.as_ptr(), name.as_ptr(), count, texts.as_ptr(), names.as_ptr())
    };
    if code != SUCCESS {
        return Err(driver("nvrtcCreateProgram", code));
    }
    let program = Program { nvrtc, raw };
    let option = text(&format!("--gpu-architecture=compute_{}", architecture(nvrtc, context)))?;
    let options = [option.as_ptr()];
    // SAFETY: the program is there; one option, which ends with a zero.
    match unsafe { (nvrtc.compile)(program.raw, 1, options.as_ptr()) } {
        SUCCESS => Ok(program.text(nvrtc.ptx_bytes, nvrtc.ptx)),
        COMPILATION => Err(failed(program.text(nvrtc.log_bytes, nvrtc.log))),
        code => Err(driver("nvrtcCompileProgram", code)),
    }
}

fn driver(call: &'static str, code: c_uint) -> DeviceError {
    DeviceError::Driver { backend: Backend::Cuda, call, code: format!("nvrtcResult {code}") }
}

/// The newest architecture that both the device and the library know: the driver takes code for an older one.
fn architecture(nvrtc: &Nvrtc, context: &Context) -> c_int {
    let device = context.attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) * 10
        + context.attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    let mut count = 0;
    // SAFETY: the place of a number.
    if unsafe { (nvrtc.architecture_count)(&raw mut count) } != SUCCESS {
        return device;
    }
    let mut known: Vec<c_int> = vec![0; usize::try_from(count).unwrap_or(0)];
    // SAFETY: there is room for so many.
    if unsafe { (nvrtc.architectures)(known.as_mut_ptr()) } != SUCCESS {
        return device;
    }
    known.into_iter().filter(|known| *known <= device).max().unwrap_or(device)
}
