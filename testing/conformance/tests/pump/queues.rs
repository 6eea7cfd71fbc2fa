//! Queues in device memory on the host.

use transload_conformance::queues::Subject;

transload_conformance::queue_suite!(Subject::host);
