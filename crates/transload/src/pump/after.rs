//! What is done with messages once they are on the device.

use std::io;

use super::Sink;
use super::flight::State;
use super::inbound::Inbound;
use super::through_kernel::ThroughKernel;
use crate::device::Landing;

/// What is done with messages once they are on the device.
pub(super) enum After {
    /// Nothing: they are delivered when they have landed.
    Nothing,
    /// They are read back, and delivered when a sink has taken them.
    ReadBack(ReadBack),
    /// They go through a kernel with the copy, and are delivered when a sink has taken what it made of them.
    Kernel(ThroughKernel),
    /// They lie in the slots of a queue on the device, and are delivered when its tail has passed them.
    Queue(Inbound),
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

    /// The queue on the device, if that is where they lie.
    pub(super) fn queue(&mut self) -> Option<&mut Inbound> {
        match self {
            Self::Queue(inbound) => Some(inbound),
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

    /// Takes back what a batch that has ended leaves behind, and gives its slots back to the producers.
    pub(super) fn let_go(&mut self, state: State) {
        match (state, self) {
            (State::Fetched(landing) | State::FetchAgain(landing), Self::ReadBack(read_back)) => {
                read_back.landings.push(landing);
            }
            (State::UploadAgain(upload), _) => upload.into_payload().done(),
            (State::LaunchAgain(launch), Self::Kernel(through)) => through.let_go(*launch),
            (State::Launched(launch), Self::Kernel(through)) => through.let_go(launch),
            _ => {}
        }
    }

    /// Tells whoever waits for them that so many messages will not come.
    pub(super) fn lost(&mut self, messages: usize) {
        match self {
            Self::Nothing | Self::Queue(_) => {}
            Self::ReadBack(read_back) => read_back.sink.lost(messages),
            Self::Kernel(through) => through.sink.lost(messages),
        }
    }

    /// Tells whoever waits that nothing more will come.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        match self {
            Self::Nothing | Self::Queue(_) => Ok(()),
            Self::ReadBack(read_back) => read_back.sink.finish(),
            Self::Kernel(through) => through.sink.finish(),
        }
    }
}
