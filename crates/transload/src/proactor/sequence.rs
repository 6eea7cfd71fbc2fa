//! Operations one after the other.

use std::sync::Arc;

use rustix::net::{Shutdown, SocketAddrAny};

use super::buffers::{Incoming, Outgoing};
use super::error::IoError;
use super::file::File;
use super::key::Key;
use super::operation::{Operation, ZeroCopy};
use super::pending::{Pending, PendingSend, Ticket, Transferred};
use super::shared::{Command, Shared};
use super::socket::Socket;

/// Operations of which each begins when the one before has succeeded. When one fails or is cancelled, those behind it
/// end with [`IoError::Cancelled`], and their memory comes back.
///
/// Nothing begins before [`start`](Sequence::start); dropped before that, all of them are cancelled.
///
/// ```
/// # use transload::memory::Slab;
/// # use transload::pool::BufferPool;
/// # use transload::proactor::{File, Proactor};
/// # use transload::region::Access;
/// # let path = std::env::temp_dir().join(format!("transload-doc-{}", std::process::id()));
/// let proactor = Proactor::new()?;
/// let pool = BufferPool::new(&proactor.register_slab(&Slab::new(1, 4096)?, Access::READ)?)?;
/// let file = File::from(std::fs::File::create(&path)?);
///
/// let mut sequence = proactor.handle().sequence();
/// let written = sequence.write_at(&file, pool.try_acquire()?, 0);
/// let synced = sequence.fdatasync(&file);
/// sequence.start();
/// proactor.block_on(async {
///     assert_eq!(written.await.result?, 4096);
///     synced.await
/// })??;
/// # std::fs::remove_file(path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "nothing begins before it is started"]
#[derive(Debug)]
pub struct Sequence {
    shared: Arc<Shared>,
    first: Option<Key>,
    last: Option<Key>,
}

impl Sequence {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, first: None, last: None }
    }

    /// Adds a [`send`](super::Handle::send_with).
    pub fn send(
        &mut self,
        socket: &Socket,
        buffers: impl Into<Outgoing>,
        zero_copy: ZeroCopy,
    ) -> PendingSend {
        PendingSend::new(self.add(Operation::Send {
            socket: socket.clone(),
            buffers: buffers.into(),
            zero_copy,
        }))
    }

    /// Adds a [`receive_into`](super::Handle::receive_into).
    pub fn receive_into(
        &mut self,
        socket: &Socket,
        buffers: impl Into<Incoming>,
    ) -> Pending<Transferred<Incoming>> {
        Pending::new(self.add(Operation::Receive { socket: socket.clone(), buffers: buffers.into() }))
    }

    /// Adds a [`read_at`](super::Handle::read_at).
    pub fn read_at(
        &mut self,
        file: &File,
        buffers: impl Into<Incoming>,
        offset: u64,
    ) -> Pending<Transferred<Incoming>> {
        Pending::new(self.add(Operation::ReadAt { file: file.clone(), buffers: buffers.into(), offset }))
    }

    /// Adds a [`write_at`](super::Handle::write_at).
    pub fn write_at(
        &mut self,
        file: &File,
        buffers: impl Into<Outgoing>,
        offset: u64,
    ) -> Pending<Transferred<Outgoing>> {
        Pending::new(self.add(Operation::WriteAt { file: file.clone(), buffers: buffers.into(), offset }))
    }

    /// Adds a [`fsync`](super::Handle::fsync).
    pub fn fsync(&mut self, file: &File) -> Pending<Result<(), IoError>> {
        Pending::new(self.add(Operation::Sync { file: file.clone(), data_only: false }))
    }

    /// Adds a [`fdatasync`](super::Handle::fdatasync).
    pub fn fdatasync(&mut self, file: &File) -> Pending<Result<(), IoError>> {
        Pending::new(self.add(Operation::Sync { file: file.clone(), data_only: true }))
    }

    /// Adds a [`connect`](super::Handle::connect).
    pub fn connect(
        &mut self,
        socket: Socket,
        address: impl Into<SocketAddrAny>,
    ) -> Pending<Result<Socket, IoError>> {
        Pending::new(self.add(Operation::Connect { socket, address: address.into() }))
    }

    /// Adds a [`shutdown`](super::Handle::shutdown).
    pub fn shutdown(&mut self, socket: &Socket, how: Shutdown) -> Pending<Result<(), IoError>> {
        Pending::new(self.add(Operation::Shutdown { socket: socket.clone(), how }))
    }

    /// Begins the first.
    pub fn start(mut self) {
        if let Some(first) = self.first.take() {
            self.shared.command(Command::Start(first));
        }
    }

    fn add(&mut self, operation: Operation) -> Ticket {
        let ticket = self.shared.submit_behind(self.last, operation);
        self.first = self.first.or(Some(ticket.key));
        self.last = Some(ticket.key);
        ticket
    }
}

impl Drop for Sequence {
    fn drop(&mut self) {
        if let Some(first) = self.first {
            self.shared.command(Command::Cancel(first));
        }
    }
}
