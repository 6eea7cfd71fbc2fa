//! The stand-in for the driver: loading it, and telling it what to do.

use std::ffi::{CString, c_char, c_void};
use std::path::PathBuf;
use std::sync::OnceLock;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

/// The stand-in, loaded.
#[derive(Debug)]
pub struct StandIn(Library);

/// The file. Cargo builds it as a dependency of these tests, into the folder that they are in or the one below it.
///
/// # Panics
///
/// If it is not there.
pub fn path() -> PathBuf {
    let name = "libtransload_cuda_stand_in.so";
    let own = std::env::current_exe().unwrap();
    let folder = own.parent().unwrap();
    let there = [folder.join(name), folder.join("deps").join(name)];
    there.iter().find(|path| path.exists()).unwrap_or_else(|| panic!("none of {there:?} is there")).clone()
}

/// Loads the stand-in, so that whoever looks for the driver finds it: the loader knows libraries by their sonames.
///
/// # Panics
///
/// If it is not there, or a real driver is to be used.
pub fn stand_in() -> &'static StandIn {
    static STAND_IN: OnceLock<StandIn> = OnceLock::new();
    assert!(!super::is_real(), "a real driver is to be used");
    STAND_IN.get_or_init(|| {
        // SAFETY: the library does nothing when it is loaded.
        let library = unsafe { Library::open(Some(path()), RTLD_NOW | RTLD_LOCAL) };
        StandIn(library.unwrap())
    })
}

macro_rules! call {
    ($self:ident, $name:literal: fn($($type:ty),*) $(-> $result:ty)?, $($argument:expr),*) => {{
        // SAFETY: the stand-in's function of that name has this type.
        let function = unsafe { $self.0.get::<extern "C" fn($($type),*) $(-> $result)?>($name.as_bytes()) };
        function.unwrap()($($argument),*)
    }};
}

impl StandIn {
    /// Makes the call of a function after so many others answer `code`.
    pub fn fail(&self, function: &str, calls_before: u64, code: u32) {
        let function = CString::new(function).unwrap();
        call!(self, "stand_in_fail": fn(*const c_char, u64, u32, bool), function.as_ptr(), calls_before, code, false);
    }

    /// As [`fail`](StandIn::fail), and the call behind it, of whatever function, answers the same: the error stays pending.
    pub fn fail_and_stay(&self, function: &str, code: u32) {
        let function = CString::new(function).unwrap();
        call!(self, "stand_in_fail": fn(*const c_char, u64, u32, bool), function.as_ptr(), 0, code, true);
    }

    /// Takes back all failures that have not happened; says how many.
    pub fn forget_failures(&self) -> usize {
        call!(self, "stand_in_forget_failures": fn() -> usize,)
    }

    /// Forgets registrations that were not ended, since the call that ends them was made to fail.
    pub fn forget_registrations(&self) {
        call!(self, "stand_in_forget_registrations": fn(),);
    }

    /// How often a function was called.
    pub fn calls(&self, function: &str) -> u64 {
        let function = CString::new(function).unwrap();
        call!(self, "stand_in_calls": fn(*const c_char) -> u64, function.as_ptr())
    }

    /// Makes the next copy, fill or kernel in a stream end with `code`.
    pub fn fail_work(&self, stream: *mut c_void, code: u32) {
        call!(self, "stand_in_fail_work": fn(*mut c_void, u32), stream, code);
    }

    /// Loses the device, or with 0 gives it back.
    pub fn lose(&self, code: u32) {
        call!(self, "stand_in_lose": fn(u32), code);
    }

    /// Whether the driver has shut down.
    pub fn shut_down(&self, is_shut_down: bool) {
        call!(self, "stand_in_shut_down": fn(bool), is_shut_down);
    }

    /// How long each copy takes.
    pub fn delay(&self, microseconds: u64) {
        call!(self, "stand_in_delay": fn(u64), microseconds);
    }

    /// What an attribute of all devices is.
    pub fn attribute(&self, attribute: i32, value: i32) {
        call!(self, "stand_in_attribute": fn(i32, i32), attribute, value);
    }

    /// Whether violations are noted, and do not end the process.
    pub fn collect(&self, collect: bool) {
        call!(self, "stand_in_collect": fn(bool), collect);
    }

    /// The violations that were noted since they were last asked for.
    pub fn violations(&self) -> Vec<String> {
        let mut text = vec![0_u8; 1 << 16];
        let len_bytes = call!(
            self, "stand_in_violations": fn(*mut c_char, usize) -> usize, text.as_mut_ptr().cast(), text.len());
        lines(&text[..len_bytes])
    }

    /// What was not released.
    pub fn left(&self) -> Vec<String> {
        let mut text = vec![0_u8; 1 << 12];
        let len_bytes = call!(self, "stand_in_left": fn(*mut c_char, usize) -> usize, text.as_mut_ptr().cast(), text.len());
        lines(&text[..len_bytes])
    }
}

fn lines(text: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(text).lines().map(str::to_owned).collect()
}
