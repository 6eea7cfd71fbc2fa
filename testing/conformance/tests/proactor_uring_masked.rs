//! The proactor suite on `io_uring` without one capability each, as older kernels are.

use transload_conformance::proactor::MASKED;

macro_rules! masked {
    ($($module:ident: $index:literal,)*) => {$(
        mod $module {
            transload_conformance::proactor_suite!(super::MASKED[$index]);
        }
    )*};
}

masked! {
    without_multishot_accept: 0,
    without_multishot_receive: 1,
    without_zero_copy_send: 2,
    without_fixed_buffers: 3,
    without_linked_sends: 4,
    without_single_issuer: 5,
}
