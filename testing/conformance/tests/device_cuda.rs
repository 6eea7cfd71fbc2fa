//! The device suite on CUDA: on the stand-in for its driver, or on a real one where `TRANSLOAD_CUDA=real`.
#![cfg(target_os = "linux")]

use transload_conformance::cuda;

transload_conformance::device_suite!(cuda::subject());
