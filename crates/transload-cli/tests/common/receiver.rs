//! Somebody who listens, and what came.

use std::io::{Read, Result};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::thread::{self, JoinHandle};

/// Takes all bytes of so many connections.
#[derive(Debug)]
pub(crate) struct Receiver {
    /// As `--to` names it.
    pub(crate) address: String,
    connections: JoinHandle<Result<Vec<Vec<u8>>>>,
}

impl Receiver {
    pub(crate) fn tcp(connections: usize) -> Self {
        let (listener, address) = listen();
        Self::of(address, connections, move || listener.accept().map(|(stream, _)| stream))
    }

    pub(crate) fn unix(path: &Path) -> Self {
        let listener = UnixListener::bind(path).expect("a socket");
        let address = format!("unix:{}", path.display());
        Self::of(address, 1, move || listener.accept().map(|(stream, _)| stream))
    }

    fn of<S: Read + Send + 'static>(
        address: String,
        connections: usize,
        accept: impl Fn() -> Result<S> + Send + 'static,
    ) -> Self {
        let connections = thread::spawn(move || {
            let streams: Vec<_> = (0..connections).map(|_| accept()).collect::<Result<_>>()?;
            let readers: Vec<_> = streams.into_iter().map(|stream| thread::spawn(|| read(stream))).collect();
            readers.into_iter().map(|reader| reader.join().expect("a reader")).collect()
        });
        Self { address, connections }
    }

    /// What came over each connection, in the order in which they were made.
    pub(crate) fn all(self) -> Vec<Vec<u8>> {
        self.connections.join().expect("a receiver").expect("bytes")
    }

    /// What came over the only one.
    pub(crate) fn one(self) -> Vec<u8> {
        let mut all = self.all();
        assert_eq!(all.len(), 1);
        all.remove(0)
    }
}

fn read(mut stream: impl Read) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).map(|_| bytes)
}

/// A listener of the loop-back device, and its address.
pub(crate) fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = format!("tcp:{}", listener.local_addr().expect("an address"));
    (listener, address)
}
