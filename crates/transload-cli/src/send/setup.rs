//! From options to what a run needs: the input, a proactor, memory, addresses, connections.

use std::fs::File as StdFile;
use std::io;
use std::rc::Rc;

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrAny, SocketFlags, SocketType, socket_with, sockopt::set_tcp_nodelay,
};
use transload::memory::Slab;
use transload::pool::BufferPool;
use transload::proactor::{File, Handle, IoError, Proactor, Socket};
use transload::region::Access;

use super::args::SendArgs;
use super::cutter::Cutter;
use super::generator::Generator;
use super::lane::{Common, Lane};
use super::mailbox::Mailbox;
use super::opened::Opened;
use super::source;
use crate::address::Address;
use crate::failure::Failure;
use crate::framing::Framing;

/// What is sent, opened.
#[derive(Debug)]
pub(super) enum Input {
    /// One for each connection.
    Generated(Vec<Generator>),
    /// A file, read at offsets from this one on.
    File { file: File, name: String, offset: u64 },
    /// Anything else: bytes come when they come.
    Stream { file: StdFile, name: String },
}

impl Input {
    pub(super) fn open(args: &SendArgs) -> Result<Self, Failure> {
        let Some(Opened { file, name, rest }) = Opened::open(&args.from)? else {
            let generators =
                Generator::all(args.framing, args.message_size(), args.connections, args.messages)?;
            return Ok(Self::Generated(generators));
        };
        let Some((offset, bytes)) = rest else { return Ok(Self::Stream { file, name }) };
        check_whole(args.framing, args.messages, args.message_size(), &name, bytes)?;
        Ok(Self::File { file: file.into(), name, offset })
    }

    /// Leaves the offset of a file that others read as well where plain reads would have.
    pub(super) fn sent(file: &File, offset: u64, bytes: u64) {
        // Nothing follows from a file that cannot.
        let _ = seek(file, SeekFrom::Start(offset.saturating_add(bytes)));
    }
}

/// Refuses a file that does not end with a whole message, before anything is sent of it.
pub(super) fn check_whole(
    framing: Framing,
    messages: Option<u64>,
    message_size: usize,
    name: &str,
    bytes: u64,
) -> Result<(), Failure> {
    let size = message_size as u64;
    let enough = messages.is_some_and(|messages| messages <= bytes / size);
    if framing != Framing::Fixed || enough || bytes.is_multiple_of(size) {
        return Ok(());
    }
    let message = format!(
        "{name} has {bytes} bytes: {} messages of {size} and {} bytes more, which are none",
        bytes / size,
        bytes % size
    );
    Err(Failure::new("source", message)
        .fix("check the file, --message-size and --framing; --framing stream takes any bytes"))
}

/// A pool of registered memory. Files are read into it, so that it is registered for writing then.
pub(super) fn pool(args: &SendArgs, proactor: &Proactor, input: &Input) -> Result<BufferPool, Failure> {
    let (count, bytes) = args.buffers();
    let slab = Slab::new(count, bytes).map_err(|error| {
        let failure = Failure::from(error);
        Failure { fix: Some("use fewer --pool-buffers, or a smaller --buffer-size".to_owned()), ..failure }
    })?;
    let access = match input {
        Input::Generated(_) => Access::READ,
        Input::File { .. } | Input::Stream { .. } => Access::READ_WRITE,
    };
    let region = proactor.register_slab(&slab, access).map_err(|error| Failure::new("memory", error))?;
    BufferPool::new(&region).map_err(|error| Failure::new("memory", error))
}

/// Where an address leads.
pub(super) fn resolve(to: &Address) -> Result<Vec<SocketAddrAny>, Failure> {
    let failed = |why: &dyn std::fmt::Display| {
        Failure::new("connect", format!("cannot find {to}: {why}")).fix("check the name, or use the number")
    };
    match to.resolve() {
        Ok(addresses) if addresses.is_empty() => Err(failed(&"the name stands for no address")),
        Ok(addresses) => Ok(addresses),
        Err(error) => Err(failed(&error)),
    }
}

/// Connects to the first of some addresses where somebody listens.
pub(super) async fn connect(
    handle: &Handle,
    to: &Address,
    addresses: &[SocketAddrAny],
) -> Result<Socket, Failure> {
    let mut last = None;
    for address in addresses {
        match connect_to(handle, address).await {
            Ok(socket) => return Ok(socket),
            Err(error) => last = Some(error),
        }
    }
    let error = last.unwrap_or_else(|| io::ErrorKind::AddrNotAvailable.into());
    let fix = match (to, error.kind()) {
        (Address::Unix(_), io::ErrorKind::NotFound) => {
            "start the receiver first: it makes the socket that is named"
        }
        (_, io::ErrorKind::ConnectionRefused) => {
            "start the receiver first, and check that it listens there: ss -lx for unix, ss -lt for tcp"
        }
        (_, io::ErrorKind::TimedOut) => {
            "check the host, that no firewall drops connections to that port, and that the receiver accepts them all"
        }
        _ if error.raw_os_error() == Some(Errno::MFILE.raw_os_error()) => {
            "use fewer --connections, or raise the limit: ulimit -n 65536"
        }
        _ => "check the address, and that you may reach it",
    };
    Err(Failure::new("connect", format!("cannot connect to {to}: {error}")).fix(fix))
}

async fn connect_to(handle: &Handle, address: &SocketAddrAny) -> io::Result<Socket> {
    let family = address.address_family();
    let fd = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    if family != AddressFamily::UNIX {
        // Lines that come one at a time are not to wait for each other.
        set_tcp_nodelay(&fd, true)?;
    }
    let connected = handle.connect(Socket::from(fd), address.clone()).await;
    connected.map_err(|error: IoError| io::Error::from(error))
}

/// What feeds each connection.
pub(super) enum Feed {
    Generated(std::vec::IntoIter<Generator>),
    File { file: File, name: String, offset: u64, cutter: Cutter },
    Stream { mailbox: std::sync::Arc<Mailbox>, name: String, cutter: Cutter },
}

impl Feed {
    /// Starts to read where a thread does that.
    pub(super) fn start(args: &SendArgs, input: Input, common: &Common) -> Result<Self, Failure> {
        let cutter = Cutter::new(args.framing, args.message_size(), args.messages);
        Ok(match input {
            Input::Generated(generators) => Self::Generated(generators.into_iter()),
            Input::File { file, name, offset } => Self::File { file, name, offset, cutter },
            Input::Stream { file, name } => {
                let mailbox = Mailbox::of(file, common.pool.clone(), common.stop.flag())?;
                Self::Stream { mailbox, name, cutter }
            }
        })
    }

    /// Feeds the connections, one future each.
    pub(super) fn lanes(
        self,
        common: &Rc<Common>,
        sockets: Vec<Socket>,
    ) -> Vec<std::pin::Pin<Box<dyn Future<Output = ()>>>> {
        let most = (common.pool.capacity() as usize / sockets.len().max(1)).max(1);
        let mut lanes = sockets.into_iter().map(|socket| Lane::new(common.clone(), socket, most));
        match self {
            Self::Generated(generators) => lanes
                .zip(generators)
                .map(|(lane, generator)| Box::pin(source::generated(lane, generator)) as _)
                .collect(),
            Self::File { file, name, offset, cutter } => lanes
                .next()
                .map(|lane| Box::pin(source::file(lane, file, name, offset, cutter)) as _)
                .into_iter()
                .collect(),
            Self::Stream { mailbox, name, cutter } => lanes
                .next()
                .map(|lane| Box::pin(source::letters(lane, mailbox, name, cutter)) as _)
                .into_iter()
                .collect(),
        }
    }
}
