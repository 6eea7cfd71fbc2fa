//! One connection, from its first byte to its last.

use std::cell::RefCell;
use std::fmt;
use std::net::SocketAddr;
use std::rc::Rc;

use futures_lite::future::yield_now;
use rustix::net::getpeername;
use rustix::net::sockopt::socket_peercred;
use transload::proactor::{IoError, ReceivePool, Received, Socket};
use transload::pump::{Drained, Remainder, SocketIntake, SocketIntakeError};

use super::hub::{Hub, Way};
use crate::assembler::Broken;
use crate::pump::source::{Halt, Why};

/// How often a connection takes what is there before others have their turn.
const ROUNDS: usize = 8;

/// Why a connection is not read on.
#[derive(Debug)]
enum Parting {
    /// The whole source ends.
    Over(Why),
    /// The peer broke off, or does not keep to its framing.
    Bad(String),
}

impl From<Halt> for Parting {
    fn from(halt: Halt) -> Self {
        match halt {
            Halt::Source(why) => Self::Over(why),
            Halt::Broken(broken) => broken.into(),
        }
    }
}

impl From<Why> for Parting {
    fn from(why: Why) -> Self {
        Self::Over(why)
    }
}

impl From<Broken> for Parting {
    fn from(broken: Broken) -> Self {
        Self::Bad(broken.to_string())
    }
}

impl From<IoError> for Parting {
    fn from(error: IoError) -> Self {
        Self::Bad(error.to_string())
    }
}

impl From<SocketIntakeError> for Parting {
    fn from(error: SocketIntakeError) -> Self {
        match error {
            SocketIntakeError::Closed => Self::Over(Why::Stopped),
            error => Self::Bad(error.to_string()),
        }
    }
}

/// Takes a connection's messages until its end.
pub(super) async fn run(hub: Rc<Hub>, socket: Socket, number: u64) {
    let peer = Peer::of(&socket);
    let taken = match &hub.way {
        Way::Straight(sockets) => straight(&hub, sockets, &socket).await,
        Way::Staged(pool) => staged(&hub, pool, &socket).await,
    };
    // Its end is the answer that the peer may wait for.
    drop(socket);
    match taken {
        Ok(()) => hub.connection_ended(false),
        Err(Parting::Bad(why)) => {
            tracing::warn!("connection {number} of {peer} is closed: {why}");
            hub.connection_ended(true);
        }
        Err(Parting::Over(why)) => hub.end(why),
    }
}

/// Straight into slots, whatever is there.
async fn straight(hub: &Hub, sockets: &RefCell<SocketIntake>, socket: &Socket) -> Result<(), Parting> {
    let stage = &hub.stage;
    let mut remainder = Remainder::default();
    let (mut whole, mut all_bytes) = (0_u64, 0_u64);
    loop {
        hub.handle.readable(socket).await?;
        for _ in 0..ROUNDS {
            if hub.is_over() {
                return Err(Why::Stopped.into());
            }
            let limit = stage.limit();
            let found = sockets.borrow_mut().receive(socket, &mut remainder, limit, |slot| stage.note(slot));
            match found? {
                Drained::Bytes { received, messages, staged } => {
                    stage.tally.staged_bytes.add_as_only_writer(staged as u64);
                    whole += messages as u64;
                    all_bytes += received as u64;
                    stage.offered(messages as u64)?;
                }
                Drained::End if remainder.is_empty() => return Ok(()),
                Drained::End => {
                    let there = remainder.len();
                    let (number, offset) = (whole + 1, all_bytes - there as u64);
                    return Err(Broken::Partial { number, offset, there, wanted: stage.message_size }.into());
                }
                _ => break,
            }
        }
    }
}

/// Through buffers of a pool, into the messages that the framing makes of them.
async fn staged(hub: &Hub, pool: &ReceivePool, socket: &Socket) -> Result<(), Parting> {
    let stage = &hub.stage;
    let mut assembler = stage.assembler();
    let mut receive = hub.handle.receive(socket, pool);
    let mut turns = 0;
    loop {
        if hub.is_over() {
            return Err(Why::Stopped.into());
        }
        match receive.delivery().await {
            Some(Ok(Received::Data(lease))) => {
                stage.piece(&mut assembler, &lease)?;
                if let Some(broken) = assembler.too_long() {
                    return Err(broken.into());
                }
            }
            Some(Ok(Received::End)) | None => return Ok(stage.end(&mut assembler)?),
            Some(Err(error)) => return Err(error.into()),
        }
        turns += 1;
        if turns % ROUNDS == 0 {
            yield_now().await;
        }
    }
}

/// Who is at the other end.
#[derive(Debug)]
enum Peer {
    At(SocketAddr),
    Process(u32),
    Unknown,
}

impl Peer {
    fn of(socket: &Socket) -> Self {
        let address = getpeername(socket).ok().flatten();
        if let Some(Ok(address)) = address.map(SocketAddr::try_from) {
            return Self::At(address);
        }
        match socket_peercred(socket) {
            Ok(credentials) => Self::Process(credentials.pid.as_raw_nonzero().get().unsigned_abs()),
            Err(_) => Self::Unknown,
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At(address) => address.fmt(f),
            Self::Process(id) => write!(f, "process {id}"),
            Self::Unknown => f.write_str("a peer that is gone"),
        }
    }
}
