//! Kernels: modules that the driver has translated.

use std::ffi::CString;
use std::sync::Arc;

use ash::vk;

use super::codes;
use super::context::Context;
use super::spirv::{self, Fault};
use crate::device::{Backend, Code, DeviceError, Kernel, KernelSource};

/// What a kernel is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    Batches,
    Queues,
}

/// A kernel as the driver has it.
#[derive(Debug)]
pub(super) struct Built {
    pipeline: vk::Pipeline,
    r#use: Use,
    context: Arc<Context>,
}

/// Builds a kernel.
pub(super) fn build(context: &Arc<Context>, source: &KernelSource) -> Result<Kernel, DeviceError> {
    let Code::SpirV(bytes) = &source.code else {
        return Err(DeviceError::OtherLanguage {
            backend: Backend::Vulkan,
            language: source.code.language(),
            takes: "SPIR-V, in a file whose name ends in .spv",
        });
    };
    let broken = |log| DeviceError::Build { entry: source.entry.clone(), log };
    let no_such = |reason| DeviceError::NoSuchKernel { entry: source.entry.clone(), reason };
    let entry = CString::new(source.entry.as_str());
    let entry = entry.map_err(|_| no_such("no name has a zero byte".to_owned()))?;
    let words = spirv::words(bytes).map_err(broken)?;
    let r#use = spirv::kernel(&words, &source.entry).map_err(|fault| match fault {
        Fault::Broken(log) => broken(log),
        Fault::NoSuchKernel(reason) => no_such(reason),
    })?;
    let device = &context.device;
    let wanted = vk::ShaderModuleCreateInfo::default().code(&words);
    // SAFETY: the device is there. That the words are valid SPIR-V is the promise of whoever gave them.
    let module = unsafe { device.create_shader_module(&wanted, None) };
    let module = module.map_err(|code| codes::failed("vkCreateShaderModule", code))?;
    let stage = vk::PipelineShaderStageCreateInfo::default()
        .stage(vk::ShaderStageFlags::COMPUTE)
        .module(module)
        .name(&entry);
    let wanted = [vk::ComputePipelineCreateInfo::default().stage(stage).layout(context.layout)];
    // SAFETY: module and layout are there; the module has such a function (by `spirv::kernel`).
    let made = unsafe { device.create_compute_pipelines(vk::PipelineCache::null(), &wanted, None) };
    // SAFETY: a module is of no more use once its pipelines are made.
    unsafe { device.destroy_shader_module(module, None) };
    let pipelines = made.map_err(|(_, code)| match code {
        vk::Result::ERROR_OUT_OF_HOST_MEMORY
        | vk::Result::ERROR_OUT_OF_DEVICE_MEMORY
        | vk::Result::ERROR_DEVICE_LOST => codes::failed("vkCreateComputePipelines", code),
        code => broken(format!("nothing; vkCreateComputePipelines answered {}", codes::name(code))),
    })?;
    let pipeline = pipelines.first().copied().unwrap_or_default();
    Ok(Kernel::new(&source.entry, Built { pipeline, r#use, context: context.clone() }))
}

/// The pipeline of a kernel, if that is for this use, and of this device.
pub(super) fn pipeline(
    kernel: &Kernel,
    context: &Arc<Context>,
    wanted: Use,
) -> Result<vk::Pipeline, DeviceError> {
    let other = |reason| DeviceError::OtherKernel { entry: kernel.entry().to_owned(), reason };
    let built: Option<&Built> = kernel.built().downcast_ref();
    let built = built
        .filter(|built| Arc::ptr_eq(&built.context, context))
        .ok_or_else(|| other("it was built by another device: build it with the stream's own"))?;
    match (built.r#use, wanted) {
        (Use::Batches, Use::Queues) => Err(other("it is for batches: launch it")),
        (Use::Queues, Use::Batches) => Err(other("it is for queues: dispatch it")),
        _ => Ok(built.pipeline),
    }
}

impl Drop for Built {
    fn drop(&mut self) {
        if !self.context.is_here() {
            return;
        }
        // SAFETY: ours, and in no transfer: each would have kept the kernel (I2).
        unsafe { self.context.device.destroy_pipeline(self.pipeline, None) };
    }
}
