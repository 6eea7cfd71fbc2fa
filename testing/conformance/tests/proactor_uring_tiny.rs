//! The proactor suite on `io_uring` with queues that overflow all the time.

use transload_conformance::proactor;

transload_conformance::proactor_suite!(proactor::TINY);
