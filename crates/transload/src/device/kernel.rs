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
#[derive(Clone, Debug)]
pub struct KernelSource {
    /// The code.
    pub code: Code,
    /// The function's name.
    pub entry: String,
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
    /// Reads the code from a file whose name says what it is: `.cl`, `.spv`, `.ptx` or `.cu`.
    ///
    /// # Errors
    ///
    /// [`KernelFileError`].
    pub fn open(path: &Path, entry: impl Into<String>) -> Result<Self, KernelFileError> {
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
