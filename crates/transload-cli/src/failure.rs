//! What went wrong: its kind, its text, what to do, and the exit code.

use serde::Serialize;
use transload::device::DeviceError;
use transload::memory::SlabError;
use transload::pump::PumpError;
use transload::region::RegisterError;
#[cfg(target_os = "linux")]
use transload::shared::handover::HandoverError;
#[cfg(target_os = "linux")]
use transload::shared::{ConsumerError, JoinError, SharedError};
use transload::staging::StagingError;

/// Exit codes, as the help states them.
pub(crate) mod exit {
    pub(crate) const OK: u8 = 0;
    pub(crate) const FAILURE: u8 = 1;
    pub(crate) const USAGE: u8 = 2;
    pub(crate) const DROPPED: u8 = 3;
    pub(crate) const ABSENT: u8 = 4;
}

/// Which device takes which kernels.
const KERNEL_DEVICES: &str = "--to opencl takes .cl, --to vulkan takes .spv, --to cuda takes .ptx and .cu";

/// The most bytes of output that are advised to be made room for.
const MOST_ADVISED: u32 = 1 << 30;

/// Why a command failed.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Failure {
    /// A word that programs can rely on.
    pub(crate) kind: &'static str,
    pub(crate) message: String,
    /// What to do about it, if that is not in the message.
    pub(crate) fix: Option<String>,
    #[serde(skip)]
    pub(crate) exit: u8,
}

impl Failure {
    pub(crate) fn new(kind: &'static str, message: impl ToString) -> Self {
        Self { kind, message: message.to_string(), fix: None, exit: exit::FAILURE }
    }

    pub(crate) fn usage(message: impl ToString) -> Self {
        Self { exit: exit::USAGE, ..Self::new("usage", message) }
    }

    pub(crate) fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }
}

impl From<SlabError> for Failure {
    fn from(error: SlabError) -> Self {
        let failure = Self::new("memory", &error);
        match error {
            SlabError::NoHugePages { .. } | SlabError::NoTransparentPages { .. } => {
                Self { exit: exit::ABSENT, ..failure }.fix("reserve such pages, or use --pages-policy prefer")
            }
            SlabError::UnknownNode { .. } => {
                Self { exit: exit::ABSENT, ..failure }.fix("transload doctor shows the nodes that there are")
            }
            SlabError::LockRefused(_) => failure.fix("raise the limit, or use --lock prefer"),
            SlabError::OutOfMemory { .. } | SlabError::TooLarge { .. } => failure.fix(
                "use a smaller --capacity, --message-size, --batch-bytes, --output-bytes or --in-flight",
            ),
            _ => failure,
        }
    }
}

impl From<StagingError> for Failure {
    fn from(error: StagingError) -> Self {
        match error {
            StagingError::Slab(error) => error.into(),
            error => Self::usage(error),
        }
    }
}

impl From<DeviceError> for Failure {
    fn from(error: DeviceError) -> Self {
        match error {
            DeviceError::Unavailable { .. } | DeviceError::NoSuchDevice { .. } => {
                Self { exit: exit::ABSENT, ..Self::new("unavailable", error) }
                    .fix("transload doctor shows the devices that there are; --to host needs none")
            }
            DeviceError::Slab(error) => error.into(),
            DeviceError::Unsupported { .. } => {
                Self { exit: exit::ABSENT, ..Self::new("unavailable", error) }.fix(KERNEL_DEVICES)
            }
            DeviceError::OtherLanguage { .. } => Self::new("kernel", error).fix(KERNEL_DEVICES),
            DeviceError::Build { .. } | DeviceError::NoSuchKernel { .. } | DeviceError::OtherKernel { .. } => {
                Self::new("kernel", error)
            }
            DeviceError::Register(RegisterError::NotDirect { .. }) => {
                Self { exit: exit::ABSENT, ..Self::new("registration", error) }
                    .fix("leave --require-pinned out, or name a device that transload doctor shows as pinned or mapped")
            }
            DeviceError::QueueTooLarge { .. } => {
                Self::new("device", error).fix("use a smaller --batch-bytes, --in-flight, --output-bytes or --message-size")
            }
            error => Self::new("device", error),
        }
    }
}

#[cfg(target_os = "linux")]
impl From<HandoverError> for Failure {
    fn from(error: HandoverError) -> Self {
        match error {
            HandoverError::Region { source: SharedError::Memory(error), .. } => error.into(),
            HandoverError::InUse { .. } => Self::new("in-use", error),
            error => Self::new("region", error),
        }
    }
}

#[cfg(target_os = "linux")]
impl From<JoinError> for Failure {
    fn from(error: JoinError) -> Self {
        Self::new("region", error)
    }
}

#[cfg(target_os = "linux")]
impl From<ConsumerError> for Failure {
    fn from(error: ConsumerError) -> Self {
        let kind = if matches!(error, ConsumerError::InUse { .. }) { "in-use" } else { "region" };
        Self::new(kind, error)
    }
}

impl From<PumpError> for Failure {
    fn from(error: PumpError) -> Self {
        match error {
            PumpError::Device(error) => error.into(),
            PumpError::Sink(_) => Self::new("write", error).fix("free some room, or write somewhere else"),
            #[cfg(target_os = "linux")]
            PumpError::Shared(_) => Self::new("region", error),
            PumpError::OutputTooLong { length, .. } if length <= MOST_ADVISED => {
                Self::new("kernel", error).fix(format!("use --output-bytes {}", length.next_multiple_of(4)))
            }
            PumpError::OutputTooLong { .. } => Self::new("kernel", error),
            error => Self::new("pump", error),
        }
    }
}

#[cfg(test)]
mod tests {
    use transload::region::Registration;

    use super::*;

    /// Whoever insists on memory that the device reaches is told how it would have been reached, and why.
    #[test]
    fn memory_that_is_not_pinned_is_a_feature_that_is_not_there() {
        let registration = Registration::Staged { reason: "the pointer is odd".to_owned() };
        let error = RegisterError::NotDirect { len_bytes: 4096, registration };
        let failure = Failure::from(PumpError::from(DeviceError::from(error)));
        assert_eq!((failure.kind, failure.exit), ("registration", exit::ABSENT));
        for words in ["4096 bytes", "staged (the pointer is odd)"] {
            assert!(failure.message.contains(words), "{failure:?}");
        }
        assert!(failure.fix.unwrap().contains("--require-pinned"));
    }
}
