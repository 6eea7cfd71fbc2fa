//! Which back end, and why.

use std::fmt;

/// What does the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Backend {
    /// Linux `io_uring`.
    Uring,
    /// Readiness (`epoll`, `kqueue`) and ordinary system calls, with threads for files.
    Readiness,
}

impl Backend {
    /// Its name, as options and reports spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Uring => "uring",
            Self::Readiness => "readiness",
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Which back end was picked, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Choice {
    /// The back end.
    pub backend: Backend,
    /// Why this one.
    pub why: String,
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.backend, self.why)
    }
}
