//! The device suite on Vulkan: on a device that the back end opens, and under the validation layer.

mod plain {
    transload_conformance::device_suite!(transload_conformance::vulkan::subject());
}

mod validated {
    transload_conformance::device_suite!(transload_conformance::vulkan::validated_subject());
}
