//! Runs of the binary that listen, and their peers.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::OnceLock;
use std::time::Duration;

use super::{Done, Run, Running, has_check, pump, skip, wait_until};

/// The back ends that work here.
pub(crate) fn backends() -> &'static [&'static str] {
    static BACKENDS: OnceLock<&[&str]> = OnceLock::new();
    BACKENDS.get_or_init(|| {
        if has_check("io_uring") {
            &["readiness", "uring"]
        } else {
            skip(
                "pump_sockets::uring",
                "no io_uring here: kernel.io_uring_disabled, or a filter on system calls",
            );
            &["readiness"]
        }
    })
}

/// A pump that listens.
#[derive(Debug)]
pub(crate) struct Listening {
    pub(crate) running: Running,
    /// As it was printed.
    pub(crate) address: String,
}

/// `transload pump --from ADDRESS` with these arguments, once it listens.
pub(crate) fn listen(address: &str, args: &[&str]) -> Listening {
    // What happens to peers is told as a warning. Those of an ordinary user's limits are left out.
    until_it_listens(pump(&["--from", address]).args(args).env("TRANSLOAD_LOG", "error,transload::pump=warn"))
}

/// Starts a run, and waits until it listens.
pub(crate) fn until_it_listens(run: Run) -> Listening {
    let mut running = run.start();
    let mut found = None;
    wait_until("the address", || {
        let stderr = running.stderr_so_far();
        found = stderr
            .strip_suffix('\n')
            .and_then(|stderr| stderr.lines().find_map(|line| line.strip_prefix("listening on ")))
            .map(str::to_owned);
        let ended = running.child.try_wait().expect("a child").is_some();
        assert!(found.is_some() || !ended, "it has ended: {stderr}");
        found.is_some()
    });
    Listening { running, address: found.unwrap_or_default() }
}

impl Listening {
    pub(crate) fn connect(&self) -> Peer {
        // What would hang a test is an error instead.
        let patience = Some(Duration::from_secs(50));
        if let Some(path) = self.address.strip_prefix("unix:") {
            let stream = UnixStream::connect(path).expect("a listener");
            stream.set_read_timeout(patience).expect("a socket");
            stream.set_write_timeout(patience).expect("a socket");
            return Peer::Unix(stream);
        }
        let address = self.address.strip_prefix("tcp:").expect("an address");
        let stream = TcpStream::connect(address).expect("a listener");
        stream.set_nodelay(true).expect("a socket");
        stream.set_read_timeout(patience).expect("a socket");
        stream.set_write_timeout(patience).expect("a socket");
        Peer::Tcp(stream)
    }

    pub(crate) fn done(self) -> Done {
        self.running.done()
    }
}

/// One end of a connection, of either kind.
#[derive(Debug)]
pub(crate) enum Peer {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Peer {
    pub(crate) fn end(&self) {
        let ended = match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Self::Unix(stream) => stream.shutdown(Shutdown::Write),
        };
        ended.expect("a connection");
    }

    /// The address that the other end knows it by.
    pub(crate) fn local_address(&self) -> String {
        match self {
            Self::Tcp(stream) => stream.local_addr().expect("a connection").to_string(),
            Self::Unix(_) => format!("process {}", std::process::id()),
        }
    }
}

impl Write for Peer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Peer {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(bytes),
            Self::Unix(stream) => stream.read(bytes),
        }
    }
}
