//! A transfer that the driver has, and how it ends.

use cudarc::driver::sys::{CUdeviceptr, CUstream};

use super::codes::Failure;
use super::context::Current;
use super::gather;
use super::memory::{Event, Handle};
use super::pinned::Allocation;
use super::ranges::Hold;
use crate::device::{Kernel, Ticket, Transfer};

/// What is put into a stream for one transfer, one call after another.
#[derive(Debug)]
pub(super) struct Enqueue<'a> {
    cuda: &'a Current<'a>,
    stream: CUstream,
    /// Whether the driver has taken anything.
    any: bool,
    refused: Option<Failure>,
}

impl<'a> Enqueue<'a> {
    pub(super) fn new(cuda: &'a Current<'a>, stream: CUstream) -> Self {
        Self { cuda, stream, any: false, refused: None }
    }

    /// Makes a call, unless one before it was refused: then further ones are of no use.
    pub(super) fn call(&mut self, call: impl FnOnce(&Current<'_>, CUstream) -> Result<(), Failure>) {
        if self.refused.is_none() {
            match call(self.cuda, self.stream) {
                Ok(()) => self.any = true,
                Err(failure) => self.refused = Some(failure),
            }
        }
    }

    /// Copies pinned memory to the device.
    ///
    /// # Safety
    ///
    /// The bytes are pinned, and nobody writes them until the transfer has ended; there is room for them on the device.
    pub(super) unsafe fn upload(&mut self, source: *const u8, len_bytes: usize, to: CUdeviceptr) {
        self.call(|cuda, stream| {
            // SAFETY: by this function's contract.
            unsafe { cuda.copy_to_device(to, source.cast(), len_bytes, stream) }
        });
    }

    /// Copies from the device to pinned memory, in as many parts as that is registered in, or as one.
    ///
    /// # Safety
    ///
    /// The bytes on the device are there, and nobody touches the target until the transfer has ended.
    pub(super) unsafe fn download(
        &mut self,
        from: CUdeviceptr,
        target: *mut u8,
        len_bytes: usize,
        hold: Option<&Hold>,
    ) {
        let mut copy = |part: *mut u8, len_bytes| {
            let from = from + (part.addr() - target.addr()) as u64;
            self.call(|cuda, stream| {
                // SAFETY: by this function's contract.
                unsafe { cuda.copy_to_host(part.cast(), from, len_bytes, stream) }
            });
        };
        match hold {
            None => copy(target, len_bytes),
            Some(hold) => {
                hold.cut(target, len_bytes).for_each(|(part, len_bytes)| copy(part.cast_mut(), len_bytes));
            }
        }
    }

    /// Whether the transfer can be handed back, for nothing of it was taken; else what was refused of it, if anything.
    pub(super) fn end(self) -> Result<Option<Failure>, Failure> {
        match self.refused {
            Some(failure) if !self.any => Err(failure),
            refused => Ok(refused),
        }
    }
}

/// A transfer that the driver has. Its memory is the driver's until it has ended (I1, I2).
#[derive(Debug)]
pub(super) struct InFlight {
    pub(super) ticket: Ticket,
    pub(super) transfer: Transfer,
    /// Recorded behind the transfer. Nothing while the driver refuses to: it is tried again by each poll.
    pub(super) event: Option<Handle<Event>>,
    /// What the driver has refused of it after it had taken something, or has said of it before it had ended.
    pub(super) failure: Option<Failure>,
    /// What the driver reads instead of an upload's own pieces.
    pub(super) gathered: Option<Allocation>,
    /// What the driver writes instead of the landing.
    pub(super) landing: Option<Allocation>,
    /// Its code stays loaded while it may run.
    pub(super) kernel: Option<Kernel>,
}

/// How a transfer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// All of it succeeded.
    Landed,
    /// It has ended, and not all succeeded.
    Failed(Failure),
    /// The driver cannot say.
    Unknown(Failure),
}

impl InFlight {
    /// How it ended; `None` while it has not. `stream` is the one that it is in.
    pub(super) fn ended(&mut self, cuda: &Current<'_>, stream: CUstream) -> Option<Ended> {
        let event = self.event.as_ref()?;
        // SAFETY: the event is there.
        let asked = unsafe { cuda.event_query(event.raw()) };
        judge(&mut self.failure, asked, || {
            // SAFETY: the stream is there.
            unsafe { cuda.stream_query(stream) }
        })
    }

    /// Never ends what the driver may still use.
    pub(super) fn leak(&mut self) {
        if let Some(event) = &mut self.event {
            event.leak();
        }
        gather::leak(self.gathered.take());
        gather::leak(self.landing.take());
        let _stays_loaded = std::mem::ManuallyDrop::new(self.kernel.take());
    }
}

/// Judges a transfer by the answer about its event. An error that is no loss may be of something else: then `stream` says
/// whether anything is left to be done. It is kept in `failed`: the driver may tell it once only.
fn judge(
    failed: &mut Option<Failure>,
    event: Result<(), Failure>,
    stream: impl FnOnce() -> Result<(), Failure>,
) -> Option<Ended> {
    match event {
        Ok(()) => Some(failed.map_or(Ended::Landed, Ended::Failed)),
        Err(failure) if failure.is_not_ready() => None,
        Err(failure) if failure.is_loss() || failure.is_forked() => Some(Ended::Unknown(failure)),
        Err(failure) => {
            let failure = *failed.get_or_insert(failure);
            match stream() {
                Ok(()) => Some(Ended::Failed(failure)),
                Err(other) if other.is_not_ready() => None,
                Err(other) => Some(Ended::Unknown(other)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(code: u32) -> Result<(), Failure> {
        Failure::check("cuCall", code)
    }

    #[test]
    fn a_transfer_has_ended_when_the_driver_says_so() {
        let unasked = || panic!("the stream need not be asked");
        assert_eq!(judge(&mut None, Ok(()), unasked), Some(Ended::Landed));
        assert_eq!(judge(&mut None, failure(600), unasked), None);
        let refused = failure(2).unwrap_err();
        assert_eq!(judge(&mut Some(refused), failure(600), unasked), None, "the rest of it is still read");
        assert_eq!(judge(&mut Some(refused), Ok(()), unasked), Some(Ended::Failed(refused)));
        for code in [4, 700, 719, 999] {
            let lost = failure(code).unwrap_err();
            assert_eq!(judge(&mut None, Err(lost), unasked), Some(Ended::Unknown(lost)));
        }
    }

    #[test]
    fn an_error_is_believed_when_nothing_is_left_to_do() {
        let error = failure(1).unwrap_err();
        assert_eq!(judge(&mut None, Err(error), || Ok(())), Some(Ended::Failed(error)));
        let other = failure(400).unwrap_err();
        assert_eq!(judge(&mut None, Err(error), || Err(other)), Some(Ended::Unknown(other)));
    }

    #[test]
    fn an_error_that_is_told_once_is_not_forgotten() {
        let (error, mut failed) = (failure(1).unwrap_err(), None);
        assert_eq!(judge(&mut failed, Err(error), || failure(600)), None);
        let unasked = || panic!("the stream need not be asked");
        assert_eq!(judge(&mut failed, Ok(()), unasked), Some(Ended::Failed(error)));
    }
}
