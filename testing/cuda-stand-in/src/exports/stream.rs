//! Streams, events, and what moves bytes.

use std::ffi::c_void;
use std::ops::Range;

use super::{pointer, put};
use crate::work::{Work, start, submit};
use crate::world::{
    CHANGED, Event, INVALID_HANDLE, INVALID_VALUE, NOT_READY, Stream, World, answer, call, call_in_context,
};

/// The stream, if it is one of this context.
pub(super) fn check_stream(world: &mut World, context: usize, stream: *mut c_void) -> Result<usize, u32> {
    let there = world.streams.get(&stream.addr()).filter(|stream| !stream.is_destroyed);
    match there.map(|stream| stream.context) {
        Some(of) if of == context => Ok(stream.addr()),
        Some(_) => {
            world.violate("a stream was used while another context than its own was current".to_owned());
            Err(INVALID_HANDLE)
        }
        None => Err(INVALID_HANDLE),
    }
}

pub(super) fn check_device_memory(world: &mut World, bytes: &Range<usize>) -> Result<(), u32> {
    if world.is_device_memory(bytes) {
        return Ok(());
    }
    world.violate(format!("{} bytes at {:#x} are not the device's", bytes.len(), bytes.start));
    Err(INVALID_VALUE)
}

fn check_host_memory(world: &mut World, bytes: &Range<usize>) -> Result<(), u32> {
    if world.pinned_around(bytes).is_some() {
        return Ok(());
    }
    // The driver would take memory that is not registered at all, and copy it before it returns or after; it refuses what
    // is registered in part.
    world.violate(format!(
        "an asynchronous copy of {} bytes at {:#x}, which are not in one registered range",
        bytes.len(),
        bytes.start
    ));
    Err(INVALID_VALUE)
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamCreate(stream: *mut *mut c_void, _flags: u32) -> u32 {
    answer(call_in_context("cuStreamCreate").and_then(|(mut world, context)| {
        let number = world.handle();
        world.streams.insert(number, Stream { context, ..Stream::default() });
        put(stream, pointer(number))?;
        drop(world);
        start(number);
        Ok(())
    }))
}

/// What is in the stream is still done.
#[unsafe(no_mangle)]
extern "C" fn cuStreamDestroy_v2(stream: *mut c_void) -> u32 {
    answer(call_in_context("cuStreamDestroy_v2").and_then(|(mut world, context)| {
        let number = check_stream(&mut world, context, stream)?;
        if let Some(stream) = world.streams.get_mut(&number) {
            stream.is_destroyed = true;
        }
        CHANGED.notify_all();
        Ok(())
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamGetCtx(stream: *mut c_void, context: *mut *mut c_void) -> u32 {
    answer(call("cuStreamGetCtx").and_then(|world| {
        let there = world.streams.get(&stream.addr()).ok_or(INVALID_HANDLE)?;
        put(context, pointer(there.context))
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamIsCapturing(stream: *mut c_void, status: *mut u32) -> u32 {
    answer(call_in_context("cuStreamIsCapturing").and_then(|(mut world, context)| {
        check_stream(&mut world, context, stream)?;
        put(status, 0)
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamQuery(stream: *mut c_void) -> u32 {
    answer(call_in_context("cuStreamQuery").and_then(|(mut world, context)| {
        let number = check_stream(&mut world, context, stream)?;
        let is_idle = world.streams.get(&number).is_none_or(|stream| stream.queue.is_empty());
        if is_idle { Ok(()) } else { Err(NOT_READY) }
    }))
}

/// The word is in pinned memory that is mapped, at the address that was given for it.
#[unsafe(no_mangle)]
extern "C" fn cuStreamWaitValue32_v2(stream: *mut c_void, at: usize, least: u32, flags: u32) -> u32 {
    answer(call_in_context("cuStreamWaitValue32_v2").and_then(|(mut world, context)| {
        let number = check_stream(&mut world, context, stream)?;
        if flags != 0 || world.pinned_around(&(at..at + 4)).is_none() {
            return Err(INVALID_VALUE);
        }
        submit(&mut world, number, Work::Wait { at, least });
        Ok(())
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuEventCreate(event: *mut *mut c_void, _flags: u32) -> u32 {
    answer(call_in_context("cuEventCreate").and_then(|(mut world, context)| {
        let number = world.handle();
        world.events.insert(number, Event { context, recorded: None });
        put(event, pointer(number))
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuEventDestroy_v2(event: *mut c_void) -> u32 {
    answer(call_in_context("cuEventDestroy_v2").and_then(|(mut world, _)| {
        if world.events.remove(&event.addr()).is_none() {
            world.violate("cuEventDestroy of what is no event".to_owned());
            return Err(INVALID_HANDLE);
        }
        Ok(())
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuEventRecord(event: *mut c_void, stream: *mut c_void) -> u32 {
    answer(call_in_context("cuEventRecord").and_then(|(mut world, context)| {
        let number = check_stream(&mut world, context, stream)?;
        let submitted = world.streams.get(&number).map_or(0, |stream| stream.submitted);
        let event = world.events.get_mut(&event.addr()).filter(|event| event.context == context);
        event.ok_or(INVALID_HANDLE)?.recorded = Some((number, submitted));
        Ok(())
    }))
}

/// Whatever has failed in the stream up to there is reported by the first event that is asked, and then forgotten.
#[unsafe(no_mangle)]
extern "C" fn cuEventQuery(event: *mut c_void) -> u32 {
    answer(call_in_context("cuEventQuery").and_then(|(mut world, _)| {
        let event = *world.events.get(&event.addr()).ok_or(INVALID_HANDLE)?;
        let Some((number, submitted)) = event.recorded else { return Ok(()) };
        let Some(stream) = world.streams.get_mut(&number) else { return Ok(()) };
        if stream.done < submitted {
            return Err(NOT_READY);
        }
        match stream.failures.iter().position(|(work, _)| *work <= submitted) {
            Some(place) => Err(stream.failures.remove(place).1),
            None => Ok(()),
        }
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyHtoDAsync_v2(
    to: usize,
    from: *const c_void,
    len_bytes: usize,
    stream: *mut c_void,
) -> u32 {
    answer(call_in_context("cuMemcpyHtoDAsync_v2").and_then(|(mut world, context)| {
        let number = check_stream(&mut world, context, stream)?;
        let from = from.expose_provenance();
        check_host_memory(&mut world, &(from..from + len_bytes))?;
        check_device_memory(&mut world, &(to..to + len_bytes))?;
        submit(&mut world, number, Work::Copy { from, to, len_bytes });
        Ok(())
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyDtoHAsync_v2(
    to: *mut c_void,
    from: usize,
    len_bytes: usize,
    stream: *mut c_void,
) -> u32 {
    answer(call_in_context("cuMemcpyDtoHAsync_v2").and_then(|(mut world, context)| {
        let number = check_stream(&mut world, context, stream)?;
        let to = to.expose_provenance();
        check_host_memory(&mut world, &(to..to + len_bytes))?;
        check_device_memory(&mut world, &(from..from + len_bytes))?;
        if world
            .pinned_around(&(to..to + 1))
            .is_some_and(|(_, pinned)| pinned.flags & 8 != 0 && !pinned.is_allocated)
        {
            world.violate("a copy into memory that was registered for reading only".to_owned());
        }
        submit(&mut world, number, Work::Copy { from, to, len_bytes });
        Ok(())
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemsetD32Async(to: usize, word: u32, words: usize, stream: *mut c_void) -> u32 {
    answer(call_in_context("cuMemsetD32Async").and_then(|(mut world, context)| {
        let number = check_stream(&mut world, context, stream)?;
        if !to.is_multiple_of(4) {
            return Err(INVALID_VALUE);
        }
        check_device_memory(&mut world, &(to..to + words * 4))?;
        submit(&mut world, number, Work::Fill { to, word, words });
        Ok(())
    }))
}
