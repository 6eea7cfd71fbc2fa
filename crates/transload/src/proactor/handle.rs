//! What can be asked of a proactor, from any thread.

use std::ptr::NonNull;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::net::SocketAddrAny;

use super::buffers::{Incoming, Outgoing};
use super::capability::Capabilities;
use super::choice::Choice;
use super::error::{IoError, ProactorError};
use super::file::File;
use super::operation::{Operation, Pinning, ZeroCopy};
use super::pending::{Pending, PendingSend, Transferred};
use super::proactor::one_buffer;
use super::receive_pool::ReceivePool;
use super::sequence::Sequence;
use super::shared::Shared;
use super::socket::Socket;
use super::statistics::Statistics;
use super::streams::{Accept, Receive};
use crate::memory::Slab;
use crate::region::{Access, Region, RegisterError};

pub use rustix::net::Shutdown;

/// The way to a proactor, from any thread: clone it freely.
///
/// Each call submits one operation, which goes on while the proactor is polled. What a call returns is a future for any
/// executor; an operation advances only while somebody polls the proactor: its own thread
/// ([`ProactorBuilder::spawn`](super::ProactorBuilder::spawn)), [`Proactor::block_on`](super::Proactor::block_on), or a
/// loop of calls of [`Proactor::poll`](super::Proactor::poll).
///
/// Operations take the memory that they need, and give it back with their outcome. After the proactor has been shut
/// down every operation ends with [`IoError::ShutDown`], and its memory comes back.
#[derive(Clone, Debug)]
pub struct Handle {
    pub(super) shared: Arc<Shared>,
}

impl Handle {
    /// Which back end does the work, and why.
    pub fn choice(&self) -> &Choice {
        &self.shared.choice
    }

    /// What the back end can do by itself and is allowed to.
    pub fn capabilities(&self) -> Capabilities {
        self.shared.capabilities
    }

    /// What has been done so far.
    pub fn statistics(&self) -> Statistics {
        self.shared.lock().statistics
    }

    /// Operations that are not over, or whose memory the kernel still has.
    pub fn in_flight(&self) -> usize {
        self.shared.lock().table.iter().filter(|(_, entry)| !entry.is_free()).count()
    }

    /// Registers a slab. See [`Proactor::register_slab`](super::Proactor::register_slab).
    pub fn register_slab(&self, slab: &Slab, access: Access) -> Pending<Result<Region, RegisterError>> {
        self.pending(Operation::Register { slab: slab.clone(), access, pinning: Pinning::Preferred })
    }

    /// Registers a slab, pinned or not at all. See [`Proactor::register_pinned`](super::Proactor::register_pinned).
    pub fn register_pinned(&self, slab: &Slab, access: Access) -> Pending<Result<Region, RegisterError>> {
        self.pending(Operation::Register { slab: slab.clone(), access, pinning: Pinning::Required })
    }

    /// Registers memory that is there already, as one buffer. See
    /// [`Proactor::register_buffer`](super::Proactor::register_buffer).
    ///
    /// # Errors
    ///
    /// [`RegisterError::Refused`] at once if there is no such memory: no bytes, or beyond the address space.
    ///
    /// # Safety
    ///
    /// As [`Slab::wrap`], until the region's last handle and everything made of it has ended.
    pub unsafe fn register_buffer(
        &self,
        base: NonNull<u8>,
        len_bytes: usize,
        access: Access,
    ) -> Result<Pending<Result<Region, RegisterError>>, RegisterError> {
        // SAFETY: the caller's promise is the same.
        let slab = unsafe { one_buffer(base, len_bytes) }?;
        Ok(self.register_slab(&slab, access))
    }

    /// Makes a pool to receive into. See [`Proactor::receive_pool`](super::Proactor::receive_pool).
    pub fn receive_pool(&self, region: &Region) -> Pending<Result<ReceivePool, ProactorError>> {
        self.pending(Operation::MakePool { region: region.clone() })
    }

    /// Sends all bytes, in order behind the sends that were submitted before on the same socket.
    ///
    /// Without a copy into the kernel from a size on, see [`ZeroCopy::Auto`]. A send that the kernel takes in parts goes
    /// on before the next begins. A peer that has gone is an error (`EPIPE`, `ECONNRESET`), never a signal. The memory must
    /// be registered for [`Access::READ`], with this proactor or anything else.
    pub fn send(&self, socket: &Socket, buffers: impl Into<Outgoing>) -> PendingSend {
        self.send_with(socket, buffers, ZeroCopy::Auto)
    }

    /// As [`send`](Handle::send), with a choice of its own between copying and not.
    pub fn send_with(
        &self,
        socket: &Socket,
        buffers: impl Into<Outgoing>,
        zero_copy: ZeroCopy,
    ) -> PendingSend {
        let operation = Operation::Send { socket: socket.clone(), buffers: buffers.into(), zero_copy };
        PendingSend::new(self.shared.submit(operation))
    }

    /// Receives again and again, each time into a buffer of the pool, taken when bytes are there.
    pub fn receive(&self, socket: &Socket, pool: &ReceivePool) -> Receive {
        let operation = Operation::ReceiveMany { socket: socket.clone(), pool: pool.clone() };
        Receive::new(self.shared.submit(operation))
    }

    /// Receives once, whatever has come, into this memory, which must be registered for [`Access::WRITE`].
    pub fn receive_into(
        &self,
        socket: &Socket,
        buffers: impl Into<Incoming>,
    ) -> Pending<Transferred<Incoming>> {
        self.pending(Operation::Receive { socket: socket.clone(), buffers: buffers.into() })
    }

    /// Waits until there is something to receive, an end or an error. Takes no memory and no bytes.
    pub fn readable(&self, socket: &Socket) -> Pending<Result<(), IoError>> {
        self.pending(Operation::Readable { socket: socket.clone() })
    }

    /// Accepts connections of a listening socket.
    pub fn accept(&self, listener: &Socket) -> Accept {
        Accept::new(self.shared.submit(Operation::Accept { socket: listener.clone() }))
    }

    /// Connects a socket, and gives it back.
    pub fn connect(
        &self,
        socket: Socket,
        address: impl Into<SocketAddrAny>,
    ) -> Pending<Result<Socket, IoError>> {
        self.pending(Operation::Connect { socket, address: address.into() })
    }

    /// Ends one direction of a connection, or both. Sends that were submitted before are not waited for.
    pub fn shutdown(&self, socket: &Socket, how: Shutdown) -> Pending<Result<(), IoError>> {
        self.pending(Operation::Shutdown { socket: socket.clone(), how })
    }

    /// Cancels what is in flight on a socket, waits until all of it has ended, and gives this handle up: the last closes
    /// the descriptor. The memory of zero-copy sends may come back later: it is not waited for, as a peer that reads
    /// nothing would never let it go.
    pub fn close(&self, socket: Socket) -> Pending<Result<(), IoError>> {
        self.pending(Operation::Close { socket })
    }

    /// Reads at an offset, in bytes, until the memory is full or the file ends.
    ///
    /// # Errors
    ///
    /// In the outcome; [`IoError::Misaligned`] for a file opened with `O_DIRECT`.
    pub fn read_at(
        &self,
        file: &File,
        buffers: impl Into<Incoming>,
        offset: u64,
    ) -> Pending<Transferred<Incoming>> {
        self.pending(Operation::ReadAt { file: file.clone(), buffers: buffers.into(), offset })
    }

    /// Writes all bytes at an offset, in bytes.
    ///
    /// # Errors
    ///
    /// In the outcome; [`IoError::Misaligned`] for a file opened with `O_DIRECT`.
    pub fn write_at(
        &self,
        file: &File,
        buffers: impl Into<Outgoing>,
        offset: u64,
    ) -> Pending<Transferred<Outgoing>> {
        self.pending(Operation::WriteAt { file: file.clone(), buffers: buffers.into(), offset })
    }

    /// Brings a file's bytes and metadata to the disk.
    pub fn fsync(&self, file: &File) -> Pending<Result<(), IoError>> {
        self.pending(Operation::Sync { file: file.clone(), data_only: false })
    }

    /// Brings a file's bytes to the disk, and of its metadata what is needed to read them.
    pub fn fdatasync(&self, file: &File) -> Pending<Result<(), IoError>> {
        self.pending(Operation::Sync { file: file.clone(), data_only: true })
    }

    /// Does nothing, on the whole way through the back end.
    pub fn nop(&self) -> Pending<Result<(), IoError>> {
        self.pending(Operation::Nop)
    }

    /// Is ready after a time.
    pub fn timeout(&self, after: Duration) -> Pending<Result<(), IoError>> {
        const NEVER: Duration = Duration::from_hours(24 * 365 * 30);
        self.pending(Operation::Timeout { at: Instant::now() + after.min(NEVER) })
    }

    /// Operations of which each begins when the one before has succeeded.
    pub fn sequence(&self) -> Sequence {
        Sequence::new(self.shared.clone())
    }

    fn pending<T>(&self, operation: Operation) -> Pending<T> {
        Pending::new(self.shared.submit(operation))
    }
}
