//! CUDA.
mod api;
mod codes;
mod context;
mod device;
mod driver;
mod gather;
mod in_flight;
mod info;
mod kernel;
mod launch;
mod measure;
mod memory;
mod nvrtc;
mod pinned;
mod process;
mod ranges;
mod stream;
mod suitable;

pub use device::{CudaDevice, CudaOptions};
pub use driver::Cuda;
pub use stream::CudaStream;
