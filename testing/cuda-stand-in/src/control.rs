//! What tests tell the stand-in, and ask it. All are functions of C, found by their names in the loaded library.

use std::ffi::{CStr, c_char, c_void};

use crate::world::{Fault, world};

/// The text of a caller.
fn text(text: *const c_char) -> String {
    // SAFETY: the tests give strings that end with a zero.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// Copies as much of a text as there is room for, and a zero; gives its whole length.
fn give(text: &str, to: *mut c_char, room: usize) -> usize {
    if let Some(most) = room.checked_sub(1) {
        let len_bytes = text.len().min(most);
        // SAFETY: the caller has room for `room` bytes, of which these are fewer.
        unsafe { text.as_ptr().cast::<c_char>().copy_to_nonoverlapping(to, len_bytes) };
        // SAFETY: as above, for the one behind them.
        unsafe { to.wrapping_add(len_bytes).write(0) };
    }
    text.len()
}

/// Makes a call of a function answer `code`, after so many that do not. With `stays`, so does the call behind it, of whatever
/// function: an error that was left pending.
#[unsafe(no_mangle)]
extern "C" fn stand_in_fail(function: *const c_char, calls_before: u64, code: u32, stays: bool) {
    let function = text(function);
    world().faults.push(Fault { function, calls_before, code, stays });
}

/// Takes back all failures that have not happened; says how many.
#[unsafe(no_mangle)]
extern "C" fn stand_in_forget_failures() -> usize {
    std::mem::take(&mut world().faults).len()
}

/// Forgets registrations that were not ended: memory at the same addresses can be registered anew.
#[unsafe(no_mangle)]
extern "C" fn stand_in_forget_registrations() {
    world().pinned.retain(|_, pinned| pinned.is_allocated);
}

/// How often a function was called.
#[unsafe(no_mangle)]
extern "C" fn stand_in_calls(function: *const c_char) -> u64 {
    let function = text(function);
    world().calls.get(&function).copied().unwrap_or(0)
}

/// Makes the next work of a stream that moves bytes end without success and without moving any.
#[unsafe(no_mangle)]
extern "C" fn stand_in_fail_work(stream: *mut c_void, code: u32) {
    if let Some(stream) = world().streams.get_mut(&stream.addr()) {
        stream.fail_next = Some(code);
    }
}

/// Loses the device: every later call answers `code`, until it is called again with 0.
#[unsafe(no_mangle)]
extern "C" fn stand_in_lose(code: u32) {
    world().sticky = code;
}

/// The driver has ended, as at the end of a process: or has not.
#[unsafe(no_mangle)]
extern "C" fn stand_in_shut_down(is_shut_down: bool) {
    world().is_shut_down = is_shut_down;
}

/// How long each copy takes.
#[unsafe(no_mangle)]
extern "C" fn stand_in_delay(microseconds: u64) {
    world().delay_microseconds = microseconds;
}

/// How many devices there are.
#[unsafe(no_mangle)]
extern "C" fn stand_in_devices(count: i32) {
    world().devices = Some(count);
}

/// What an attribute of all devices is.
#[unsafe(no_mangle)]
extern "C" fn stand_in_attribute(attribute: i32, value: i32) {
    world().attributes.insert(attribute, value);
}

/// Notes violations from now on, and does not end the process.
#[unsafe(no_mangle)]
extern "C" fn stand_in_collect(collect: bool) {
    world().is_collecting = collect;
}

/// The violations that were noted, a line each; they are forgotten.
#[unsafe(no_mangle)]
extern "C" fn stand_in_violations(to: *mut c_char, room: usize) -> usize {
    let violations = std::mem::take(&mut world().violations);
    give(&violations.join("\n"), to, room)
}

/// What is there that was not released, a line each.
#[unsafe(no_mangle)]
extern "C" fn stand_in_left(to: *mut c_char, room: usize) -> usize {
    let left = world().left();
    give(&left.join("\n"), to, room)
}
