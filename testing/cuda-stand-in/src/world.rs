//! What the stand-in knows: one world a process.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::io::Write;
use std::ops::Range;
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError};

use crate::work::Work;

pub(crate) const SUCCESS: u32 = 0;
pub(crate) const INVALID_VALUE: u32 = 1;
pub(crate) const OUT_OF_MEMORY: u32 = 2;
pub(crate) const NOT_INITIALIZED: u32 = 3;
pub(crate) const DEINITIALIZED: u32 = 4;
pub(crate) const INVALID_DEVICE: u32 = 101;
pub(crate) const INVALID_CONTEXT: u32 = 201;
pub(crate) const INVALID_PTX: u32 = 218;
pub(crate) const INVALID_HANDLE: u32 = 400;
pub(crate) const NOT_FOUND: u32 = 500;
pub(crate) const NOT_READY: u32 = 600;
pub(crate) const ALREADY_REGISTERED: u32 = 712;
pub(crate) const NOT_REGISTERED: u32 = 713;
pub(crate) const NOT_SUPPORTED: u32 = 801;

/// A stream, and what is in it.
#[derive(Default)]
pub(crate) struct Stream {
    pub(crate) context: usize,
    /// What has not ended, the oldest first: that one stays here until it has.
    pub(crate) queue: VecDeque<Work>,
    pub(crate) submitted: u64,
    pub(crate) done: u64,
    /// What is to become of the next work that moves bytes, if not success.
    pub(crate) fail_next: Option<u32>,
    /// Which work has failed, and how.
    pub(crate) failures: Vec<(u64, u32)>,
    pub(crate) is_destroyed: bool,
}

/// An event, and the work that it stands for: behind what it was recorded for before, up to what was submitted then.
#[derive(Clone, Copy, Default)]
pub(crate) struct Event {
    pub(crate) context: usize,
    pub(crate) recorded: Option<(usize, u64)>,
}

/// Host memory that is pinned.
pub(crate) struct Pinned {
    pub(crate) len_bytes: usize,
    pub(crate) flags: u32,
    /// Allocated here, and not registered.
    pub(crate) is_allocated: bool,
}

pub(crate) struct Context {
    pub(crate) device: i32,
    /// How often it is retained, if it is a primary context.
    pub(crate) retained: Option<u32>,
}

pub(crate) struct Fault {
    pub(crate) function: String,
    pub(crate) calls_before: u64,
    pub(crate) code: u32,
    /// The call behind it gets the same answer, as if the error had been left pending.
    pub(crate) stays: bool,
}

#[derive(Default)]
pub(crate) struct World {
    pub(crate) is_initialised: bool,
    pub(crate) is_shut_down: bool,
    /// What every call answers once a device is lost.
    pub(crate) sticky: u32,
    pub(crate) pending: u32,
    pub(crate) devices: Option<i32>,
    pub(crate) delay_microseconds: u64,
    pub(crate) attributes: BTreeMap<i32, i32>,
    pub(crate) faults: Vec<Fault>,
    pub(crate) calls: BTreeMap<String, u64>,
    pub(crate) contexts: BTreeMap<usize, Context>,
    pub(crate) streams: BTreeMap<usize, Stream>,
    pub(crate) events: BTreeMap<usize, Event>,
    /// Device memory: in truth host memory, at the address that stands for it.
    pub(crate) device_memory: BTreeMap<usize, usize>,
    pub(crate) pinned: BTreeMap<usize, Pinned>,
    pub(crate) modules: BTreeMap<usize, Vec<String>>,
    /// Each function's module and name.
    pub(crate) functions: BTreeMap<usize, (usize, String)>,
    pub(crate) violations: Vec<String>,
    pub(crate) is_collecting: bool,
    last_handle: usize,
}

static WORLD: LazyLock<Mutex<World>> = LazyLock::new(Mutex::default);
pub(crate) static CHANGED: Condvar = Condvar::new();

thread_local! {
    /// The contexts of this thread, the current one last.
    static CONTEXTS: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

pub(crate) fn world() -> MutexGuard<'static, World> {
    WORLD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The contexts of this thread, for what pushes and pops them.
pub(crate) fn contexts<T>(with: impl FnOnce(&mut Vec<usize>) -> T) -> T {
    CONTEXTS.with_borrow_mut(with)
}

/// What a call finds: the world, if it may go on; else what it answers.
pub(crate) fn call(function: &str) -> Result<MutexGuard<'static, World>, u32> {
    let mut world = world();
    *world.calls.entry(function.to_owned()).or_default() += 1;
    if world.is_shut_down {
        return Err(DEINITIALIZED);
    }
    let pending = std::mem::take(&mut world.pending);
    if pending != SUCCESS {
        return Err(pending);
    }
    let place = world.faults.iter().position(|fault| fault.function == function);
    if let Some(place) = place {
        let fault = &mut world.faults[place];
        if fault.calls_before == 0 {
            let fault = world.faults.swap_remove(place);
            world.pending = if fault.stays { fault.code } else { SUCCESS };
            return Err(fault.code);
        }
        fault.calls_before -= 1;
    }
    if !world.is_initialised && function != "cuInit" {
        return Err(NOT_INITIALIZED);
    }
    // The contexts of a thread are its own business, whatever has become of the device.
    if world.sticky != SUCCESS && !["cuCtxGetCurrent", "cuCtxPushCurrent_v2"].contains(&function) {
        return Err(world.sticky);
    }
    Ok(world)
}

/// As [`call`], for functions that need a context: the world, and the context.
pub(crate) fn call_in_context(function: &str) -> Result<(MutexGuard<'static, World>, usize), u32> {
    let mut world = call(function)?;
    match contexts(|contexts| contexts.last().copied()) {
        Some(context) if world.contexts.contains_key(&context) => Ok((world, context)),
        Some(_) => {
            world.violate(format!("{function} in a context that is gone"));
            Err(INVALID_CONTEXT)
        }
        None => {
            world.violate(format!("{function} on a thread without a current context"));
            Err(INVALID_CONTEXT)
        }
    }
}

/// The answer of a call.
pub(crate) fn answer(result: Result<(), u32>) -> u32 {
    result.err().unwrap_or(SUCCESS)
}

impl World {
    /// A number that no other thing has.
    pub(crate) fn handle(&mut self) -> usize {
        // Not small, so that it is no index by chance; even, as addresses are.
        self.last_handle = self.last_handle.max(0x00c0_da00) + 16;
        self.last_handle
    }

    /// Notes a breach of the rules.
    pub(crate) fn violate(&mut self, what: String) {
        if !self.is_collecting {
            // The process ends here: nobody is to miss it.
            let _ = writeln!(std::io::stderr(), "violation of the rules of CUDA: {what}");
            std::process::abort();
        }
        self.violations.push(what);
    }

    /// The pinned range that holds all of these bytes.
    pub(crate) fn pinned_around(&self, bytes: &Range<usize>) -> Option<(usize, &Pinned)> {
        let (&base, pinned) = self.pinned.range(..=bytes.start).next_back()?;
        (bytes.end <= base + pinned.len_bytes).then_some((base, pinned))
    }

    pub(crate) fn is_device_memory(&self, bytes: &Range<usize>) -> bool {
        let around = self.device_memory.range(..=bytes.start).next_back();
        around.is_some_and(|(base, len_bytes)| bytes.end <= base + len_bytes)
    }

    /// Whether something that has not ended uses any of these bytes.
    pub(crate) fn is_in_flight(&self, bytes: &Range<usize>) -> bool {
        let overlap = |used: &Range<usize>| used.start < bytes.end && bytes.start < used.end;
        self.streams.values().flat_map(|stream| &stream.queue).any(|work| work.uses().iter().any(overlap))
    }

    /// Whether a kernel of a module has not ended.
    pub(crate) fn is_running(&self, module: usize) -> bool {
        let is_of = |work: &Work| matches!(work, Work::Kernel { module: of, .. } if *of == module);
        self.streams.values().flat_map(|stream| &stream.queue).any(is_of)
    }

    /// What is there that ought to have been released.
    pub(crate) fn left(&self) -> Vec<String> {
        let retained =
            self.contexts.values().filter(|context| context.retained.is_some_and(|count| count > 0));
        let streams = self.streams.values().filter(|stream| !stream.is_destroyed);
        [
            ("primary context", retained.count()),
            ("stream", streams.count()),
            ("event", self.events.len()),
            ("device memory", self.device_memory.len()),
            ("pinned range", self.pinned.len()),
            ("module", self.modules.len()),
        ]
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .map(|(what, count)| format!("{count} x {what}"))
        .collect()
    }
}
