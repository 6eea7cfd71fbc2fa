//! The device suite on OpenCL.

use transload_conformance::opencl;

transload_conformance::device_suite!(opencl::subject());
