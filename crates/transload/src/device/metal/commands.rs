//! What is put into a command queue: a command buffer for each transfer.

use std::ops::Range;

use objc2::rc::{Retained, autoreleasepool};
use objc2::runtime::ProtocolObject;
use objc2_foundation::NSRange;
use objc2_metal::{
    MTLBlitCommandEncoder, MTLCommandBuffer, MTLCommandBufferError, MTLCommandBufferStatus,
    MTLCommandEncoder, MTLCommandQueue, MTLSharedEvent,
};

use super::buffer::Buffer;
use super::codes;
use super::edges::{self, EdgeTexture};
use super::rules::{self, Ended};
use crate::device::DeviceError;

/// A command queue. It may be used from any thread.
pub(super) type Queue = Retained<ProtocolObject<dyn MTLCommandQueue>>;

/// An event whose value grows with the transfers of a stream. It may be used from any thread.
pub(super) type SharedEvent = Retained<ProtocolObject<dyn MTLSharedEvent>>;

const _: () = {
    assert!(MTLCommandBufferStatus::Completed.0 == rules::COMPLETED);
    assert!(MTLCommandBufferStatus::Error.0 == rules::ERROR);
    assert!(MTLCommandBufferError::DeviceRemoved.0.cast_signed() == rules::DEVICE_REMOVED);
};

/// The commands of one transfer, which the device has. They hold a reference to each buffer that they name until they have
/// ended, whether this exists or not.
#[derive(Debug)]
pub(super) struct Commands(Retained<ProtocolObject<dyn MTLCommandBuffer>>);

// SAFETY: a command buffer may be used by any thread, one at a time. This is its only handle, it cannot be cloned, and it is
// not `Sync`.
unsafe impl Send for Commands {}

impl Commands {
    /// Hands to the device what the passes encode; behind it the event gets the value. What a pass names that one before it
    /// has written is read when that is done. An error means that the device was given nothing.
    pub(super) fn commit(
        queue: &Queue,
        event: &SharedEvent,
        value: u64,
        passes: &[&dyn Fn(&Blits)],
    ) -> Result<Self, DeviceError> {
        // What Metal creates here is also in the pool of the thread, which nobody else may ever empty.
        autoreleasepool(|_| {
            let commands = queue.commandBuffer().ok_or_else(|| codes::nil("commandBuffer"))?;
            for encode in passes {
                let encoder =
                    commands.blitCommandEncoder().ok_or_else(|| codes::nil("blitCommandEncoder"))?;
                let blits = Blits(encoder);
                encode(&blits);
                blits.0.endEncoding();
            }
            commands.encodeSignalEvent_value(ProtocolObject::from_ref(&**event), value);
            commands.commit();
            Ok(Self(commands))
        })
    }

    /// How they ended; `None` while they have not. Never blocks.
    pub(super) fn ended(&self) -> Option<Ended> {
        rules::judge(self.0.status().0, || {
            autoreleasepool(|_| {
                self.0.error().map(|error| (error.code(), error.localizedDescription().to_string()))
            })
        })
    }
}

/// Takes copies and fills, to be made by the device.
pub(super) struct Blits(Retained<ProtocolObject<dyn MTLBlitCommandEncoder>>);

impl Blits {
    /// Copies from one buffer to another.
    ///
    /// # Safety
    ///
    /// Both ranges lie within their buffers, and offsets and length are of whole words. Until the commands have ended, nobody
    /// but processes that lie writes the source, which is initialised, and nobody touches the target.
    pub(super) unsafe fn copy(
        &self,
        (source, from): (&Buffer, usize),
        (target, to): (&Buffer, usize),
        len_bytes: usize,
    ) {
        // SAFETY: by this function's contract; the commands keep both buffers there.
        unsafe {
            self.0.copyFromBuffer_sourceOffset_toBuffer_destinationOffset_size(
                source.native(),
                from,
                target.native(),
                to,
                len_bytes,
            );
        }
    }

    /// Copies bytes from a buffer to the place of an edge in a texture.
    ///
    /// # Safety
    ///
    /// As for [`copy`](Blits::copy), of any offset, and of fewer bytes than a word has, at least one.
    pub(super) unsafe fn copy_to_edge(
        &self,
        (source, from): (&Buffer, usize),
        (texture, edge): (&EdgeTexture, usize),
        len_bytes: usize,
    ) {
        // SAFETY: by this function's contract; the commands keep both there, and the texture has room for both edges.
        unsafe {
            self.0.copyFromBuffer_sourceOffset_sourceBytesPerRow_sourceBytesPerImage_sourceSize_toTexture_destinationSlice_destinationLevel_destinationOrigin(
                source.native(),
                from,
                len_bytes,
                len_bytes,
                edges::size(len_bytes),
                texture.native(),
                0,
                0,
                edges::origin(edge),
            );
        }
    }

    /// Copies bytes from the place of an edge in a texture to a buffer.
    ///
    /// # Safety
    ///
    /// As for [`copy_to_edge`](Blits::copy_to_edge).
    pub(super) unsafe fn copy_from_edge(
        &self,
        (texture, edge): (&EdgeTexture, usize),
        (target, to): (&Buffer, usize),
        len_bytes: usize,
    ) {
        // SAFETY: as above.
        unsafe {
            self.0.copyFromTexture_sourceSlice_sourceLevel_sourceOrigin_sourceSize_toBuffer_destinationOffset_destinationBytesPerRow_destinationBytesPerImage(
                texture.native(),
                0,
                0,
                edges::origin(edge),
                edges::size(len_bytes),
                target.native(),
                to,
                len_bytes,
                len_bytes,
            );
        }
    }

    /// Fills a range of a buffer with a byte. The range lies within the buffer and is of whole words, or the driver stops the
    /// program.
    pub(super) fn fill(&self, target: &Buffer, range: Range<usize>, byte: u8) {
        self.0.fillBuffer_range_value(target.native(), NSRange::from(range), byte);
    }
}
