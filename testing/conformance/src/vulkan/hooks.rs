//! Calls of the driver's that a test can make fail, between the back end and the driver. There is one set of them a process.

use std::ffi::{CStr, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ash::vk;

use super::own::Own;

/// What is to fail, and what was called.
#[derive(Clone, Copy, Debug, Default)]
struct Plan {
    /// The call of this number fails, with this answer.
    nth: Option<(u64, i32)>,
    /// Every call of this name fails from now on, with this answer.
    all: Option<(&'static str, i32)>,
    calls: u64,
    /// The name of the call that has failed last.
    failed: Option<&'static str>,
}

static PLAN: Mutex<Plan> = Mutex::new(Plan { nth: None, all: None, calls: 0, failed: None });

fn plan() -> MutexGuard<'static, Plan> {
    PLAN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes the `nth` of the calls from now on fail.
pub fn fail_nth(nth: u64, with: vk::Result) {
    *plan() = Plan { nth: Some((nth, with.as_raw())), ..Plan::default() };
}

/// Makes every call of this name fail from now on.
pub fn fail_all(name: &'static str, with: vk::Result) {
    *plan() = Plan { all: Some((name, with.as_raw())), ..Plan::default() };
}

/// Lets all calls through. Gives the name of the call that has failed last, if one has.
pub fn fail_none() -> Option<&'static str> {
    std::mem::take(&mut *plan()).failed
}

/// The answer of a call that is to fail.
fn answer(name: &'static str) -> Option<vk::Result> {
    let mut plan = plan();
    let number = plan.calls;
    plan.calls += 1;
    let nth = plan.nth.filter(|(nth, _)| *nth == number).map(|(_, code)| code);
    let all = plan.all.filter(|(failing, _)| *failing == name).map(|(_, code)| code);
    let code = nth.or(all)?;
    plan.failed = Some(name);
    Some(vk::Result::from_raw(code))
}

fn real<F: Copy>(real: &Mutex<Option<F>>) -> F {
    real.lock().unwrap_or_else(PoisonError::into_inner).unwrap()
}

macro_rules! hooks {
    ($($name:ident: $pfn:ident($($argument:ident: $kind:ty),*);)*) => {
        $(
            #[allow(non_snake_case, reason = "the name is the driver's")]
            mod $name {
                #![allow(clippy::wildcard_imports, reason = "a module for one function")]
                use super::*;

                /// Of the device that was hooked last: drivers are loaded anew for each instance.
                pub(super) static REAL: Mutex<Option<vk::$pfn>> = Mutex::new(None);

                pub(super) unsafe extern "system" fn hook($($argument: $kind),*) -> vk::Result {
                    match answer(stringify!($name)) {
                        Some(code) => code,
                        // SAFETY: the driver's own, with what it was to be called with.
                        None => unsafe { real(&REAL)($($argument),*) },
                    }
                }
            }
        )*

        /// The calls of the device, those that can fail hooked.
        pub fn hooked(own: &Own) -> ash::Device {
            let load = |name: &CStr| -> *const c_void {
                let real = own.call(name);
                $(
                    if name.to_bytes() == stringify!($name).as_bytes() {
                        let real = real.unwrap();
                        // SAFETY: the driver's function of that name is of that type.
                        let real = unsafe { std::mem::transmute::<unsafe extern "system" fn(), vk::$pfn>(real) };
                        *$name::REAL.lock().unwrap_or_else(PoisonError::into_inner) = Some(real);
                        let hook: vk::$pfn = $name::hook;
                        return hook as *const c_void;
                    }
                )*
                real.map_or(std::ptr::null(), |real| real as *const c_void)
            };
            // SAFETY: each function is of the type that its name says.
            unsafe { ash::Device::load_with(load, own.device().handle()) }
        }
    };
}

type Callbacks<'a> = *const vk::AllocationCallbacks<'a>;

hooks! {
    vkQueueSubmit: PFN_vkQueueSubmit(a: vk::Queue, b: u32, c: *const vk::SubmitInfo<'_>, d: vk::Fence);
    vkGetSemaphoreCounterValue: PFN_vkGetSemaphoreCounterValue(a: vk::Device, b: vk::Semaphore, c: *mut u64);
    vkWaitSemaphores: PFN_vkWaitSemaphores(a: vk::Device, b: *const vk::SemaphoreWaitInfo<'_>, c: u64);
    vkBeginCommandBuffer: PFN_vkBeginCommandBuffer(a: vk::CommandBuffer, b: *const vk::CommandBufferBeginInfo<'_>);
    vkEndCommandBuffer: PFN_vkEndCommandBuffer(a: vk::CommandBuffer);
    vkCreateBuffer: PFN_vkCreateBuffer(a: vk::Device, b: *const vk::BufferCreateInfo<'_>, c: Callbacks<'_>, d: *mut vk::Buffer);
    vkAllocateMemory: PFN_vkAllocateMemory(a: vk::Device, b: *const vk::MemoryAllocateInfo<'_>, c: Callbacks<'_>, d: *mut vk::DeviceMemory);
    vkBindBufferMemory: PFN_vkBindBufferMemory(a: vk::Device, b: vk::Buffer, c: vk::DeviceMemory, d: u64);
    vkMapMemory: PFN_vkMapMemory(a: vk::Device, b: vk::DeviceMemory, c: u64, d: u64, e: vk::MemoryMapFlags, f: *mut *mut c_void);
    vkCreateSemaphore: PFN_vkCreateSemaphore(a: vk::Device, b: *const vk::SemaphoreCreateInfo<'_>, c: Callbacks<'_>, d: *mut vk::Semaphore);
    vkCreateCommandPool: PFN_vkCreateCommandPool(a: vk::Device, b: *const vk::CommandPoolCreateInfo<'_>, c: Callbacks<'_>, d: *mut vk::CommandPool);
    vkAllocateCommandBuffers: PFN_vkAllocateCommandBuffers(a: vk::Device, b: *const vk::CommandBufferAllocateInfo<'_>, c: *mut vk::CommandBuffer);
    vkCreateDescriptorPool: PFN_vkCreateDescriptorPool(a: vk::Device, b: *const vk::DescriptorPoolCreateInfo<'_>, c: Callbacks<'_>, d: *mut vk::DescriptorPool);
    vkAllocateDescriptorSets: PFN_vkAllocateDescriptorSets(a: vk::Device, b: *const vk::DescriptorSetAllocateInfo<'_>, c: *mut vk::DescriptorSet);
    vkCreateDescriptorSetLayout: PFN_vkCreateDescriptorSetLayout(a: vk::Device, b: *const vk::DescriptorSetLayoutCreateInfo<'_>, c: Callbacks<'_>, d: *mut vk::DescriptorSetLayout);
    vkCreatePipelineLayout: PFN_vkCreatePipelineLayout(a: vk::Device, b: *const vk::PipelineLayoutCreateInfo<'_>, c: Callbacks<'_>, d: *mut vk::PipelineLayout);
    vkCreateShaderModule: PFN_vkCreateShaderModule(a: vk::Device, b: *const vk::ShaderModuleCreateInfo<'_>, c: Callbacks<'_>, d: *mut vk::ShaderModule);
    vkCreateComputePipelines: PFN_vkCreateComputePipelines(a: vk::Device, b: vk::PipelineCache, c: u32, d: *const vk::ComputePipelineCreateInfo<'_>, e: Callbacks<'_>, f: *mut vk::Pipeline);
}
