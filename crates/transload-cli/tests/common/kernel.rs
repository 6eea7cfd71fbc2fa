//! Kernels for tests: the examples, and others.
#![allow(clippy::unwrap_used, reason = "what fails in a helper of a test fails the test")]

use std::path::Path;

use super::arg;

/// A file in the folder of examples, or a kernel in one, by its name there.
pub(crate) fn example(name: &str) -> String {
    arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name))
}

/// Writes a kernel into a folder: `FILE:NAME`, as the option takes it.
pub(crate) fn write_kernel(folder: &Path, kernel: &str, code: impl AsRef<[u8]>) -> String {
    let (file, _) = kernel.rsplit_once(':').unwrap();
    std::fs::write(folder.join(file), code).unwrap();
    arg(folder.join(kernel))
}

/// What the kernel `fnv1a` of the examples makes of a message.
pub(crate) fn fnv1a(message: &[u8]) -> u64 {
    message
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
