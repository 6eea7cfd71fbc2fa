//! The names of the back ends.

use std::fmt;

/// A kind of driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Backend {
    /// Main memory, and a thread that copies.
    Host,
    /// OpenCL.
    OpenCl,
    /// Vulkan.
    Vulkan,
    /// CUDA.
    Cuda,
    /// Metal.
    Metal,
}

impl Backend {
    /// All of them, those for GPUs first, in the order in which `auto` asks them.
    pub const ALL: [Backend; 5] =
        [Backend::Cuda, Backend::Metal, Backend::Vulkan, Backend::OpenCl, Backend::Host];

    /// The name in commands and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::OpenCl => "opencl",
            Self::Vulkan => "vulkan",
            Self::Cuda => "cuda",
            Self::Metal => "metal",
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
