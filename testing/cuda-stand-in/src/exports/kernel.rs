//! Modules and kernels. No code runs: kernels that are known by name have twins.

use std::ffi::{CStr, c_char, c_void};

use super::stream::{check_device_memory, check_stream};
use super::{pointer, put};
use crate::twins::{Batch, Twin, batch_kernel};
use crate::work::{Work, submit};
use crate::world::{
    INVALID_HANDLE, INVALID_PTX, INVALID_VALUE, NOT_FOUND, NOT_SUPPORTED, answer, call_in_context,
};

const ERROR_LOG: u32 = 5;
const ERROR_LOG_BYTES: u32 = 6;
const COMPLAINT: &[u8] = b"stand-in: this is no PTX, it names no entry\0";

/// The names behind `.entry`.
fn entries(text: &str) -> Vec<String> {
    let is_name = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
    let name = |text: &str| text.trim_start().split(|c| !is_name(c)).next().unwrap_or("").to_owned();
    text.split(".entry").skip(1).map(name).filter(|name| !name.is_empty()).collect()
}

#[unsafe(no_mangle)]
extern "C" fn cuModuleLoadDataEx(
    module: *mut *mut c_void,
    image: *const c_char,
    options: u32,
    names: *const u32,
    values: *const *mut c_void,
) -> u32 {
    answer(call_in_context("cuModuleLoadDataEx").and_then(|(mut world, _)| {
        // SAFETY: the image is text that ends with a zero: nothing else is given to the stand-in.
        let text = unsafe { CStr::from_ptr(image) }.to_string_lossy();
        let entries = entries(&text);
        if !text.contains(".version") || entries.is_empty() {
            complain(options, names, values);
            return Err(INVALID_PTX);
        }
        let number = world.handle();
        world.modules.insert(number, entries);
        put(module, pointer(number))
    }))
}

/// Writes into the caller's log, if there is one.
fn complain(options: u32, names: *const u32, values: *const *mut c_void) {
    let (mut log, mut room) = (std::ptr::null_mut::<u8>(), 0);
    for nth in 0..options as usize {
        // SAFETY: both arrays have so many elements.
        let name = unsafe { names.wrapping_add(nth).read() };
        // SAFETY: as above.
        let value = unsafe { values.wrapping_add(nth).read() };
        match name {
            ERROR_LOG => log = value.cast(),
            ERROR_LOG_BYTES => room = value.addr(),
            _ => {}
        }
    }
    if !log.is_null() && room >= COMPLAINT.len() {
        // SAFETY: the log has that much room.
        unsafe { COMPLAINT.as_ptr().copy_to_nonoverlapping(log, COMPLAINT.len()) };
    }
}

#[unsafe(no_mangle)]
extern "C" fn cuModuleUnload(module: *mut c_void) -> u32 {
    answer(call_in_context("cuModuleUnload").and_then(|(mut world, _)| {
        if world.is_running(module.addr()) {
            world.violate("cuModuleUnload of a module with a kernel in flight".to_owned());
        }
        if world.modules.remove(&module.addr()).is_none() {
            world.violate("cuModuleUnload of what is no module".to_owned());
            return Err(INVALID_HANDLE);
        }
        world.functions.retain(|_, (of, _)| *of != module.addr());
        Ok(())
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuModuleGetFunction(
    function: *mut *mut c_void,
    module: *mut c_void,
    name: *const c_char,
) -> u32 {
    answer(call_in_context("cuModuleGetFunction").and_then(|(mut world, _)| {
        // SAFETY: a name ends with a zero.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
        if !world.modules.get(&module.addr()).ok_or(INVALID_HANDLE)?.contains(&name) {
            return Err(NOT_FOUND);
        }
        let number = world.handle();
        world.functions.insert(number, (module.addr(), name));
        put(function, pointer(number))
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuFuncGetAttribute(value: *mut i32, attribute: u32, function: *mut c_void) -> u32 {
    const MAX_THREADS_PER_BLOCK: u32 = 0;
    answer(call_in_context("cuFuncGetAttribute").and_then(|(world, _)| {
        if !world.functions.contains_key(&function.addr()) {
            return Err(INVALID_HANDLE);
        }
        put(value, if attribute == MAX_THREADS_PER_BLOCK { 1024 } else { 0 })
    }))
}

/// The value of a parameter.
fn parameter<T: Copy>(parameters: *const *const c_void, nth: usize) -> T {
    // SAFETY: the kernels that have twins have so many parameters, and the caller passes them all.
    let place = unsafe { parameters.wrapping_add(nth).read() };
    // SAFETY: and each is of that type.
    unsafe { place.cast::<T>().read_unaligned() }
}

#[unsafe(no_mangle)]
extern "C" fn cuLaunchKernel(
    function: *mut c_void,
    grid_x: u32,
    grid_y: u32,
    grid_z: u32,
    block_x: u32,
    block_y: u32,
    block_z: u32,
    _shared_bytes: u32,
    stream: *mut c_void,
    parameters: *const *const c_void,
    _extra: *const *const c_void,
) -> u32 {
    answer(call_in_context("cuLaunchKernel").and_then(|(mut world, context)| {
        let number = check_stream(&mut world, context, stream)?;
        let (module, name) = world.functions.get(&function.addr()).ok_or(INVALID_HANDLE)?.clone();
        let is_flat = [grid_y, grid_z, block_y, block_z] == [1; 4];
        if !is_flat || grid_x == 0 || block_x != 64 {
            world.violate(format!("a launch of {grid_x} blocks of {block_x}, or in more than one dimension"));
            return Err(INVALID_VALUE);
        }
        let twin = if let Some(function) = batch_kernel(&name) {
            let batch = Batch {
                slots: parameter(parameters, 0),
                slots_at: parameter(parameters, 1),
                count: parameter(parameters, 2),
                slot_bytes: parameter(parameters, 3),
                prefix_bytes: parameter(parameters, 4),
                output: parameter(parameters, 5),
                outputs_at: parameter(parameters, 6),
                output_bytes: parameter(parameters, 7),
            };
            if u64::from(grid_x) * 64 < u64::from(batch.count) {
                world.violate("fewer threads than messages".to_owned());
            }
            let twin = Twin::Batch { function, batch };
            let uses = twin.uses();
            // A batch may be read where it is, in mapped memory.
            if world.pinned_around(&uses[0]).is_none_or(|(_, pinned)| pinned.flags & 2 == 0) {
                check_device_memory(&mut world, &uses[0])?;
            }
            check_device_memory(&mut world, &uses[1])?;
            check_device_memory(&mut world, &uses[2])?;
            twin
        } else if name == "echo" {
            let twin = Twin::Echo {
                memory: parameter(parameters, 0),
                inbound: parameter(parameters, 1),
                outbound: parameter(parameters, 2),
            };
            for queue in twin.uses() {
                check_device_memory(&mut world, &queue)?;
            }
            twin
        } else {
            return Err(NOT_SUPPORTED);
        };
        submit(&mut world, number, Work::Kernel { twin, module });
        Ok(())
    }))
}
