//! One check: what was looked at, what was found, what to run.

use serde::Serialize;

/// What one check found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Check {
    /// What was looked at; the same in every version, so that programs can look for it.
    pub(super) name: String,
    pub(super) status: Status,
    /// What was measured.
    pub(super) value: String,
    /// What follows from it; may be empty.
    pub(super) detail: String,
    /// The command that improves it, if there is one.
    pub(super) fix: Option<String>,
}

/// How good or bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Status {
    /// Nothing to do.
    Ok,
    /// Works, and could work better.
    Warn,
    /// Not there, and not needed.
    Absent,
    /// Transload does not work without it.
    Fail,
}

impl Status {
    /// A sign that does not rest on colour.
    pub(super) fn mark(self) -> char {
        match self {
            Status::Ok => '+',
            Status::Warn => '!',
            Status::Absent => '-',
            Status::Fail => 'x',
        }
    }

    pub(super) fn word(self) -> &'static str {
        match self {
            Status::Ok => "ok",
            Status::Warn => "warn",
            Status::Absent => "absent",
            Status::Fail => "fail",
        }
    }
}

impl Check {
    pub(super) fn new(name: impl Into<String>, status: Status, value: impl Into<String>) -> Check {
        Check { name: name.into(), status, value: value.into(), detail: String::new(), fix: None }
    }

    pub(super) fn detail(mut self, detail: impl Into<String>) -> Check {
        self.detail = detail.into();
        self
    }

    pub(super) fn fix(mut self, fix: impl Into<String>) -> Check {
        self.fix = Some(fix.into());
        self
    }
}

/// `command` as the effective user has to type it, if only root may do what it does.
pub(super) fn as_root(command: &str) -> String {
    if rustix::process::geteuid().is_root() { command.to_owned() } else { with_sudo(command) }
}

fn with_sudo(command: &str) -> String {
    // The user's own shell would open the file before `sudo` runs, without the right to.
    if command.contains('>') { format!("sudo sh -c '{command}'") } else { format!("sudo {command}") }
}

/// A number of bytes for people, next to which the exact number belongs if it matters.
pub(super) fn human_bytes(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    for (unit, name) in UNITS {
        if bytes >= unit {
            let tenths = u128::from(bytes) * 10 / u128::from(unit);
            return match tenths % 10 {
                0 => format!("{} {name}", tenths / 10),
                rest => format!("{}.{rest} {name}", tenths / 10),
            };
        }
    }
    format!("{bytes} B")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_redirections_need_a_shell_of_root() {
        assert_eq!(with_sudo("apt-get install x"), "sudo apt-get install x");
        assert_eq!(with_sudo("echo 1 > /proc/x"), "sudo sh -c 'echo 1 > /proc/x'");
    }

    #[test]
    fn bytes_for_people() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (65_536, "64 KiB"),
            (1_600_000, "1.5 MiB"),
            (u64::MAX, "17179869183.9 GiB"),
        ] {
            assert_eq!(human_bytes(bytes), text);
        }
    }
}
