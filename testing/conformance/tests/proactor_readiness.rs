//! The proactor suite on readiness and ordinary system calls.

use transload_conformance::proactor;

transload_conformance::proactor_suite!(proactor::READINESS);
