//! Addresses of streams, `tcp:HOST:PORT` and `unix:PATH`, and of regions that processes share, `shm:NAME`.

use std::fmt;
use std::io;
use std::net::ToSocketAddrs;
use std::path::PathBuf;
use std::str::FromStr;

use rustix::net::{SocketAddrAny, SocketAddrUnix};
#[cfg(target_os = "linux")]
use transload::shared::handover::Name;

/// How many bytes of a path the address of a Unix socket has room for, its end left out.
const LONGEST_PATH: usize = 107;

const HOW: &str = "write it like tcp:localhost:9000, tcp:[::1]:9000 or unix:/run/socket";

/// Where messages come from, or go to: a stream, or a region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    Stream(Address),
    #[cfg(target_os = "linux")]
    Region(Name),
}

impl Endpoint {
    /// Whether a word is meant as one, and no file's name.
    pub(crate) fn is_meant_by(word: &str) -> bool {
        word.starts_with("shm:") || word.starts_with("tcp:") || word.starts_with("unix:")
    }
}

impl FromStr for Endpoint {
    type Err = String;

    /// Reads `shm:NAME`, and what [`Address`] reads.
    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("shm:") {
            #[cfg(target_os = "linux")]
            Some(name) => name.parse().map(Self::Region).map_err(|error| format!("{error}")),
            #[cfg(not(target_os = "linux"))]
            Some(_) => Err("memory that processes share needs Linux".to_owned()),
            None if Self::is_meant_by(text) => text.parse().map(Self::Stream),
            None => Err(format!("no address: {HOW}, or shm:NAME")),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stream(address) => address.fmt(f),
            #[cfg(target_os = "linux")]
            Self::Region(name) => write!(f, "shm:{name}"),
        }
    }
}

/// Where a stream comes from, or goes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    /// A name or a number, IPv6 without its brackets.
    Tcp {
        host: String,
        port: u16,
    },
    Unix(PathBuf),
}

impl Address {
    /// What it stands for: one address, or several to be tried in turn. Asks for names, which may take a while.
    ///
    /// # Errors
    ///
    /// A name that nobody knows.
    pub(crate) fn resolve(&self) -> io::Result<Vec<SocketAddrAny>> {
        match self {
            Self::Tcp { host, port } => {
                Ok((host.as_str(), *port).to_socket_addrs()?.map(SocketAddrAny::from).collect())
            }
            Self::Unix(path) => Ok(vec![SocketAddrUnix::new(path)?.into()]),
        }
    }
}

impl FromStr for Address {
    type Err = String;

    /// Reads `tcp:HOST:PORT` and `unix:PATH`, also as `tcp://HOST:PORT` and `unix://PATH`.
    fn from_str(text: &str) -> Result<Self, String> {
        let without_slashes = |rest: &str| rest.strip_prefix("//").unwrap_or(rest).to_owned();
        if let Some(path) = text.strip_prefix("unix:").map(without_slashes) {
            return match path.len() {
                0 => Err(format!("no path: {HOW}")),
                1..=LONGEST_PATH if !path.contains('\0') => Ok(Self::Unix(path.into())),
                len => Err(format!(
                    "a path of {len} bytes, and the address of a Unix socket has room for {LONGEST_PATH}"
                )),
            };
        }
        let rest =
            text.strip_prefix("tcp:").map(without_slashes).ok_or_else(|| format!("no address: {HOW}"))?;
        let (host, port) = rest.rsplit_once(':').ok_or_else(|| format!("no port: {HOW}"))?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        if bare.is_none() && host.contains(':') {
            return Err(format!("the numbers of IPv6 stand in brackets: {HOW}"));
        }
        let host = bare.unwrap_or(host);
        if host.is_empty() {
            return Err(format!("no host: {HOW}"));
        }
        let digits = Some(port).filter(|port| port.bytes().all(|byte| byte.is_ascii_digit()));
        let port = digits
            .and_then(|port| port.parse().ok())
            .ok_or_else(|| format!("{port:?} is no port from 0 to 65535: {HOW}"))?;
        Ok(Self::Tcp { host: host.to_owned(), port })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "tcp:[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "tcp:{host}:{port}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_written_as_they_are_read() {
        for (text, written) in [
            ("tcp:localhost:9000", "tcp:localhost:9000"),
            ("tcp://127.0.0.1:0", "tcp:127.0.0.1:0"),
            ("tcp:[::1]:65535", "tcp:[::1]:65535"),
            ("unix:/run/a:b", "unix:/run/a:b"),
            ("unix:///run/x", "unix:/run/x"),
            ("unix:here", "unix:here"),
        ] {
            assert!(Endpoint::is_meant_by(text));
            let address: Address = text.parse().unwrap();
            assert_eq!(address.to_string(), written);
            assert_eq!(written.parse(), Ok(address.clone()));
            assert_eq!(text.parse(), Ok(Endpoint::Stream(address)));
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn regions_have_names() {
        for text in ["shm:sensors", "shm:/run/x"] {
            assert!(Endpoint::is_meant_by(text));
            let endpoint: Endpoint = text.parse().unwrap();
            assert!(matches!(endpoint, Endpoint::Region(_)));
            assert_eq!(endpoint.to_string(), text);
        }
        for (text, words) in
            [("shm:", "an empty name"), ("shm:a/b", "'/'"), ("sensors", "shm:NAME"), ("tcp:x", "no port")]
        {
            let said = text.parse::<Endpoint>().unwrap_err();
            assert!(said.contains(words), "{text}: {said}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        let long = format!("unix:/{}", "x".repeat(LONGEST_PATH));
        for (text, word) in [
            ("", "no address"),
            ("shm:name", "no address"),
            ("localhost:9000", "no address"),
            ("udp:localhost:9000", "no address"),
            ("tcp:", "no port"),
            ("tcp:localhost", "no port"),
            ("tcp::9000", "no host"),
            ("tcp:[]:9000", "no host"),
            ("tcp:::1:9000", "brackets"),
            ("tcp:localhost:", "no port"),
            ("tcp:localhost:65536", "no port"),
            ("tcp:localhost:-1", "no port"),
            ("tcp:localhost:+1", "no port"),
            ("unix:", "no path"),
            (long.as_str(), "room for 107"),
        ] {
            let said = text.parse::<Address>().unwrap_err();
            assert!(said.contains(word), "{text}: {said}");
        }
    }

    #[test]
    fn numbers_are_resolved_without_asking_anybody() {
        for text in ["tcp:127.0.0.1:9000", "tcp:[::1]:9000", "unix:/run/x"] {
            assert_eq!(text.parse::<Address>().unwrap().resolve().unwrap().len(), 1, "{text}");
        }
    }
}
