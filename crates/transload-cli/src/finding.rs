//! What is found in a generated message: by the host, or by a kernel of the device that it is on.

#[cfg(test)]
use transload::device::host::HostKernel;
use transload::device::{Backend, Code, KernelSource};

/// The kernel in its languages.
const OPENCL: &str = include_str!("pattern/check.cl");
const PTX: &str = include_str!("pattern/check.ptx");
const SPIRV: &[u8] = include_bytes!("pattern/check.spv");

/// The name of the kernel.
const ENTRY: &str = "check_pattern";

/// What a kernel says of a message whose bytes are all right. Anything else is wrong, so that a place that nobody wrote is.
const RIGHT: u32 = 1;

/// What is found in a message: its first word, its length, and whether each byte follows from those.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// The first 8 bytes, or as many as there are.
    pub(crate) stamp: u64,
    pub(crate) len_bytes: usize,
    pub(crate) right: bool,
}

impl Finding {
    /// Bytes of a finding that a kernel writes: the stamp, the length, and the verdict.
    pub(crate) const BYTES: usize = 16;

    /// Looks at a message, on the host.
    pub(crate) fn of(message: &[u8]) -> Self {
        let mut first = [0; 8];
        let len = message.len().min(8);
        first[..len].copy_from_slice(&message[..len]);
        let stamp = u64::from_le_bytes(first);
        let mut words = message.chunks(8).zip(0..);
        let right = words.all(|(word, index)| *word == word_at(stamp, index)[..word.len()]);
        Self { stamp, len_bytes: message.len(), right }
    }

    /// Reads what a kernel has written; nothing if that is no finding.
    pub(crate) fn read(record: &[u8]) -> Option<Self> {
        let record: &[u8; Self::BYTES] = record.try_into().ok()?;
        let (stamp, rest) = record.split_first_chunk::<8>()?;
        let (len_bytes, verdict) = rest.split_first_chunk::<4>()?;
        let verdict = u32::from_le_bytes(verdict.try_into().ok()?);
        Some(Self {
            stamp: u64::from_le_bytes(*stamp),
            len_bytes: usize::try_from(u32::from_le_bytes(*len_bytes)).ok()?,
            right: verdict == RIGHT,
        })
    }

    /// The kernel for the devices of a back end; nothing if they run none that this program has.
    pub(crate) fn kernel(backend: Backend) -> Option<KernelSource> {
        let code = match backend {
            Backend::OpenCl => Code::OpenClC(OPENCL.to_owned()),
            Backend::Cuda => Code::Ptx(PTX.to_owned()),
            Backend::Vulkan => Code::SpirV(SPIRV.to_vec()),
            _ => return None,
        };
        // SAFETY: the program's own code: it reads its message, and writes a record of `BYTES`, for which there is room
        // wherever this program launches it.
        Some(unsafe { KernelSource::new(code, ENTRY) })
    }

    /// The same as a function of this process.
    #[cfg(test)]
    pub(crate) fn host_kernel() -> KernelSource {
        let find = HostKernel::per_message(|message, output| {
            let finding = Self::of(message);
            output[..8].copy_from_slice(&finding.stamp.to_le_bytes());
            output[8..12].copy_from_slice(&u32::try_from(message.len()).unwrap().to_le_bytes());
            output[12..16].copy_from_slice(&(if finding.right { RIGHT } else { 2 }).to_le_bytes());
            Some(Self::BYTES)
        });
        KernelSource::host(find, ENTRY)
    }
}

/// The word of a message at an index: the stamp itself, then its mixtures.
pub(crate) fn word_at(stamp: u64, index: u64) -> [u8; 8] {
    let word = if index == 0 {
        stamp
    } else {
        let mixed = (stamp ^ index).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        mixed ^ (mixed >> 32)
    };
    word.to_le_bytes()
}
