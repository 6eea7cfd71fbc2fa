//! The names that regions are found by.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Characters that a name has at most.
const LONGEST_NAME: usize = 64;

/// Bytes of a path that the address of a Unix socket has room for, its end left out.
pub(super) const LONGEST_PATH: usize = 107;

/// The name that a region is found by: a word, for a socket in the user's runtime folder, or the absolute path of a socket.
///
/// A word has 1 to 64 characters, letters and digits of ASCII, `.`, `_` and `-`, and does not begin with a dot.
///
/// ```
/// use transload::shared::handover::Name;
///
/// let name: Name = "sensors.left".parse()?;
/// assert_eq!(name.to_string(), "sensors.left");
/// let path: Name = "/run/sensors/left".parse()?;
/// assert!("../left".parse::<Name>().is_err());
/// # Ok::<(), transload::shared::handover::NameError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(Kind);

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Kind {
    Word(String),
    Path(PathBuf),
}

/// A word that is no name of a region.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// There is nothing.
    #[error("an empty name: {HOW}")]
    Empty,
    /// Too long to be a name.
    #[error("a name of {len} characters: {HOW}")]
    TooLong {
        /// How many it has.
        len: usize,
    },
    /// A name that begins with a dot is hidden.
    #[error("{name:?} begins with a dot: {HOW}")]
    LeadingDot {
        /// What was given.
        name: String,
    },
    /// A character that names do not have.
    #[error("{name:?} has {character:?} in it: {HOW}")]
    Character {
        /// What was given.
        name: String,
        /// The first that is wrong.
        character: char,
    },
    /// A path with more bytes than the address of a socket has room for.
    #[error("a path of {len} bytes, and the address of a Unix socket has room for {LONGEST_PATH}")]
    LongPath {
        /// How many it has.
        len: usize,
    },
    /// A path that names no file.
    #[error("{path:?} names no socket: give the whole path of one, as in /run/user/1000/camera")]
    NoFile {
        /// What was given.
        path: PathBuf,
    },
}

const HOW: &str = "a name has 1 to 64 letters, digits, '.', '_' and '-' and no dot in front, or is the absolute path of a socket";

impl Name {
    /// The path, if it is one.
    pub(super) fn path(&self) -> Option<&Path> {
        match &self.0 {
            Kind::Word(_) => None,
            Kind::Path(path) => Some(path),
        }
    }

    /// The word, if it is one.
    pub(super) fn word(&self) -> Option<&str> {
        match &self.0 {
            Kind::Word(word) => Some(word),
            Kind::Path(_) => None,
        }
    }
}

impl FromStr for Name {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        if text.starts_with('/') {
            let path = PathBuf::from(text);
            let is_file = !text.ends_with('/') && path.file_name().is_some() && !text.contains('\0');
            return match text.len() {
                _ if !is_file => Err(NameError::NoFile { path }),
                len if len > LONGEST_PATH => Err(NameError::LongPath { len }),
                _ => Ok(Self(Kind::Path(path))),
            };
        }
        let is_right = |character: &char| character.is_ascii_alphanumeric() || "._-".contains(*character);
        let name = || text.to_owned();
        match text.chars().count() {
            0 => Err(NameError::Empty),
            len if len > LONGEST_NAME => Err(NameError::TooLong { len }),
            _ if text.starts_with('.') => Err(NameError::LeadingDot { name: name() }),
            _ => match text.chars().find(|character| !is_right(character)) {
                Some(character) => Err(NameError::Character { name: name(), character }),
                None => Ok(Self(Kind::Word(name()))),
            },
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Word(word) => f.write_str(word),
            Kind::Path(path) => path.display().fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_written_as_they_are_read() {
        let longest = "x".repeat(LONGEST_NAME);
        for text in ["a", "A.b_c-9", "9", "-", "_", &longest, "/run/a", "/a b/ü.sock"] {
            let name: Name = text.parse().unwrap();
            assert_eq!(name.to_string(), text);
            assert_eq!(name.path().is_some(), text.starts_with('/'));
            assert_eq!(name.word().is_some(), !text.starts_with('/'));
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        let (long, long_path) = ("x".repeat(LONGEST_NAME + 1), format!("/{}", "x".repeat(LONGEST_PATH)));
        for (text, words) in [
            ("", "an empty name"),
            (long.as_str(), "65 characters"),
            (".hidden", "begins with a dot"),
            ("..", "begins with a dot"),
            ("a/b", "'/'"),
            ("a b", "' '"),
            ("ü", "'ü'"),
            ("a\0", "'\\0'"),
            (long_path.as_str(), "108 bytes"),
            ("/run/", "names no socket"),
            ("/", "names no socket"),
            ("/run/..", "names no socket"),
            ("/a\0b", "names no socket"),
        ] {
            let said = text.parse::<Name>().unwrap_err().to_string();
            assert!(said.contains(words), "{text}: {said}");
        }
    }
}
