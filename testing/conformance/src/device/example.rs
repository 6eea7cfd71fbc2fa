//! The examples of kernels, and what they must answer.

use std::path::{Path, PathBuf};

use transload::device::KernelSource;
use transload::device::host::HostKernel;

use crate::queues::{self, TURN};

/// A kernel of the folder `examples`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Example {
    /// FNV-1a of each message.
    Checksum,
    /// Messages whose first byte is even.
    Filter,
    /// From one queue on the device to another.
    Echo,
}

impl Example {
    /// The name of the function.
    pub fn entry(self) -> &'static str {
        match self {
            Self::Checksum => "fnv1a",
            Self::Filter => "keep_even",
            Self::Echo => "echo",
        }
    }

    /// Its file, of the language whose names end so.
    pub fn path(self, extension: &str) -> PathBuf {
        let name = match self {
            Self::Checksum => "checksum",
            Self::Filter => "filter",
            Self::Echo => "echo",
        };
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name).with_extension(extension)
    }

    /// The kernel, in the language whose files end so.
    pub fn source(self, extension: &str) -> KernelSource {
        // SAFETY: the example keeps to its messages and outputs, or to its queues, which the suite has made.
        unsafe { KernelSource::open(&self.path(extension), self.entry()) }.unwrap()
    }

    /// What it must answer to a payload, with so much room; nothing for a message that it drops.
    pub fn answer(self, payload: &[u8], output_bytes: usize) -> Option<Vec<u8>> {
        match self {
            Self::Checksum => {
                let hash = payload.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                    (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
                });
                Some(hash.to_le_bytes().to_vec())
            }
            Self::Filter => {
                let keep = payload.first().is_some_and(|first| first % 2 == 0);
                keep.then(|| payload[..payload.len().min(output_bytes)].to_vec())
            }
            Self::Echo => Some(payload.iter().map(|byte| byte ^ TURN).collect()),
        }
    }

    /// The same as a function of the host.
    pub fn on_the_host(self) -> HostKernel {
        if self == Self::Echo {
            return queues::echo();
        }
        HostKernel::per_message(move |payload, output| {
            let answer = self.answer(payload, output.len())?;
            let room = output.len().min(answer.len());
            output[..room].copy_from_slice(&answer[..room]);
            Some(answer.len())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published test vectors of the function.
    #[test]
    fn the_checksum_is_fnv() {
        let hash = |text: &str| Example::Checksum.answer(text.as_bytes(), 8).unwrap();
        assert_eq!(hash(""), 0xcbf2_9ce4_8422_2325_u64.to_le_bytes());
        assert_eq!(hash("a"), 0xaf63_dc4c_8601_ec8c_u64.to_le_bytes());
        assert_eq!(hash("foobar"), 0x8594_4171_f739_67e8_u64.to_le_bytes());
    }
}
