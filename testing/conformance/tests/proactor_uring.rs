//! The proactor suite on `io_uring`, with all that the kernel has.

use transload_conformance::proactor;

transload_conformance::proactor_suite!(proactor::URING);
