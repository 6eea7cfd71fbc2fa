//! Handing one descriptor over each way.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use super::super::handover::socket;
use super::error::LaneError;

const FOR_EVER: Duration = Duration::from_secs(1 << 30);

/// What the producer says, with its memory.
pub(super) const OFFER: [u8; 8] = *b"TLlane\x01\x01";
/// What the consumer answers, with its own.
pub(super) const ANSWER: [u8; 8] = *b"TLlane\x01\x02";

pub(super) fn send(socket: &OwnedFd, what: [u8; 8], file: &OwnedFd) -> Result<(), LaneError> {
    socket::send(socket, &what, Some(file)).map_err(LaneError::os("sendmsg"))
}

/// One message with exactly one descriptor. All others are closed.
pub(super) fn receive(socket: &OwnedFd, what: [u8; 8], timeout: Duration) -> Result<OwnedFd, LaneError> {
    // Years are for ever.
    let until = Instant::now() + timeout.min(FOR_EVER);
    if !socket::wait(socket, until).map_err(LaneError::os("poll"))? {
        return Err(LaneError::TimedOut);
    }
    let mut bytes = [0; 8];
    let mut received = socket::receive(socket, &mut bytes).map_err(LaneError::os("recvmsg"))?;
    let found = received.descriptors.len();
    match received.descriptors.pop() {
        None if received.bytes == 0 => Err(LaneError::HungUp),
        _ if received.bytes != what.len() || bytes != what => {
            Err(LaneError::Strange { found: received.bytes })
        }
        Some(file) if found == 1 && !received.is_cut => Ok(file),
        _ => Err(LaneError::Descriptors { found }),
    }
}
