//! The functions of the driver, each looked up before any is used.
//!
//! They are called through pointers of this file's own, not through the bindings: those end the process's thread with a panic
//! where a library lacks a function, and give results as an enumeration that a newer driver's codes would not fit.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

use cudarc::driver::sys::{
    self, CUcontext, CUdevice, CUdevice_attribute, CUdeviceptr, CUevent, CUfunction, CUfunction_attribute,
    CUjit_option, CUmodule, CUpointer_attribute, CUstream,
};

use super::codes::Failure;

static API: OnceLock<Api> = OnceLock::new();

/// Why the driver cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    /// There is no such library, or what has its name is none.
    Library,
    /// The library lacks this function.
    Function(&'static str),
}

/// The driver's functions. The library is loaded the first time, and stays.
pub(super) fn load() -> Result<&'static Api, Missing> {
    if let Some(api) = API.get() {
        return Ok(api);
    }
    // SAFETY: loads libraries by the names that a CUDA driver has; what such a library does when it is loaded is the
    // system's.
    if !unsafe { sys::is_culib_present() } {
        return Err(Missing::Library);
    }
    let api = Api::find()?;
    // Another thread may be faster, with the same.
    Ok(API.get_or_init(|| api))
}

/// The driver's functions, if they have been looked up.
pub(super) fn loaded() -> Option<&'static Api> {
    API.get()
}

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident = $symbol:literal ($($parameter:ident: $type:ty),*);)*) => {
        /// The functions, found.
        pub(super) struct Api {
            $($name: unsafe extern "C" fn($($type),*) -> c_uint,)*
        }

        impl Api {
            /// Looks all of them up, in a library that is there.
            fn find() -> Result<Self, Missing> {
                // SAFETY: loads the library that was found to be there.
                let library = unsafe { sys::culib() };
                Ok(Self {
                    $($name: {
                        let name = concat!($symbol, "\0").as_bytes();
                        // SAFETY: the driver's function of that name has this type: its interface is kept for ever.
                        let function = unsafe { library.get::<unsafe extern "C" fn($($type),*) -> c_uint>(name) };
                        *function.map_err(|_| Missing::Function($symbol))?
                    },)*
                })
            }

            $(
                $(#[$doc])*
                #[doc = concat!("\n\n# Safety\n\nThat of `", $symbol, "`.")]
                #[allow(clippy::too_many_arguments, reason = "as many as the driver's function has")]
                pub(super) unsafe fn $name(&self, $($parameter: $type),*) -> Result<(), Failure> {
                    // SAFETY: by this function's contract.
                    Failure::check($symbol, unsafe { (self.$name)($($parameter),*) })
                }
            )*
        }
    };
}

functions! {
    init = "cuInit"(flags: c_uint);
    device_count = "cuDeviceGetCount"(count: *mut c_int);
    device = "cuDeviceGet"(device: *mut CUdevice, ordinal: c_int);
    device_name = "cuDeviceGetName"(name: *mut c_char, room: c_int, device: CUdevice);
    device_memory = "cuDeviceTotalMem_v2"(bytes: *mut usize, device: CUdevice);
    device_attribute = "cuDeviceGetAttribute"(value: *mut c_int, attribute: CUdevice_attribute, device: CUdevice);
    primary_context_retain = "cuDevicePrimaryCtxRetain"(context: *mut CUcontext, device: CUdevice);
    primary_context_release = "cuDevicePrimaryCtxRelease_v2"(device: CUdevice);
    current_context = "cuCtxGetCurrent"(context: *mut CUcontext);
    push_context = "cuCtxPushCurrent_v2"(context: CUcontext);
    pop_context = "cuCtxPopCurrent_v2"(context: *mut CUcontext);
    context_device = "cuCtxGetDevice"(device: *mut CUdevice);
    stream_create = "cuStreamCreate"(stream: *mut CUstream, flags: c_uint);
    stream_destroy = "cuStreamDestroy_v2"(stream: CUstream);
    stream_context = "cuStreamGetCtx"(stream: CUstream, context: *mut CUcontext);
    stream_is_capturing = "cuStreamIsCapturing"(stream: CUstream, status: *mut c_uint);
    stream_query = "cuStreamQuery"(stream: CUstream);
    event_create = "cuEventCreate"(event: *mut CUevent, flags: c_uint);
    event_destroy = "cuEventDestroy_v2"(event: CUevent);
    event_record = "cuEventRecord"(event: CUevent, stream: CUstream);
    event_query = "cuEventQuery"(event: CUevent);
    memory_allocate = "cuMemAlloc_v2"(memory: *mut CUdeviceptr, len_bytes: usize);
    memory_free = "cuMemFree_v2"(memory: CUdeviceptr);
    host_allocate = "cuMemHostAlloc"(memory: *mut *mut c_void, len_bytes: usize, flags: c_uint);
    host_free = "cuMemFreeHost"(memory: *mut c_void);
    host_register = "cuMemHostRegister_v2"(memory: *mut c_void, len_bytes: usize, flags: c_uint);
    host_unregister = "cuMemHostUnregister"(memory: *mut c_void);
    host_device_pointer =
        "cuMemHostGetDevicePointer_v2"(device: *mut CUdeviceptr, host: *mut c_void, flags: c_uint);
    pointer_attribute =
        "cuPointerGetAttribute"(value: *mut c_void, attribute: CUpointer_attribute, pointer: CUdeviceptr);
    copy_to_device = "cuMemcpyHtoDAsync_v2"(to: CUdeviceptr, from: *const c_void, len_bytes: usize, stream: CUstream);
    copy_to_host = "cuMemcpyDtoHAsync_v2"(to: *mut c_void, from: CUdeviceptr, len_bytes: usize, stream: CUstream);
    fill = "cuMemsetD32Async"(to: CUdeviceptr, word: c_uint, words: usize, stream: CUstream);
    module_load = "cuModuleLoadDataEx"(
        module: *mut CUmodule,
        image: *const c_void,
        options: c_uint,
        names: *mut CUjit_option,
        values: *mut *mut c_void
    );
    module_unload = "cuModuleUnload"(module: CUmodule);
    module_function = "cuModuleGetFunction"(function: *mut CUfunction, module: CUmodule, name: *const c_char);
    function_attribute =
        "cuFuncGetAttribute"(value: *mut c_int, attribute: CUfunction_attribute, function: CUfunction);
    launch = "cuLaunchKernel"(
        function: CUfunction,
        grid_x: c_uint,
        grid_y: c_uint,
        grid_z: c_uint,
        block_x: c_uint,
        block_y: c_uint,
        block_z: c_uint,
        shared_bytes: c_uint,
        stream: CUstream,
        parameters: *mut *mut c_void,
        extra: *mut *mut c_void
    );
    error_name = "cuGetErrorName"(code: c_uint, name: *mut *const c_char);
}

impl std::fmt::Debug for Api {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the CUDA driver")
    }
}
