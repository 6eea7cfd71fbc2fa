//! The headers that kernels include.

/// `transload_device.h`, for kernels in OpenCL C and CUDA C. Code that is given to [`Device::build`](super::Device::build)
/// may include it by that name; there need be no such file.
pub const OPENCL_AND_CUDA_HEADER: &str = include_str!("header/transload_device.h");

/// `transload_device.glsl`, for kernels in GLSL: to be written to a file, and compiled to SPIR-V with them.
pub const GLSL_HEADER: &str = include_str!("header/transload_device.glsl");
