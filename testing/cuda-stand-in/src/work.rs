//! What is in streams, and the threads that do it.

use std::ops::Range;
use std::sync::PoisonError;
use std::thread;
use std::time::Duration;

use crate::twins::Twin;
use crate::world::{CHANGED, SUCCESS, World, world};

/// Something in a stream.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    /// Bytes from one address to another.
    Copy { from: usize, to: usize, len_bytes: usize },
    /// A word, so many times.
    Fill { to: usize, word: u32, words: usize },
    /// A kernel's twin, and the module that the kernel is of.
    Kernel { twin: Twin, module: usize },
    /// Waits until the word at this address is at least so much.
    Wait { at: usize, least: u32 },
}

impl Work {
    /// The memory that it uses.
    pub(crate) fn uses(&self) -> Vec<Range<usize>> {
        match self {
            Self::Copy { from, to, len_bytes } => vec![*from..from + len_bytes, *to..to + len_bytes],
            Self::Fill { to, words, .. } => std::iter::once(*to..to + words * 4).collect(),
            Self::Kernel { twin, .. } => twin.uses(),
            Self::Wait { at, .. } => std::iter::once(*at..at + 4).collect(),
        }
    }

    fn run(&self) {
        match self {
            Self::Copy { from, to, len_bytes } => {
                let (from, to) = (std::ptr::with_exposed_provenance::<u8>(*from), address::<u8>(*to));
                // SAFETY: both were checked when the copy was submitted, and what would end them while it is in flight is a
                // violation. Device memory and pinned memory do not overlap.
                unsafe { std::ptr::copy_nonoverlapping(from, to, *len_bytes) };
            }
            Self::Fill { to, word, words } => {
                for nth in 0..*words {
                    // SAFETY: as above.
                    unsafe { address::<[u8; 4]>(to + nth * 4).write(word.to_le_bytes()) };
                }
            }
            Self::Kernel { twin, .. } => twin.run(),
            Self::Wait { .. } => {}
        }
    }

    /// Whether it can begin.
    fn is_ready(&self) -> bool {
        match self {
            // SAFETY: the word is in pinned memory that stays while this is in flight; whoever writes it does so at once.
            Self::Wait { at, least } => unsafe { address::<u32>(*at).read_volatile() >= *least },
            _ => true,
        }
    }
}

/// The memory at an address that was given to the stand-in as a number.
pub(crate) fn address<T>(at: usize) -> *mut T {
    std::ptr::with_exposed_provenance_mut(at)
}

/// Puts work into a stream. It was checked.
pub(crate) fn submit(world: &mut World, stream: usize, work: Work) {
    if let Some(stream) = world.streams.get_mut(&stream) {
        stream.queue.push_back(work);
        stream.submitted += 1;
    }
    CHANGED.notify_all();
}

/// Starts the thread of a stream.
pub(crate) fn start(stream: usize) {
    let thread = thread::Builder::new().name("cuda-stand-in".to_owned());
    // Without a thread the stream never does anything, which its tests say.
    let _ = thread.spawn(move || while turn(stream) {});
}

/// Does the oldest work of a stream, or waits for some. Says whether the stream is still there.
fn turn(number: usize) -> bool {
    let mut world = world();
    let Some(stream) = world.streams.get(&number) else { return false };
    let Some(work) = stream.queue.front().cloned() else {
        if stream.is_destroyed {
            world.streams.remove(&number);
            return false;
        }
        drop(CHANGED.wait(world).unwrap_or_else(PoisonError::into_inner));
        return true;
    };
    if world.sticky != SUCCESS {
        // A lost device does nothing more, and nobody can tell what it has done.
        return false;
    }
    let delay = Duration::from_micros(world.delay_microseconds);
    let is_wait = matches!(work, Work::Wait { .. });
    if !work.is_ready() {
        drop(CHANGED.wait_timeout(world, Duration::from_micros(200)).unwrap_or_else(PoisonError::into_inner));
        return true;
    }
    if !delay.is_zero() && matches!(work, Work::Copy { .. }) {
        drop(world);
        thread::sleep(delay);
        world = self::world();
    }
    let Some(stream) = world.streams.get_mut(&number) else { return false };
    match stream.fail_next.take_if(|_| !is_wait) {
        Some(code) => stream.failures.push((stream.done + 1, code)),
        None => work.run(),
    }
    stream.queue.pop_front();
    stream.done += 1;
    CHANGED.notify_all();
    true
}
