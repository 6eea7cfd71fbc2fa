//! Who is served and trusted, and how long is waited.

use std::time::Duration;

use rustix::process::geteuid;

/// How long is waited if nothing else is said.
const PATIENCE: Duration = Duration::from_secs(5);

/// Who is served and trusted, and how long is waited for others.
///
/// ```
/// use std::time::Duration;
/// use transload::shared::handover::Terms;
///
/// let terms = Terms::new().allow_uid(1001).patience(Duration::from_secs(1));
/// ```
#[derive(Clone, Debug)]
pub struct Terms {
    allowed: Vec<u32>,
    pub(super) patience: Duration,
}

impl Default for Terms {
    fn default() -> Self {
        Self::new()
    }
}

impl Terms {
    /// Nobody but the own user; five seconds.
    pub fn new() -> Self {
        Self { allowed: Vec::new(), patience: PATIENCE }
    }

    /// Serves, and trusts, this user as well. Whoever takes part can spoil the region for all others.
    ///
    /// Both sides have to allow each other. The name has to be a path in a folder that both can read, since nobody else may
    /// enter a user's own; who cannot write that folder takes part, but cannot serve on after a death.
    #[must_use]
    pub fn allow_uid(mut self, uid: u32) -> Self {
        self.allowed.push(uid);
        self
    }

    /// How long another process may take: to answer, to serve on after a death, to unlock the folder.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Whether a process of this user is served, and trusted.
    pub(super) fn allow(&self, uid: u32) -> bool {
        uid == geteuid().as_raw() || self.allowed.contains(&uid)
    }

    /// The permissions of the socket: who may not open it is not even refused.
    pub(super) fn socket_mode(&self) -> u32 {
        if self.allowed.is_empty() { 0o600 } else { 0o666 }
    }
}
