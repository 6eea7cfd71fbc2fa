//! From a socket into the slots of a pump's ring: straight, or through a buffer.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde::Serialize;
use transload::device::{Driver, host};
use transload::proactor::{Backend, Proactor, Socket};
use transload::pump::{
    Drained, Intake, LENGTH_BYTES, OnFull, Pump, PumpOptions, Remainder, Sink, SlotLayout, SocketIntake,
};
use transload::staging::PinnedStagingBuffer;

use super::cpu::{Clock, Spent};
use crate::pin::{Cores, pin_to};

/// Bytes of payload in a message.
pub(super) const PAYLOAD: usize = 256;

/// Slots of the ring.
const CAPACITY: usize = 16_384;

/// What the other way reads at once.
const READ_BYTES: usize = 256 << 10;

/// How often what is there is taken before the connection is waited for again: as the command does.
const ROUNDS: usize = 8;

/// The way of received bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Blocking reads into a buffer of 256 KiB, then a copy into slots.
    Copy,
    /// Straight into slots, waiting with this back end.
    Straight(Backend),
}

impl Way {
    /// What the table calls it.
    pub fn name(self) -> String {
        match self {
            Self::Copy => "read into 256 KiB, copy".to_owned(),
            Self::Straight(backend) => format!("straight, {backend}"),
        }
    }
}

/// How messages lie in slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layout {
    /// Messages of 256 bytes in slots of as many.
    Fixed,
    /// Up to 256 bytes behind a length of 4.
    Stream,
}

impl Layout {
    fn of_slots(self) -> SlotLayout {
        match self {
            Self::Fixed => SlotLayout::Dense,
            Self::Stream => SlotLayout::Prefixed,
        }
    }

    fn slot_bytes(self) -> usize {
        match self {
            Self::Fixed => PAYLOAD,
            Self::Stream => PAYLOAD + LENGTH_BYTES,
        }
    }
}

/// When a run ends.
#[derive(Clone, Copy, Debug)]
pub(super) enum Until {
    Time(Duration),
    /// So many bytes, each of which is checked when it comes back.
    Checked(u64),
}

/// Receives over a connection of its own, into a pump of its own.
pub(super) fn run(cores: Cores, way: Way, layout: Layout, until: Until) -> Result<Spent> {
    // The threads of the pump and of the device are where their maker is.
    let made = thread::spawn(move || {
        pin_to(cores.producer(0));
        run_here(cores, way, layout, until)
    });
    made.join().map_err(|_| anyhow!("a thread of {way:?} panicked"))?
}

fn run_here(cores: Cores, way: Way, layout: Layout, until: Until) -> Result<Spent> {
    let device = host::Host.open(0)?;
    let (producer, consumer) = PinnedStagingBuffer::new(CAPACITY, layout.slot_bytes())?.split();
    let mut pump = Pump::open(&*device, consumer, PumpOptions::default())?;
    let check = Check { layout, state: Arc::default() };
    if matches!(until, Until::Checked(_)) {
        pump = pump.read_back(&*device, check.clone())?;
    }
    let intake = Intake::new(producer, OnFull::Block, &pump)?;
    let running = pump.spawn()?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let peer = TcpStream::connect(listener.local_addr()?)?;
    let (connection, _) = listener.accept()?;
    let receiver = thread::spawn(move || {
        pin_to(cores.consumer());
        match way {
            Way::Copy => copy(&intake, connection, layout),
            Way::Straight(backend) => straight(intake, connection, layout, backend),
        }
    });
    let expected = send(peer, until)?;
    let spent = receiver.join().map_err(|_| anyhow!("the receiver panicked"))??;
    let report = running.join();
    ensure!(report.error.is_none() && report.skipped == 0, "{report:?}");
    ensure!(spent.bytes == expected, "{} of {expected} bytes were received", spent.bytes);
    if matches!(until, Until::Checked(_)) {
        let state = check.state.lock().map_err(|_| anyhow!("the check panicked"))?;
        ensure!(
            state.wrong == 0 && state.seen == expected,
            "{way:?}, {layout:?}: {state:?} of {expected} bytes"
        );
    }
    Ok(spent)
}

/// The byte at an offset of what is sent.
fn byte_at(offset: u64) -> u8 {
    (offset / 8).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes()[(offset % 8) as usize]
}

fn send(mut peer: TcpStream, until: Until) -> Result<u64> {
    let clock = Clock::start();
    let mut piece = vec![0_u8; 64 << 10];
    let mut sent = 0;
    loop {
        match until {
            Until::Time(span) if clock.wall() >= span => return Ok(sent),
            Until::Checked(bytes) if sent >= bytes => return Ok(sent),
            Until::Time(_) => {}
            Until::Checked(_) => {
                for (byte, offset) in piece.iter_mut().zip(sent..) {
                    *byte = byte_at(offset);
                }
            }
        }
        peer.write_all(&piece).context("the receiver is gone")?;
        sent += piece.len() as u64;
    }
}

fn straight(intake: Intake, connection: TcpStream, layout: Layout, backend: Backend) -> Result<Spent> {
    let proactor = Proactor::builder().backend(backend).build()?;
    let handle = proactor.handle();
    let socket = Socket::from(connection);
    let mut sockets = SocketIntake::new(intake, layout.of_slots());
    let clock = Clock::start();
    let bytes = proactor.block_on(async {
        let mut remainder = Remainder::default();
        let mut bytes = 0;
        loop {
            handle.readable(&socket).await?;
            for _ in 0..ROUNDS {
                match sockets.receive(&socket, &mut remainder, usize::MAX, |_| ())? {
                    Drained::Bytes { received, .. } => bytes += received as u64,
                    Drained::End => return anyhow::Ok(bytes),
                    _ => break,
                }
            }
        }
    })??;
    Ok(clock.stop(bytes))
}

fn copy(intake: &Intake, mut connection: TcpStream, layout: Layout) -> Result<Spent> {
    // Touched before the clock starts.
    let mut buffer = vec![1_u8; READ_BYTES];
    let (mut held, mut bytes) = (0, 0);
    let clock = Clock::start();
    loop {
        let read = connection.read(&mut buffer[held..])?;
        if read == 0 {
            return Ok(clock.stop(bytes));
        }
        bytes += read as u64;
        let there = held + read;
        let taken = match layout {
            Layout::Fixed => there / PAYLOAD * PAYLOAD,
            Layout::Stream => there,
        };
        let mut rest = &buffer[..taken];
        while !rest.is_empty() {
            let Some(mut slots) = intake.reserve(rest.len().div_ceil(PAYLOAD))? else {
                bail!("an intake that blocks has refused");
            };
            let (now, later) = rest.split_at(rest.len().min(slots.len() * PAYLOAD));
            let (first, second) = slots.as_mut_slices();
            match layout {
                Layout::Fixed => {
                    let (one, other) = now.split_at(first.len());
                    first.copy_from_slice(one);
                    second.copy_from_slice(other);
                }
                Layout::Stream => {
                    let slot_bytes = layout.slot_bytes();
                    let each = first.chunks_exact_mut(slot_bytes).chain(second.chunks_exact_mut(slot_bytes));
                    for (slot, payload) in each.zip(now.chunks(PAYLOAD)) {
                        slot[LENGTH_BYTES..LENGTH_BYTES + payload.len()].copy_from_slice(payload);
                        SlotLayout::Prefixed.complete(slot, payload.len());
                    }
                }
            }
            slots.commit();
            rest = later;
        }
        buffer.copy_within(taken..there, 0);
        held = there - taken;
    }
}

/// Checks what comes back from the device.
#[derive(Clone, Debug)]
struct Check {
    layout: Layout,
    state: Arc<Mutex<Seen>>,
}

#[derive(Debug, Default)]
struct Seen {
    seen: u64,
    wrong: u64,
}

impl Sink for Check {
    fn receive(&mut self, messages: &[u8], slot_bytes: usize) -> io::Result<()> {
        let mut state = self.state.lock().map_err(|_| io::Error::other("the check panicked"))?;
        for slot in messages.chunks(slot_bytes) {
            let payload = match (self.layout, slot.split_first_chunk::<LENGTH_BYTES>()) {
                (Layout::Stream, Some((length, rest))) => &rest[..u32::from_le_bytes(*length) as usize],
                _ => slot,
            };
            let wrong = payload.iter().zip(state.seen..).filter(|&(&byte, offset)| byte != byte_at(offset));
            state.wrong += wrong.count() as u64;
            state.seen += payload.len() as u64;
        }
        Ok(())
    }
}
