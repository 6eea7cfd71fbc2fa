//! The way for bytes that are no whole words.
//!
//! Between buffers, a copy is of whole words. Between a buffer and a texture, it begins at any multiple of a pixel's size;
//! so bytes at the edges of a range go to the device queue by way of a texture whose pixels are bytes, and nothing beside
//! them is written.

use objc2::rc::{Retained, autoreleasepool};
use objc2::runtime::ProtocolObject;
use objc2_metal::{
    MTLDevice, MTLOrigin, MTLPixelFormat, MTLSize, MTLStorageMode, MTLTexture, MTLTextureDescriptor,
};

use super::codes;
use super::rules::WORD;
use crate::device::DeviceError;

/// A texture with room for both edges of a range. Transfers that use the same one wait for each other: Metal orders the
/// commands that name a resource of the device.
#[derive(Debug)]
pub(super) struct EdgeTexture(Retained<ProtocolObject<dyn MTLTexture>>);

// SAFETY: Apple documents that textures may be used from any thread; references to them are counted atomically. What is in it
// is reached by commands only.
unsafe impl Send for EdgeTexture {}

impl EdgeTexture {
    pub(super) fn new(device: &ProtocolObject<dyn MTLDevice>) -> Result<Self, DeviceError> {
        autoreleasepool(|_| {
            // SAFETY: width and height are within the limits of every device.
            let descriptor = unsafe {
                MTLTextureDescriptor::texture2DDescriptorWithPixelFormat_width_height_mipmapped(
                    MTLPixelFormat::R8Uint,
                    2 * WORD,
                    1,
                    false,
                )
            };
            descriptor.setStorageMode(MTLStorageMode::Private);
            let texture = device.newTextureWithDescriptor(&descriptor);
            texture.map(Self).ok_or_else(|| codes::nil("newTextureWithDescriptor:"))
        })
    }

    pub(super) fn native(&self) -> &ProtocolObject<dyn MTLTexture> {
        &self.0
    }
}

/// Where in the texture the edge before the words is (0), or that behind them (1).
pub(super) fn origin(edge: usize) -> MTLOrigin {
    MTLOrigin { x: edge * WORD, y: 0, z: 0 }
}

/// What so many bytes are in the texture.
pub(super) fn size(len_bytes: usize) -> MTLSize {
    MTLSize { width: len_bytes, height: 1, depth: 1 }
}
