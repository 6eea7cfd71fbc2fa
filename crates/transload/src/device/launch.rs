//! A batch on its way through a kernel.

use super::{Device, DeviceError, Landing, Stream, Upload};

/// How long an output is that does not exist: the kernel has dropped its message.
pub const DROPPED: u32 = u32::MAX;

/// Outputs begin at a multiple of this behind the lengths: storage buffers of all devices may begin there.
const ALIGNMENT: usize = 256;

/// Host memory for the outputs of one batch: for each message a place of the same size, and a word that says how many bytes
/// of it are the output.
#[derive(Debug)]
pub struct Output {
    landing: Landing,
    messages: usize,
    place_bytes: usize,
}

impl Output {
    /// For at most so many messages, and at most so many bytes for each: at least one, and a multiple of 4.
    ///
    /// # Errors
    ///
    /// [`DeviceError::ZeroOption`], [`DeviceError::Misaligned`], or what [`Landing::new`] says.
    pub fn new(device: &dyn Device, messages: usize, output_bytes: usize) -> Result<Self, DeviceError> {
        if output_bytes == 0 {
            return Err(DeviceError::ZeroOption { what: "output_bytes" });
        }
        if !output_bytes.is_multiple_of(4) {
            return Err(DeviceError::Misaligned { offset: output_bytes, multiple: 4 });
        }
        let layout = OutputLayout::new(messages, output_bytes);
        let wanted = layout.len_bytes().ok_or(DeviceError::QueueTooLarge {
            wanted: u64::MAX,
            available: device.info().max_allocation_bytes,
        })?;
        Ok(Self { landing: Landing::new(device, wanted)?, messages, place_bytes: output_bytes })
    }

    /// The most bytes for each message.
    pub fn output_bytes(&self) -> usize {
        self.place_bytes
    }

    /// Where the outputs of so many messages lie.
    pub fn layout(&self, messages: usize) -> OutputLayout {
        OutputLayout::new(messages, self.place_bytes)
    }
}

/// Where the outputs of one batch lie, on the device and in the memory that they come back to: first a word for each
/// message, the length of its output, and behind that, aligned to 256 bytes, the outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputLayout {
    messages: usize,
    output_bytes: usize,
}

impl OutputLayout {
    fn new(messages: usize, output_bytes: usize) -> Self {
        Self { messages, output_bytes }
    }

    /// The most bytes for each message.
    pub fn output_bytes(self) -> usize {
        self.output_bytes
    }

    /// Where the first output begins.
    pub fn outputs_at(self) -> usize {
        (self.messages * 4).next_multiple_of(ALIGNMENT)
    }

    /// All of it; nothing if that is more than memory can have.
    pub fn len_bytes(self) -> Option<usize> {
        let lengths = self.messages.checked_mul(4)?.checked_next_multiple_of(ALIGNMENT)?;
        self.messages.checked_mul(self.output_bytes)?.checked_add(lengths)
    }
}

/// A batch on its way through a kernel, and back.
///
/// Before the kernel runs, each length is set to the whole of `output_bytes`: a kernel that always fills its output need
/// not say so.
#[derive(Debug)]
pub struct Launch {
    upload: Upload,
    output: Output,
    prefix_bytes: u32,
    route: Route,
}

impl Launch {
    /// The batch, with its place in the device queue, and the memory that the outputs come back to. `prefix_bytes` is what
    /// stands in front of each payload, for the kernel to know: 0, or the 4 bytes of its length.
    pub fn new(upload: Upload, output: Output, prefix_bytes: u32) -> Self {
        Self { upload, output, prefix_bytes, route: Route::Copied }
    }

    /// The batch.
    pub fn upload(&self) -> &Upload {
        &self.upload
    }

    /// Bytes in front of each payload.
    pub fn prefix_bytes(&self) -> u32 {
        self.prefix_bytes
    }

    /// Where its outputs lie.
    pub fn layout(&self) -> OutputLayout {
        self.output.layout(self.upload.messages())
    }

    /// The memory that the outputs come back to, for back ends: as long as [`layout`](Launch::layout) says.
    pub fn landing_mut(&mut self) -> &mut Landing {
        &mut self.output.landing
    }

    /// How the kernel has read the messages.
    pub fn route(&self) -> Route {
        self.route
    }

    /// Notes how the kernel reads the messages, for back ends.
    pub fn set_route(&mut self, route: Route) {
        self.route = route;
    }

    /// The batch, and the memory that the outputs come back to, for back ends that use both at once.
    pub fn parts_mut(&mut self) -> (&Upload, &mut Landing) {
        (&self.upload, &mut self.output.landing)
    }

    /// Refuses what every back end refuses; `holds` says whether a region is of the stream's own device.
    ///
    /// # Errors
    ///
    /// As [`Upload::check`], and [`DeviceError::Prefix`], [`DeviceError::OutputTooSmall`].
    pub fn check(
        &self,
        stream: &dyn Stream,
        holds: impl Fn(&crate::region::Region) -> bool,
    ) -> Result<(), DeviceError> {
        if !self.output.landing.region().access().writes() || !holds(self.output.landing.region()) {
            return Err(DeviceError::NotRegistered { purpose: "writing" });
        }
        // Kernels take the one from the other, and believe what is left.
        let (prefix_bytes, message_size) = (self.prefix_bytes, self.upload.payload().message_size());
        if prefix_bytes != 0 && (prefix_bytes != 4 || message_size < 4) {
            return Err(DeviceError::Prefix { prefix_bytes, message_size });
        }
        let (needed, available) = (self.upload.messages(), self.output.messages);
        if needed > available {
            return Err(DeviceError::OutputTooSmall { needed, available });
        }
        self.upload.check(stream, holds(self.upload.region()))
    }

    /// The outputs, in the order of the messages. Of use once the launch has succeeded.
    pub fn replies(&self) -> impl Iterator<Item = Reply<'_>> {
        let bytes = self.output.landing.as_slice();
        let (lengths, outputs) = bytes.split_at(self.layout().outputs_at());
        let (lengths, _) = lengths.as_chunks::<4>();
        let outputs = outputs.chunks_exact(self.output.place_bytes);
        lengths.iter().zip(outputs).take(self.upload.messages()).map(|(length, output)| {
            match u32::from_le_bytes(*length) {
                DROPPED => Reply::Dropped,
                length => match usize::try_from(length).ok().and_then(|length| output.get(..length)) {
                    Some(output) => Reply::Output(output),
                    None => Reply::TooLong { length, output_bytes: output.len() },
                },
            }
        })
    }

    /// Gives batch and memory back.
    pub fn into_parts(self) -> (Upload, Output) {
        (self.upload, self.output)
    }

    /// Keeps all memory and its registrations for ever: for back ends whose device may still use it.
    pub fn quarantine(self) {
        self.upload.quarantine();
        self.output.landing.quarantine();
    }
}

/// What a kernel has made of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// Its output.
    Output(&'a [u8]),
    /// Nothing, on purpose.
    Dropped,
    /// A fault of the kernel's: it claims to have written more than there was room for.
    TooLong {
        /// What it claims.
        length: u32,
        /// The room.
        output_bytes: usize,
    },
}

/// How a kernel reaches the messages of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Route {
    /// They are copied into the device queue first.
    Copied,
    /// It reads them where they are, in host memory.
    Mapped,
}
