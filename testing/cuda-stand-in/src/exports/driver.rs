//! The driver, its devices and contexts.

use std::ffi::{c_char, c_void};

use super::{pointer, put};
use crate::world::{
    Context, INVALID_CONTEXT, INVALID_DEVICE, INVALID_VALUE, World, answer, call, call_in_context, contexts,
};

const NAME: &[u8] = b"stand-in for a CUDA device\0";
const MEMORY: usize = 8 << 30;

fn devices(world: &World) -> i32 {
    let variable = || std::env::var("TRANSLOAD_CUDA_STAND_IN_DEVICES").ok()?.parse().ok();
    world.devices.or_else(variable).unwrap_or(2)
}

fn check(world: &World, device: i32) -> Result<(), u32> {
    if (0..devices(world)).contains(&device) { Ok(()) } else { Err(INVALID_DEVICE) }
}

#[unsafe(no_mangle)]
extern "C" fn cuInit(flags: u32) -> u32 {
    const NO_DEVICE: u32 = 100;
    answer(call("cuInit").and_then(|mut world| {
        if flags != 0 {
            return Err(INVALID_VALUE);
        }
        if let Some(code) =
            std::env::var("TRANSLOAD_CUDA_STAND_IN_INIT").ok().and_then(|code| code.parse().ok())
        {
            return Err(code);
        }
        if devices(&world) == 0 {
            return Err(NO_DEVICE);
        }
        world.is_initialised = true;
        Ok(())
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuDriverGetVersion(version: *mut i32) -> u32 {
    // The one call that needs no cuInit.
    answer(put(version, 12_000))
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetCount(count: *mut i32) -> u32 {
    answer(call("cuDeviceGetCount").and_then(|world| put(count, devices(&world))))
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGet(device: *mut i32, ordinal: i32) -> u32 {
    answer(call("cuDeviceGet").and_then(|world| {
        check(&world, ordinal)?;
        put(device, ordinal)
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetName(name: *mut c_char, room: i32, device: i32) -> u32 {
    answer(call("cuDeviceGetName").and_then(|world| {
        check(&world, device)?;
        if usize::try_from(room).is_ok_and(|room| room >= NAME.len()) {
            // SAFETY: the caller has room for so many bytes.
            unsafe { NAME.as_ptr().cast::<c_char>().copy_to_nonoverlapping(name, NAME.len()) };
            return Ok(());
        }
        Err(INVALID_VALUE)
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceTotalMem_v2(bytes: *mut usize, device: i32) -> u32 {
    answer(call("cuDeviceTotalMem_v2").and_then(|world| {
        check(&world, device)?;
        put(bytes, MEMORY)
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetAttribute(value: *mut i32, attribute: i32, device: i32) -> u32 {
    answer(call("cuDeviceGetAttribute").and_then(|world| {
        check(&world, device)?;
        let usual = match attribute {
            // Host memory can be mapped; it can be registered, and for reading only.
            19 | 99 | 113 => 1,
            // The architecture, 7.5.
            75 => 7,
            76 => 5,
            _ => 0,
        };
        put(value, world.attributes.get(&attribute).copied().unwrap_or(usual))
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxRetain(context: *mut *mut c_void, device: i32) -> u32 {
    answer(call("cuDevicePrimaryCtxRetain").and_then(|mut world| {
        check(&world, device)?;
        let is_it = |there: &&mut Context| there.device == device && there.retained.is_some();
        if let Some((number, there)) = world.contexts.iter_mut().find(|(_, there)| is_it(there)) {
            there.retained = there.retained.map(|count| count + 1);
            return put(context, pointer(*number));
        }
        let number = world.handle();
        world.contexts.insert(number, Context { device, retained: Some(1) });
        put(context, pointer(number))
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxRelease_v2(device: i32) -> u32 {
    answer(call("cuDevicePrimaryCtxRelease_v2").map(|mut world| {
        let found =
            world.contexts.values_mut().find(|there| there.device == device && there.retained.is_some());
        match found.and_then(|there| there.retained.as_mut()).filter(|count| **count > 0) {
            Some(count) => *count -= 1,
            None => world.violate("a primary context was released more often than retained".to_owned()),
        }
    }))
}

/// A context of the user's own.
#[unsafe(no_mangle)]
extern "C" fn cuCtxCreate_v2(context: *mut *mut c_void, _flags: u32, device: i32) -> u32 {
    answer(call("cuCtxCreate_v2").and_then(|mut world| {
        check(&world, device)?;
        let number = world.handle();
        world.contexts.insert(number, Context { device, retained: None });
        contexts(|contexts| contexts.push(number));
        put(context, pointer(number))
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxDestroy_v2(context: *mut c_void) -> u32 {
    answer(call("cuCtxDestroy_v2").and_then(|mut world| {
        contexts(|contexts| contexts.retain(|there| *there != context.addr()));
        world.contexts.remove(&context.addr()).map(|_| ()).ok_or(INVALID_CONTEXT)
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxGetCurrent(context: *mut *mut c_void) -> u32 {
    let current = contexts(|contexts| contexts.last().copied().unwrap_or(0));
    answer(call("cuCtxGetCurrent").and_then(|_| put(context, pointer(current))))
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxPushCurrent_v2(context: *mut c_void) -> u32 {
    answer(call("cuCtxPushCurrent_v2").and_then(|world| {
        if !world.contexts.contains_key(&context.addr()) {
            return Err(INVALID_CONTEXT);
        }
        contexts(|contexts| contexts.push(context.addr()));
        Ok(())
    }))
}

/// Works on a lost device too: the stack is the thread's.
#[unsafe(no_mangle)]
extern "C" fn cuCtxPopCurrent_v2(context: *mut *mut c_void) -> u32 {
    match contexts(Vec::pop) {
        Some(_) if context.is_null() => 0,
        Some(number) => answer(put(context, pointer(number))),
        None => INVALID_CONTEXT,
    }
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxGetDevice(device: *mut i32) -> u32 {
    answer(call_in_context("cuCtxGetDevice").and_then(|(world, context)| {
        let there = world.contexts.get(&context).ok_or(INVALID_CONTEXT)?;
        put(device, there.device)
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuGetErrorName(code: u32, name: *mut *const c_char) -> u32 {
    let text = match code {
        0 => c"CUDA_SUCCESS",
        1 => c"CUDA_ERROR_INVALID_VALUE",
        2 => c"CUDA_ERROR_OUT_OF_MEMORY",
        4 => c"CUDA_ERROR_DEINITIALIZED",
        100 => c"CUDA_ERROR_NO_DEVICE",
        218 => c"CUDA_ERROR_INVALID_PTX",
        600 => c"CUDA_ERROR_NOT_READY",
        700 => c"CUDA_ERROR_ILLEGAL_ADDRESS",
        712 => c"CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
        719 => c"CUDA_ERROR_LAUNCH_FAILED",
        _ => return INVALID_VALUE,
    };
    answer(put(name, text.as_ptr()))
}
