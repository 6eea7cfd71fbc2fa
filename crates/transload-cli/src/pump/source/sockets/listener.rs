//! A socket that others connect to.

use std::io::{self, ErrorKind};
use std::net::{TcpListener, ToSocketAddrs};
use std::os::fd::OwnedFd;

use rustix::net::listen;

use super::SocketFile;
use crate::address::Address;
use crate::failure::Failure;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 1024;

/// A socket that others connect to.
#[derive(Debug)]
pub(in crate::pump) struct Listener {
    pub(in crate::pump) socket: OwnedFd,
    /// Its address, with the port that was found.
    pub(in crate::pump) bound: String,
    pub(in crate::pump) file: Option<SocketFile>,
}

impl Listener {
    pub(in crate::pump) fn bind(address: &Address) -> Result<Self, Failure> {
        let refused = |error: io::Error| {
            let failure = Failure::new("source", format!("cannot listen on {address}: {error}"));
            match error.kind() {
                ErrorKind::AddrInUse => failure.fix("choose another port; 0 is any that is free"),
                ErrorKind::AddrNotAvailable => {
                    failure.fix("name an address of this machine; 0.0.0.0 or [::] is all of them")
                }
                ErrorKind::PermissionDenied => failure.fix("choose a port from 1024 on, or 0 for any"),
                _ => failure.fix("name a host and a port of this machine"),
            }
        };
        match address {
            Address::Tcp { host, port } => {
                let addresses: Vec<_> = (host.as_str(), *port).to_socket_addrs().map_err(refused)?.collect();
                // With SO_REUSEADDR; the first address that can be had.
                let listener = TcpListener::bind(&addresses[..]).map_err(refused)?;
                let bound = format!("tcp:{}", listener.local_addr().map_err(refused)?);
                // Once more, for a longer queue.
                listen(&listener, BACKLOG).map_err(|error| refused(error.into()))?;
                Ok(Self { socket: listener.into(), bound, file: None })
            }
            Address::Unix(path) => {
                let (socket, file) = SocketFile::bind(path)?;
                listen(&socket, BACKLOG).map_err(|error| refused(error.into()))?;
                Ok(Self { socket, bound: address.to_string(), file: Some(file) })
            }
        }
    }
}
