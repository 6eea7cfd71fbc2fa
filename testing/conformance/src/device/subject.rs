//! What the suite runs on.

use std::fmt;

use transload::device::{Device, KernelSource, Stream, StreamOptions};

use super::example::Example;

use crate::skip::skip;
use crate::watchdog;

/// A back end, for the suite. Both functions say why they cannot, where they cannot.
#[derive(Clone, Copy, Debug)]
pub struct Subject {
    /// Its name.
    pub name: &'static str,
    /// Opens a device.
    pub open: fn() -> Result<Box<dyn Device>, String>,
    /// Opens a device and a stream of it whose copies a gate can hold.
    pub gated: fn(&StreamOptions) -> Result<Gated, String>,
    /// The examples in its own language.
    pub kernel: fn(Example) -> KernelSource,
}

/// A stream whose copies a gate can hold.
#[derive(Debug)]
pub struct Gated {
    /// The stream.
    pub stream: Box<dyn Stream>,
    /// Its device.
    pub device: Box<dyn Device>,
    /// The gate, open at first.
    pub gate: Box<dyn Gate>,
}

/// Holds copies that are submitted after it was closed.
pub trait Hold: Send + fmt::Debug {
    /// Holds what is submitted from now on.
    fn close(&mut self);
    /// Lets go what is held.
    fn open(&mut self);
}

/// Holds copies, and makes them fail. Opens when it is dropped.
pub trait Gate: Hold {
    /// Lets go what is held, and makes the first of it fail. What is behind that may fail as well.
    fn fail(&mut self);
}

/// One run of one case.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    subject: Subject,
    test: &'static str,
}

impl Run {
    /// A device of the subject.
    pub fn device(&self) -> Box<dyn Device> {
        (self.subject.open)().unwrap()
    }

    /// A gated stream of the subject.
    pub fn gated(&self, queue_bytes: usize, in_flight: usize) -> Gated {
        (self.subject.gated)(&StreamOptions { queue_bytes, in_flight }).unwrap()
    }

    /// The name of the subject.
    pub fn name(&self) -> &'static str {
        self.subject.name
    }

    /// An example in the subject's own language.
    pub fn kernel(&self, example: Example) -> KernelSource {
        (self.subject.kernel)(example)
    }

    /// The name of the test.
    pub fn test(&self) -> &'static str {
        self.test
    }

    /// Says that the rest of the case cannot run here.
    pub fn skip(&self, why: &str) {
        skip(self.test, why);
    }
}

/// Runs a case, bounded in time; skips it where the subject is not there.
pub fn run(subject: Subject, test: &'static str, case: fn(&Run)) {
    match (subject.open)() {
        Err(why) => skip(test, &why),
        Ok(_) => watchdog::watch(test, move || case(&Run { subject, test })),
    }
}
