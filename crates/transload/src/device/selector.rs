//! Which device to open, by name.

use std::fmt;
use std::str::FromStr;

use super::Backend;

/// Which device to open: `auto`, or a back end and which of its devices, as in `opencl:1`.
///
/// ```
/// use transload::device::{Backend, Selector};
///
/// assert_eq!("auto".parse(), Ok(Selector::Auto));
/// assert_eq!("opencl:1".parse(), Ok(Selector::Device { backend: Backend::OpenCl, index: 1 }));
/// assert!("gpu".parse::<Selector>().is_err());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Selector {
    /// The first GPU that any back end has, else the host. Never a processor that calls itself a GPU.
    #[default]
    Auto,
    /// One device.
    Device {
        /// The back end.
        backend: Backend,
        /// Which of its devices, from 0.
        index: usize,
    },
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Device { backend, index: 0 } => write!(f, "{backend}"),
            Self::Device { backend, index } => write!(f, "{backend}:{index}"),
        }
    }
}

impl FromStr for Selector {
    type Err = ParseBackendError;

    fn from_str(text: &str) -> Result<Self, ParseBackendError> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        let unknown = || ParseBackendError { text: text.to_owned() };
        let (name, index) = match text.split_once(':') {
            None => (text, 0),
            Some((name, index)) => (name, index.parse().map_err(|_| unknown())?),
        };
        let backend = Backend::ALL.into_iter().find(|backend| backend.name() == name).ok_or_else(unknown)?;
        Ok(Self::Device { backend, index })
    }
}

/// Not the name of a device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` names no device: use auto, host, opencl, vulkan, cuda or metal, and a number as in opencl:1"
)]
pub struct ParseBackendError {
    /// What was given.
    pub text: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for backend in Backend::ALL {
            for index in [0, 1, 17] {
                let selector = Selector::Device { backend, index };
                assert_eq!(selector.to_string().parse(), Ok(selector));
            }
        }
        for text in
            ["", "OPENCL", "opencl:", "opencl:-1", "opencl:x", "auto:1", "opencl:99999999999999999999"]
        {
            assert_eq!(text.parse::<Selector>(), Err(ParseBackendError { text: text.to_owned() }));
        }
    }
}
