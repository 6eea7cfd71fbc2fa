//! The user's own code, to run on a device.

use std::any::Any;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use super::host::HostKernel;

/// What a kernel is made from: code in one of the languages of the back ends, and the name of a function in it.
///
/// # What a kernel is given
///
/// Code that includes [`transload_device.h`](super::OPENCL_AND_CUDA_HEADER), or `transload_device.glsl` for SPIR-V, names its
/// parameters by the macros of that file, and need not know how they are passed:
///
/// - a kernel for [`Stream::launch`](super::Stream::launch) has `TRANSLOAD_BATCH`: the messages of one batch, how many they
///   are, and for each a place for its output and a word that says how long that is, or that there is none. It runs once
///   for each message, and for some numbers behind the last, which it must leave alone;
/// - a kernel for [`Stream::dispatch`](super::Stream::dispatch) has `TRANSLOAD_QUEUES`: the queue that it takes messages
///   from, and the one that it gives messages to.
///
/// # Trust
///
/// Code for a device is trusted as a shared library is: it runs with the rights of its driver, on some devices in this very
/// process, and a driver may do anything with code that is not valid. So whoever wraps it promises that it is good, in
/// [`new`](KernelSource::new) and [`open`](KernelSource::open); what is done with a source, and with the [`Kernel`] that is
/// made of it, is safe. Functions of this process are checked by Rust: [`host`](KernelSource::host) is safe.
#[derive(Clone, Debug)]
pub struct KernelSource {
    pub(super) code: Code,
    pub(super) entry: String,
}

/// Code for one kind of device.
#[derive(Clone)]
#[non_exhaustive]
pub enum Code {
    /// OpenCL C, for OpenCL.
    OpenClC(String),
    /// SPIR-V, for Vulkan: the bytes of a module.
    SpirV(Vec<u8>),
    /// PTX, for CUDA.
    Ptx(String),
    /// CUDA C, for CUDA: translated by NVRTC, which is loaded at run time.
    CudaC(String),
    /// A function of this process, for the host.
    Host(HostKernel),
}

impl KernelSource {
    /// Code for a device, and the name of a function in it.
    ///
    /// ```
    /// use transload::device::{Code, KernelSource};
    ///
    /// let code = Code::OpenClC(
    ///     "#include \"transload_device.h\"
    ///      TRANSLOAD_KERNEL lengths(TRANSLOAD_BATCH) {
    ///          if (transload_index() < transload_count())
    ///              transload_set_length(transload_index(), 0);
    ///      }"
    ///     .to_owned(),
    /// );
    /// // SAFETY: it writes the lengths of messages that are there, and nothing else.
    /// let source = unsafe { KernelSource::new(code, "lengths") };
    /// assert_eq!(source.entry(), "lengths");
    /// ```
    ///
    /// # Safety
    ///
    /// For as long as the source, or a kernel that is made of it, is used:
    ///
    /// - the code is valid: a driver may do anything with SPIR-V that is not. Text that its compiler does not understand is
    ///   refused;
    /// - the function has the parameters of [`transload_device.h`](super::OPENCL_AND_CUDA_HEADER), or the interface of
    ///   `transload_device.glsl`, for the use that is made of it: a kernel for batches is launched and one for queues
    ///   dispatched, where the back end cannot tell;
    /// - each run reads nothing but the messages, or the queues, that it is given, and writes nothing but its own outputs, or
    ///   the free slots, marks and ends of those queues; and it ends;
    /// - a kernel that believes the words at the beginning of a queue, as those that include the headers do, is dispatched
    ///   only where a queue was [made](super::QueueLayout::make) whose words nobody has changed against its rules.
    pub unsafe fn new(code: Code, entry: impl Into<String>) -> Self {
        Self { code, entry: entry.into() }
    }

    /// A function of this process, for the host, and a name for it.
    pub fn host(kernel: HostKernel, entry: impl Into<String>) -> Self {
        Self { code: Code::Host(kernel), entry: entry.into() }
    }

    /// The code.
    pub fn code(&self) -> &Code {
        &self.code
    }

    /// The function's name.
    pub fn entry(&self) -> &str {
        &self.entry
    }

    /// Reads the code from a file whose name says what it is: `.cl`, `.spv`, `.ptx` or `.cu`.
    ///
    /// # Errors
    ///
    /// [`KernelFileError`].
    ///
    /// # Safety
    ///
    /// As [`new`](KernelSource::new), for what is in the file.
    pub unsafe fn open(path: &Path, entry: impl Into<String>) -> Result<Self, KernelFileError> {
        let read = |error| KernelFileError::Read { path: path.display().to_string(), error };
        let text = || std::fs::read_to_string(path).map_err(read);
        let code = match path.extension().and_then(|extension| extension.to_str()) {
            Some("cl") => Code::OpenClC(text()?),
            Some("spv") => Code::SpirV(std::fs::read(path).map_err(read)?),
            Some("ptx") => Code::Ptx(text()?),
            Some("cu") => Code::CudaC(text()?),
            _ => return Err(KernelFileError::Unknown { path: path.display().to_string() }),
        };
        Ok(Self { code, entry: entry.into() })
    }
}

impl Code {
    /// The name of the language.
    pub fn language(&self) -> &'static str {
        match self {
            Self::OpenClC(_) => "OpenCL C",
            Self::SpirV(_) => "SPIR-V",
            Self::Ptx(_) => "PTX",
            Self::CudaC(_) => "CUDA C",
            Self::Host(_) => "a function of this process",
        }
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.language())
    }
}

/// The code of a kernel could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KernelFileError {
    /// The name of the file does not say what is in it.
    #[error("{path} is no kernel by its name: use .cl (OpenCL), .spv (Vulkan), .ptx or .cu (CUDA)")]
    Unknown {
        /// The file.
        path: String,
    },
    /// It could not be read.
    #[error("cannot read {path}: {error}")]
    Read {
        /// The file.
        path: String,
        /// Why.
        error: std::io::Error,
    },
}

/// A kernel that a device has accepted: from [`Device::build`](super::Device::build), for that device's streams. A clone is
/// another handle on the same.
#[derive(Clone)]
pub struct Kernel {
    entry: Arc<str>,
    built: Arc<dyn Any + Send + Sync>,
}

impl Kernel {
    /// What a back end returns: `built` is its own, and goes when the last handle and the last run do.
    pub fn new(entry: &str, built: impl Any + Send + Sync) -> Self {
        Self { entry: entry.into(), built: Arc::new(built) }
    }

    /// The name of its function.
    pub fn entry(&self) -> &str {
        &self.entry
    }

    /// The back end's own.
    pub fn built(&self) -> &(dyn Any + Send + Sync) {
        &*self.built
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kernel").field("entry", &self.entry).finish_non_exhaustive()
    }
}
