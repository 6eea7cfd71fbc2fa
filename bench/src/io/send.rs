//! Out of registered buffers into a socket: copied by the kernel, or not.

use std::collections::VecDeque;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use anyhow::{Result, anyhow, ensure};
use transload::memory::Slab;
use transload::pool::BufferPool;
use transload::proactor::{Backend, Proactor, Socket, ZeroCopy};
use transload::region::Access;

use super::cpu::{Clock, Spent};
use crate::pin::{Cores, pin_to};

/// Bytes of the buffers that are sent out of, in all: a peer acknowledges late what is little, and memory that is sent
/// without a copy comes back with the acknowledgement.
const POOL_BYTES: usize = 4 << 20;

/// So many buffers at least.
const LEAST_BUFFERS: usize = 16;

/// What one run has sent, and how the kernel took it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub(super) spent: Spent,
    /// Parts that went without a copy, and parts that should have and were copied.
    pub(super) zero_copied: u64,
    pub(super) copied: u64,
}

/// Sends buffers of so many bytes for a while; with `check`, the receiver looks at each byte.
pub(super) fn run(
    cores: Cores,
    backend: Backend,
    zero_copy: ZeroCopy,
    buffer_bytes: usize,
    span: Duration,
    check: bool,
) -> Result<Sent> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let peer = TcpStream::connect(listener.local_addr()?)?;
    let (connection, _) = listener.accept()?;
    let other_end = thread::spawn(move || {
        pin_to(cores.producer(0));
        receive(connection, check.then_some(buffer_bytes))
    });
    let sender = thread::spawn(move || {
        pin_to(cores.consumer());
        send(peer, backend, zero_copy, buffer_bytes, span)
    });
    let sent = sender.join().map_err(|_| anyhow!("the sender panicked"))??;
    let received = other_end.join().map_err(|_| anyhow!("the receiver panicked"))??;
    ensure!(received == sent.spent.bytes, "{received} of {} bytes arrived", sent.spent.bytes);
    Ok(sent)
}

/// The byte at an offset of each buffer.
#[expect(clippy::cast_possible_truncation, reason = "a pattern")]
fn byte_at(offset: usize) -> u8 {
    (offset.wrapping_mul(0x9E37_79B1) >> 8) as u8
}

fn receive(mut connection: TcpStream, check: Option<usize>) -> Result<u64> {
    let mut piece = vec![0_u8; 256 << 10];
    let mut received = 0_u64;
    loop {
        let read = connection.read(&mut piece)?;
        if read == 0 {
            return Ok(received);
        }
        if let Some(buffer_bytes) = check {
            let begins = usize::try_from(received)? % buffer_bytes;
            let same = |(offset, &byte): (usize, &u8)| byte == byte_at((begins + offset) % buffer_bytes);
            ensure!(piece[..read].iter().enumerate().all(same), "a byte behind {received} is another");
        }
        received += read as u64;
    }
}

fn send(
    peer: TcpStream,
    backend: Backend,
    zero_copy: ZeroCopy,
    buffer_bytes: usize,
    span: Duration,
) -> Result<Sent> {
    let buffers = (POOL_BYTES / buffer_bytes).max(LEAST_BUFFERS);
    peer.set_nodelay(true)?;
    let proactor = Proactor::builder().backend(backend).build()?;
    let handle = proactor.handle();
    let region = proactor.register_slab(&Slab::new(buffers, buffer_bytes)?, Access::READ)?;
    let pool = BufferPool::new(&region)?;
    let mut leases = (0..buffers).map(|_| pool.try_acquire()).collect::<Result<Vec<_>, _>>()?;
    for lease in &mut leases {
        lease.iter_mut().enumerate().for_each(|(offset, byte)| *byte = byte_at(offset));
    }
    drop(leases);
    let socket = Socket::from(peer);
    let clock = Clock::start();
    let (mut bytes, mut zero_copied, mut copied) = (0, 0, 0);
    proactor.block_on(async {
        let (mut sends, mut returning) = (VecDeque::new(), VecDeque::new());
        loop {
            while clock.wall() < span
                && let Ok(lease) = pool.try_acquire()
            {
                sends.push_back(handle.send_with(&socket, lease, zero_copy));
            }
            if let Some(send) = sends.pop_front() {
                let sent = send.await;
                sent.result?;
                bytes += sent.bytes as u64;
                returning.push_back(sent.returned());
            }
            while returning.len() > buffers / 2 || sends.is_empty() {
                let Some(memory) = returning.pop_front() else { break };
                let memory = memory.await;
                zero_copied += u64::from(memory.zero_copied);
                copied += u64::from(memory.copied);
            }
            if sends.is_empty() && returning.is_empty() && clock.wall() >= span {
                return anyhow::Ok(());
            }
        }
    })??;
    let spent = clock.stop(bytes);
    drop(socket);
    Ok(Sent { spent, zero_copied, copied })
}
