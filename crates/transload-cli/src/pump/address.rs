//! Addresses to listen on, as people write them.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Address {
    /// A name or number of a host, and a port; 0 is any that is free.
    Tcp {
        host: String,
        port: u16,
    },
    Unix(PathBuf),
}

impl Address {
    /// `tcp:HOST:PORT` or `unix:PATH`; nothing if it begins with neither.
    pub(super) fn parse(word: &OsStr) -> Option<Result<Self, String>> {
        if let Some(path) = word.as_bytes().strip_prefix(b"unix:") {
            return Some(match path {
                [] => Err("a path is missing: write it like unix:/run/transload.sock".to_owned()),
                _ if path.contains(&0) => Err("a path has no zero byte".to_owned()),
                path => Ok(Self::Unix(OsStr::from_bytes(path).into())),
            });
        }
        let rest = word.to_str()?.strip_prefix("tcp:")?;
        Some(tcp(rest))
    }
}

fn tcp(text: &str) -> Result<Address, String> {
    const LIKE: &str = "write it like tcp:127.0.0.1:4000, tcp:[::1]:4000 or tcp:localhost:0";
    let (host, port) = text.rsplit_once(':').ok_or_else(|| format!("a port is missing: {LIKE}"))?;
    let port = port.parse().map_err(|_| format!("`{port}` is no port from 0 to 65535: {LIKE}"))?;
    let host = match host.strip_prefix('[').map(|host| host.strip_suffix(']')) {
        Some(Some(host)) => host,
        Some(None) => return Err(format!("a bracket is not closed: {LIKE}")),
        None if host.contains(':') => return Err(format!("IPv6 needs brackets: {LIKE}")),
        None => host,
    };
    if host.is_empty() {
        return Err(format!("a host is missing (0.0.0.0 or [::] is every interface): {LIKE}"));
    }
    Ok(Address::Tcp { host: host.to_owned(), port })
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
    fn addresses() {
        for text in ["tcp:127.0.0.1:0", "tcp:localhost:65535", "tcp:[::1]:80", "unix:/a b/c", "unix:x:1"] {
            assert_eq!(Address::parse(text.as_ref()).unwrap().unwrap().to_string(), text);
        }
        for text in ["file", "/tcp:/a", "", "tcp", "unix", "./unix:a"] {
            assert_eq!(Address::parse(text.as_ref()), None, "{text}");
        }
        for (text, why) in [
            ("tcp:", "a port is missing"),
            ("tcp:1.2.3.4", "a port is missing"),
            ("tcp:1.2.3.4:", "no port"),
            ("tcp:1.2.3.4:65536", "no port"),
            ("tcp:::1:80", "brackets"),
            ("tcp:[::1:80", "not closed"),
            ("tcp::80", "a host is missing"),
            ("tcp:[]:80", "a host is missing"),
            ("unix:", "a path is missing"),
        ] {
            let error = Address::parse(text.as_ref()).unwrap().unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
