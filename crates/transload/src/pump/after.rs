//! What is done with messages once they are on the device.

use std::io;

use super::Sink;
use super::through_kernel::ThroughKernel;
use crate::device::Landing;

/// What is done with messages once they are on the device.
#[derive(Default)]
pub(super) enum After {
    /// Nothing: they are delivered when they have landed.
    #[default]
    Nothing,
    /// They are read back, and delivered when a sink has taken them.
    ReadBack(ReadBack),
    /// They go through a kernel with the copy, and are delivered when a sink has taken what it made of them.
    Kernel(ThroughKernel),
}

/// Brings back what has landed.
pub(super) struct ReadBack {
    pub(super) sink: Box<dyn Sink>,
    /// Memory for downloads that is not in use.
    pub(super) landings: Vec<Landing>,
}

impl After {
    /// The kernel, if that is what is done.
    pub(super) fn kernel(&mut self) -> Option<&mut ThroughKernel> {
        match self {
            Self::Kernel(kernel) => Some(kernel),
            _ => None,
        }
    }

    /// Memory for downloads, if messages are read back.
    pub(super) fn landings(&mut self) -> Option<&mut Vec<Landing>> {
        match self {
            Self::ReadBack(read_back) => Some(&mut read_back.landings),
            _ => None,
        }
    }

    /// Tells whoever waits for them that so many messages will not come.
    pub(super) fn lost(&mut self, messages: usize) {
        match self {
            Self::Nothing => {}
            Self::ReadBack(read_back) => read_back.sink.lost(messages),
            Self::Kernel(through) => through.sink.lost(messages),
        }
    }

    /// Tells whoever waits that nothing more will come.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        match self {
            Self::Nothing => Ok(()),
            Self::ReadBack(read_back) => read_back.sink.finish(),
            Self::Kernel(through) => through.sink.finish(),
        }
    }
}
