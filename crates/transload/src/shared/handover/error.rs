//! Why a region is not made, found or handed over.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::shared::error::SharedError;

/// Why a region is not made, found or handed over.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HandoverError {
    /// The folder of names is not there, or cannot be used.
    #[error("the runtime folder {} cannot be used ({call}: {source}): set XDG_RUNTIME_DIR to a folder of your own", path.display())]
    NoFolder {
        /// Where it should be.
        path: PathBuf,
        /// Which call failed.
        call: &'static str,
        /// How.
        source: io::Error,
    },
    /// The folder of names could be changed by others.
    #[error("the folder {} {fault} (owner uid {owner}, mode {mode:04o}): {fix}", path.display())]
    UnsafeFolder {
        /// Which folder.
        path: PathBuf,
        /// What is wrong with it.
        fault: FolderFault,
        /// To whom it belongs.
        owner: u32,
        /// Its permissions.
        mode: u32,
        /// What to do.
        fix: &'static str,
    },
    /// Somebody else makes, replaces or removes a name, and does not come to an end.
    #[error(
        "the folder {} is locked by {} for more than {waited:?}: wait for it, or end it if it is stopped",
        path.display(),
        Who(*holder)
    )]
    FolderLocked {
        /// Which folder.
        path: PathBuf,
        /// The process that has locked it, if the kernel says.
        holder: Option<u32>,
        /// How long was waited.
        waited: Duration,
    },
    /// The path of the socket is too long.
    #[error(
        "the path of the socket, {}, has {len} bytes, and the address of a Unix socket has room for {most}: use a shorter name or folder",
        path.display()
    )]
    LongPath {
        /// The path.
        path: PathBuf,
        /// Its bytes.
        len: usize,
        /// How many there may be.
        most: usize,
    },
    /// What is in the place of the socket is none.
    /// Another program listens there.
    #[error("{} is a socket of another program, and is left alone: choose another path", path.display())]
    OtherProgram {
        /// The socket.
        path: PathBuf,
    },
    /// Something else has the path.
    #[error("{} is no socket, and is left alone: choose another path", path.display())]
    NoSocket {
        /// Where the socket would be.
        path: PathBuf,
    },
    /// No process has a region of that name.
    #[error(
        "no process has a region named {name} (its socket would be {}); other users and containers have other folders",
        path.display()
    )]
    NotThere {
        /// The name.
        name: String,
        /// Where its socket would be.
        path: PathBuf,
    },
    /// A live process serves a region of that name already.
    #[error(
        "{name} is in use: process {pid} of uid {uid} serves it; take part in that, or choose another name"
    )]
    InUse {
        /// The name.
        name: String,
        /// The process that serves it.
        pid: u32,
        /// To whom that belongs.
        uid: u32,
    },
    /// Processes have the region, and none of them serves it.
    #[error(
        "processes still hold the region {name}, and none of them has served it for {waited:?}: they, or children that they forked, are stopped or busy; continue or end them"
    )]
    Unserved {
        /// The name.
        name: String,
        /// How long was waited.
        waited: Duration,
    },
    /// The process that serves does not answer.
    #[error(
        "{name} is served by {}, which has not answered for {waited:?}: continue or end it if it is stopped",
        Who(Some(*pid))
    )]
    NotAnswering {
        /// The name.
        name: String,
        /// The process; 0 where it is of another pid namespace.
        pid: u32,
        /// How long was waited.
        waited: Duration,
    },
    /// The socket is not for this user.
    #[error(
        "{} may not be opened by uid {uid}: it belongs to uid {owner} and has mode {mode:04o}; its owner can allow uid {uid} (`--allow-uid {uid}`)",
        path.display()
    )]
    Denied {
        /// The socket.
        path: PathBuf,
        /// Who tried.
        uid: u32,
        /// To whom it belongs.
        owner: u32,
        /// Its permissions.
        mode: u32,
    },
    /// The server does not serve this user.
    #[error(
        "refused: {name} is served for uid {owner} only (by process {pid}), and this process has uid {uid}; its owner can allow uid {uid} (`--allow-uid {uid}`)"
    )]
    WrongUser {
        /// The name.
        name: String,
        /// For whom it is served.
        owner: u32,
        /// The process that serves.
        pid: u32,
        /// The user of this process.
        uid: u32,
    },
    /// The server belongs to somebody whom we do not trust.
    #[error(
        "{name} is served by a process of uid {owner}, and this process trusts uid {uid} only: if you trust that one, allow it (`--allow-uid {owner}`)"
    )]
    ForeignServer {
        /// The name.
        name: String,
        /// To whom the server belongs.
        owner: u32,
        /// The user of this process.
        uid: u32,
    },
    /// The server speaks another version of the protocol.
    #[error("{name} is served by another version of transload: it speaks version {theirs}, this one {ours}")]
    Version {
        /// The name.
        name: String,
        /// What the server speaks.
        theirs: u32,
        /// What this library speaks.
        ours: u32,
    },
    /// The server has refused for another reason.
    #[error("refused: the process {pid} that serves {name} {why}")]
    Refused {
        /// The name.
        name: String,
        /// The process.
        pid: u32,
        /// Why.
        why: &'static str,
    },
    /// The answer is none.
    #[error("{name}: what listens there is no transload, or a broken one: {what}")]
    Malformed {
        /// The name.
        name: String,
        /// What is wrong.
        what: &'static str,
    },
    /// The answer came with another number of descriptors than one.
    #[error(
        "{name}: the answer came with {count} descriptors, and one was wanted; they were closed (with 0: this process may have too many open, `ulimit -n`)"
    )]
    Descriptors {
        /// The name.
        name: String,
        /// How many came, as far as there was room.
        count: usize,
    },
    /// The region that was made, or handed over, is none.
    #[error("{name}: {source}")]
    Region {
        /// The name.
        name: String,
        /// Why.
        source: SharedError,
    },
    /// What was handed over is another region than the one that was spoken of.
    #[error("{name}: region {told:032x} was spoken of, and region {there:032x} was handed over")]
    OtherRegion {
        /// The name.
        name: String,
        /// What the answer said.
        told: u128,
        /// What the region itself says.
        there: u128,
    },
    /// Another call failed.
    #[error("{call}: {source}")]
    Os {
        /// Which call.
        call: &'static str,
        /// How.
        source: io::Error,
    },
}

/// What is wrong with a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FolderFault {
    /// A link may point anywhere.
    SymbolicLink,
    /// It is something else.
    NoFolder,
    /// It belongs to somebody else.
    Owner,
    /// Others may change what is in it.
    Mode,
}

impl fmt::Display for FolderFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SymbolicLink => "is a symbolic link",
            Self::NoFolder => "is no folder",
            Self::Owner => "belongs to somebody else",
            Self::Mode => "can be changed by others",
        })
    }
}

impl HandoverError {
    pub(super) fn os(call: &'static str) -> impl Fn(rustix::io::Errno) -> Self {
        move |errno| Self::Os { call, source: errno.into() }
    }

    pub(super) fn io(call: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| Self::Os { call, source }
    }
}

/// A process as far as it is known.
struct Who(Option<u32>);

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(0) => f.write_str("a process of another pid namespace"),
            Some(pid) => write!(f, "process {pid}"),
            None => f.write_str("another process"),
        }
    }
}
