//! Memory of the device, and memory of the host that is pinned.

use std::ffi::c_void;
use std::ops::Range;

use super::put;
use crate::world::{
    ALREADY_REGISTERED, INVALID_VALUE, NOT_REGISTERED, OUT_OF_MEMORY, Pinned, World, answer, call_in_context,
};

const PAGE: usize = 4096;

/// Zeroed pages of this process, at an address that is given as a number.
fn map(len_bytes: usize) -> Result<usize, u32> {
    let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: new pages, of nobody's.
    let base = unsafe { libc::mmap(std::ptr::null_mut(), len_bytes, access, flags, -1, 0) };
    if base == libc::MAP_FAILED { Err(OUT_OF_MEMORY) } else { Ok(base.expose_provenance()) }
}

fn unmap(base: usize, len_bytes: usize) {
    // SAFETY: mapped by `map`, and whoever still used it would have been a violation.
    unsafe { libc::munmap(std::ptr::with_exposed_provenance_mut(base), len_bytes) };
}

fn check_idle(world: &mut World, function: &str, bytes: &Range<usize>) {
    if world.is_in_flight(bytes) {
        world.violate(format!("{function} of memory that something in flight uses"));
    }
}

#[unsafe(no_mangle)]
extern "C" fn cuMemAlloc_v2(memory: *mut u64, len_bytes: usize) -> u32 {
    answer(call_in_context("cuMemAlloc_v2").and_then(|(mut world, _)| {
        if len_bytes == 0 {
            return Err(INVALID_VALUE);
        }
        let base = map(len_bytes)?;
        world.device_memory.insert(base, len_bytes);
        put(memory, base as u64)
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemFree_v2(memory: usize) -> u32 {
    answer(call_in_context("cuMemFree_v2").and_then(|(mut world, _)| {
        let Some(len_bytes) = world.device_memory.get(&memory).copied() else {
            world.violate("cuMemFree of what is no device memory".to_owned());
            return Err(INVALID_VALUE);
        };
        check_idle(&mut world, "cuMemFree", &(memory..memory + len_bytes));
        world.device_memory.remove(&memory);
        unmap(memory, len_bytes);
        Ok(())
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemHostAlloc(memory: *mut *mut c_void, len_bytes: usize, flags: u32) -> u32 {
    answer(call_in_context("cuMemHostAlloc").and_then(|(mut world, _)| {
        if len_bytes == 0 {
            return Err(INVALID_VALUE);
        }
        let base = map(len_bytes)?;
        let pinned = Pinned { len_bytes, flags, is_allocated: true };
        world.pinned.insert(base, pinned);
        put(memory, std::ptr::with_exposed_provenance_mut(base))
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemFreeHost(memory: *mut c_void) -> u32 {
    answer(call_in_context("cuMemFreeHost").and_then(|(mut world, _)| {
        let base = memory.addr();
        let Some(len_bytes) =
            world.pinned.get(&base).filter(|pinned| pinned.is_allocated).map(|pinned| pinned.len_bytes)
        else {
            world.violate("cuMemFreeHost of what cuMemHostAlloc has not given".to_owned());
            return Err(INVALID_VALUE);
        };
        check_idle(&mut world, "cuMemFreeHost", &(base..base + len_bytes));
        world.pinned.remove(&base);
        unmap(base, len_bytes);
        Ok(())
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemHostRegister_v2(memory: *mut c_void, len_bytes: usize, flags: u32) -> u32 {
    answer(call_in_context("cuMemHostRegister_v2").and_then(|(mut world, _)| {
        let base = memory.expose_provenance();
        if len_bytes == 0 || base == 0 {
            return Err(INVALID_VALUE);
        }
        if !base.is_multiple_of(PAGE) || !len_bytes.is_multiple_of(PAGE) {
            world.violate(format!("{len_bytes} bytes at {base:#x} are not whole pages"));
            return Err(INVALID_VALUE);
        }
        let below = world.pinned.range(..base + len_bytes).next_back();
        if below.is_some_and(|(other, pinned)| other + pinned.len_bytes > base) {
            return Err(ALREADY_REGISTERED);
        }
        let pinned = Pinned { len_bytes, flags, is_allocated: false };
        world.pinned.insert(base, pinned);
        Ok(())
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemHostUnregister(memory: *mut c_void) -> u32 {
    answer(call_in_context("cuMemHostUnregister").and_then(|(mut world, _)| {
        let base = memory.addr();
        let own = world.pinned.get(&base).filter(|pinned| !pinned.is_allocated);
        let Some(len_bytes) = own.map(|pinned| pinned.len_bytes) else {
            world.violate("cuMemHostUnregister of what the caller has not registered".to_owned());
            return Err(NOT_REGISTERED);
        };
        check_idle(&mut world, "cuMemHostUnregister", &(base..base + len_bytes));
        world.pinned.remove(&base);
        Ok(())
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemHostGetDevicePointer_v2(device: *mut u64, host: *mut c_void, _flags: u32) -> u32 {
    answer(call_in_context("cuMemHostGetDevicePointer_v2").and_then(|(world, _)| {
        let at = host.addr();
        let (_, pinned) = world.pinned_around(&(at..at + 1)).ok_or(INVALID_VALUE)?;
        // Registered or allocated to be mapped.
        if pinned.flags & 2 == 0 {
            return Err(INVALID_VALUE);
        }
        put(device, at as u64)
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuPointerGetAttribute(value: *mut c_void, attribute: u32, memory: usize) -> u32 {
    const CONTEXT: u32 = 1;
    const MEMORY_TYPE: u32 = 2;
    const RANGE_START: u32 = 11;
    const RANGE_SIZE: u32 = 12;
    answer(call_in_context("cuPointerGetAttribute").and_then(|(world, context)| {
        let pinned =
            world.pinned_around(&(memory..memory + 1)).map(|(base, pinned)| (base, pinned.len_bytes, 1));
        let device = || {
            let (base, len_bytes) = world.device_memory.range(..=memory).next_back()?;
            (memory < base + len_bytes).then_some((*base, *len_bytes, 2))
        };
        let (base, len_bytes, kind) = pinned.or_else(device).ok_or(INVALID_VALUE)?;
        match attribute {
            CONTEXT => put(value.cast(), context),
            MEMORY_TYPE => put(value.cast(), kind),
            RANGE_START => put(value.cast(), base),
            RANGE_SIZE => put(value.cast(), len_bytes),
            _ => Err(INVALID_VALUE),
        }
    }))
}
