//! Files: always ready for a poller, and blocking all the same. So threads do the calls.

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use rustix::fs::fsync;
use rustix::io::{Errno, retry_on_intr};

use super::super::backend::{Alarm, Completion, Event, Piece};
use super::super::file::File;
use super::super::key::Key;
use super::bell::Bell;
use super::vectors::Vectors;

/// More would gain little: two keep a device busy while one's call returns.
const THREADS: usize = 2;

/// What is done with a file.
#[derive(Clone, Copy, Debug)]
pub(super) enum Call {
    Read { offset: u64 },
    Write { offset: u64 },
    Sync { data_only: bool },
}

/// Pieces that go to another thread.
#[derive(Debug, Default)]
struct Sent(Vec<Piece>);

// SAFETY: the memory belongs to the operation (I1), on whatever thread its call is made, and is there until the
// operation's completion has been handed out (I2, I6).
unsafe impl Send for Sent {}

#[derive(Debug)]
struct Job {
    key: Key,
    file: File,
    call: Call,
    pieces: Sent,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Job>,
    finished: Vec<(Key, Result<usize, Errno>)>,
    /// Empty ones, for their memory.
    spare: Vec<Sent>,
    is_closing: bool,
}

struct Shared {
    state: Mutex<State>,
    queued: Condvar,
    bell: Bell,
}

/// The threads, which start with the first job. Dropping it waits for the calls that run: nothing can cancel them, and
/// the memory is theirs until they return.
pub(super) struct Files {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Files {
    pub(super) fn new(bell: Bell) -> Self {
        let (state, queued) = (Mutex::default(), Condvar::new());
        Self { shared: Arc::new(Shared { state, queued, bell }), threads: Vec::new() }
    }

    /// Queues a job.
    ///
    /// # Errors
    ///
    /// If there is no thread.
    pub(super) fn start(&mut self, key: Key, file: &File, call: Call, pieces: &[Piece]) -> Result<(), Errno> {
        self.start_threads()?;
        let mut state = self.shared.lock();
        let mut sent = state.spare.pop().unwrap_or_default();
        sent.0.extend_from_slice(pieces);
        state.queue.push_back(Job { key, file: file.clone(), call, pieces: sent });
        drop(state);
        self.shared.queued.notify_one();
        Ok(())
    }

    /// Ends a job that has not begun; says whether there was one.
    pub(super) fn cancel(&mut self, key: Key) -> bool {
        if self.threads.is_empty() {
            return false;
        }
        let mut state = self.shared.lock();
        let Some(at) = state.queue.iter().position(|job| job.key == key) else { return false };
        let job = state.queue.remove(at);
        drop(state);
        job.is_some()
    }

    /// Takes what has been finished.
    pub(super) fn collect(&mut self, ready: &mut Vec<Completion>) {
        if !self.threads.is_empty() {
            let mut state = self.shared.lock();
            let finished = state.finished.drain(..);
            ready.extend(finished.map(|(key, result)| Completion {
                key,
                event: Event::Done(result),
                more: false,
            }));
        }
    }

    fn start_threads(&mut self) -> Result<(), Errno> {
        while self.threads.len() < THREADS {
            let shared = self.shared.clone();
            let name = format!("transload-file-{}", self.threads.len());
            match thread::Builder::new().name(name).spawn(move || shared.work()) {
                Ok(thread) => self.threads.push(thread),
                // One thread does it all then, and the next job asks for another again.
                Err(_) if !self.threads.is_empty() => break,
                Err(error) => return Err(Errno::from_io_error(&error).unwrap_or(Errno::AGAIN)),
            }
        }
        Ok(())
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.is_closing = true;
        let unbegun = std::mem::take(&mut state.queue);
        drop(state);
        drop(unbegun);
        self.shared.queued.notify_all();
        for thread in self.threads.drain(..) {
            // One that panicked makes no call any more either.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a thread does.
    fn work(&self) {
        let mut vectors = Vectors::default();
        let mut state = self.lock();
        loop {
            if let Some(Job { key, file, call, mut pieces }) = state.queue.pop_front() {
                drop(state);
                let result = perform(call, &file, &pieces.0, &mut vectors);
                pieces.0.clear();
                // Let go before anybody knows, so that the last handle of a caller closes the file.
                drop(file);
                state = self.lock();
                state.finished.push((key, result));
                state.spare.push(pieces);
                drop(state);
                self.bell.ring();
                state = self.lock();
            } else if state.is_closing {
                return;
            } else {
                state = self.queued.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

fn perform(call: Call, file: &File, pieces: &[Piece], vectors: &mut Vectors) -> Result<usize, Errno> {
    retry_on_intr(|| match call {
        Call::Read { offset } => read_at(file, pieces, offset, vectors),
        Call::Write { offset } => write_at(file, pieces, offset, vectors),
        Call::Sync { data_only: true } => sync_data(file).map(|()| 0),
        Call::Sync { data_only: false } => fsync(file).map(|()| 0),
    })
}

#[cfg(not(target_os = "solaris"))]
fn read_at(file: &File, pieces: &[Piece], offset: u64, vectors: &mut Vectors) -> Result<usize, Errno> {
    vectors.written_by(pieces, |slices| rustix::io::preadv(file.as_fd(), slices, offset))
}

#[cfg(not(target_os = "solaris"))]
fn write_at(file: &File, pieces: &[Piece], offset: u64, vectors: &mut Vectors) -> Result<usize, Errno> {
    vectors.read_by(pieces, |slices| rustix::io::pwritev(file.as_fd(), slices, offset))
}

/// Without `preadv(2)`: one piece, and the next in the next attempt.
#[cfg(target_os = "solaris")]
fn read_at(file: &File, pieces: &[Piece], offset: u64, vectors: &mut Vectors) -> Result<usize, Errno> {
    vectors.written_by(pieces, |slices| match slices.iter_mut().find(|slice| !slice.is_empty()) {
        Some(slice) => rustix::io::pread(file.as_fd(), &mut **slice, offset),
        None => Ok(0),
    })
}

#[cfg(target_os = "solaris")]
fn write_at(file: &File, pieces: &[Piece], offset: u64, vectors: &mut Vectors) -> Result<usize, Errno> {
    vectors.read_by(pieces, |slices| match slices.iter().find(|slice| !slice.is_empty()) {
        Some(slice) => rustix::io::pwrite(file.as_fd(), slice, offset),
        None => Ok(0),
    })
}

#[cfg(not(target_vendor = "apple"))]
fn sync_data(file: &File) -> Result<(), Errno> {
    rustix::fs::fdatasync(file)
}

/// There is no `fdatasync(2)`.
#[cfg(target_vendor = "apple")]
fn sync_data(file: &File) -> Result<(), Errno> {
    fsync(file)
}
