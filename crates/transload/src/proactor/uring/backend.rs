//! The back end: attempts in, completions out.

use std::sync::Arc;
use std::time::{Duration, Instant};

use io_uring::opcode;
use io_uring::squeue::Entry;
use io_uring::types::Fd;
use rustix::io::Errno;
use rustix::process::{Pid, getpid};

use super::alarm::UringAlarm;
use super::completions::Completions;
use super::entries;
use super::groups::Groups;
use super::opening;
use super::requests::{Kind, Open, Requests, Ticket, Token};
use super::ring::{Reaped, Ring, Wait};
use super::slots::Slots;
use crate::memory::Slab;
use crate::pool::BufferPool;
use crate::proactor::backend::{Alarm, Attempt, Backend, Completion, Event, Group};
use crate::proactor::capability::{Capabilities, Capability};
use crate::proactor::error::ProactorError;
use crate::proactor::key::Key;

/// How long a cancellation that found nothing waits for something to happen before it is tried again.
const RETRY: Duration = Duration::from_millis(10);

/// The back end of `io_uring`. With [`Capability::SingleIssuer`] the thread that opens it is the only one that may use
/// it.
#[derive(Debug)]
pub(crate) struct UringBackend {
    pub(super) ring: Ring,
    pub(super) requests: Requests,
    pub(super) groups: Groups,
    pub(super) slots: Slots,
    capabilities: Capabilities,
    alarm: Arc<UringAlarm>,
    /// Whose ring it is.
    process: Pid,
    /// Whether the ring polls the alarm.
    is_armed: bool,
    /// The last request of a chain that had no more room, while that chain is being started.
    chain_cut_at: Option<Ticket>,
    /// Attempts that did not fit into a chain, and the request after which each is cancelled.
    beyond: Vec<(Ticket, Key)>,
    /// Cancellations that found nothing, of requests that are still in flight.
    missed: Vec<Ticket>,
    reaped: Vec<Reaped>,
}

impl UringBackend {
    /// Opens a ring with room for so many entries.
    ///
    /// # Errors
    ///
    /// What is in the way: policy, the kernel's age, limits.
    pub(crate) fn open(entries: u32, allowed: Capabilities) -> Result<Self, ProactorError> {
        let (ring, slots, capabilities) = opening::open(entries, allowed)?;
        let alarm = UringAlarm::new();
        let alarm =
            alarm.map_err(|errno| ProactorError::Os { call: "eventfd", code: errno.raw_os_error() })?;
        Ok(Self {
            ring,
            requests: Requests::default(),
            groups: Groups::default(),
            slots,
            capabilities,
            alarm,
            process: getpid(),
            is_armed: false,
            chain_cut_at: None,
            beyond: Vec::new(),
            missed: Vec::new(),
            reaped: Vec::new(),
        })
    }

    /// The entry of an attempt, and its place in the table.
    fn request(&mut self, key: Key, attempt: &Attempt<'_>) -> (Ticket, Entry) {
        let many = self.capabilities.has(Capability::MultishotAccept);
        let (kind, open) = match *attempt {
            Attempt::Send { socket, zero_copy: true, .. } => (Kind::ZeroCopy, Open::Socket(socket.clone())),
            Attempt::Accept { socket } => (Kind::Accept, Open::Socket(socket.clone())),
            Attempt::Readable { socket } => (Kind::Readable, Open::Socket(socket.clone())),
            Attempt::ReceiveMany { socket, group } => {
                self.groups.refill(group);
                let chooses = self.groups.of(group).is_some_and(|receivers| receivers.ring.is_some());
                let kind = if chooses { Kind::Choosing(group) } else { Kind::Awaiting(group) };
                (kind, Open::Socket(socket.clone()))
            }
            Attempt::Send { socket, .. }
            | Attempt::Receive { socket, .. }
            | Attempt::Connect { socket, .. }
            | Attempt::Shutdown { socket, .. } => (Kind::Plain, Open::Socket(socket.clone())),
            Attempt::ReadAt { file, .. } | Attempt::WriteAt { file, .. } | Attempt::Sync { file, .. } => {
                (Kind::Plain, Open::File(file.clone()))
            }
            Attempt::Nop => (Kind::Plain, Open::Nothing),
        };
        let (ticket, request) = self.requests.insert(key, kind, open);
        let entry = match *attempt {
            Attempt::Nop => opcode::Nop::new().build(),
            Attempt::Send { pieces, zero_copy, linked, .. } => {
                entries::send(request, pieces, zero_copy, linked)
            }
            Attempt::Receive { pieces, .. } => entries::receive(request, pieces),
            Attempt::ReceiveMany { group, .. } if kind == Kind::Choosing(group) => {
                entries::receive_many(request.fd(), group)
            }
            Attempt::ReceiveMany { .. } | Attempt::Readable { .. } => entries::readable(request.fd()),
            Attempt::Accept { .. } => entries::accept(request.fd(), many),
            Attempt::Connect { address, .. } => entries::connect(request, address),
            Attempt::Shutdown { how, .. } => entries::shutdown(request.fd(), how),
            Attempt::ReadAt { pieces, offset, .. } => entries::read(request, pieces, offset),
            Attempt::WriteAt { pieces, offset, .. } => entries::write(request, pieces, offset),
            Attempt::Sync { data_only, .. } => entries::sync(request.fd(), data_only),
        };
        (ticket, entry.user_data(Token::Request(ticket).to_bits()))
    }

    /// Whether another entry can follow in the same chain: if there is room, and this one can do all in one go.
    fn may_link(&self, attempt: &Attempt<'_>) -> bool {
        let has_room = self.ring.open_chain() + 1 < self.ring.longest_chain();
        has_room && matches!(attempt, Attempt::Send { pieces, .. } if entries::is_whole(pieces))
    }

    fn push_cancel(&mut self, ticket: Ticket) {
        let entry = entries::cancel(Token::Request(ticket).to_bits());
        let entry = entry.user_data(Token::Cancel(ticket).to_bits());
        // SAFETY: it points to no memory.
        unsafe { self.ring.push_aside(&entry) };
    }

    /// Lets the ring poll the alarm.
    fn arm(&mut self) {
        if !self.is_armed {
            self.is_armed = true;
            let entry = entries::readable(Fd(self.alarm.fd())).user_data(Token::Alarm.to_bits());
            // SAFETY: it points to no memory.
            unsafe { self.ring.push_aside(&entry) };
        }
    }

    /// Cancels what did not fit into a chain, once the chain has come to its end.
    fn cancel_beyond(&mut self, completions: &mut Vec<Completion>) {
        let requests = &mut self.requests;
        self.beyond.retain(|&(last, key)| {
            let waits = requests.awaits_result(last);
            if !waits {
                completions.push(Completion { key, event: Event::Done(Err(Errno::CANCELED)), more: false });
            }
            waits
        });
    }

    /// Reads what the kernel has completed; says whether the alarm was rung.
    fn reap(&mut self, completions: &mut Vec<Completion>) -> bool {
        let mut reaped = std::mem::take(&mut self.reaped);
        self.ring.reap(&mut reaped);
        let is_idle = reaped.is_empty();
        let (mut is_rung, mut progress) = (false, false);
        for one in reaped.drain(..) {
            match Token::from_bits(one.user_data) {
                Token::Alarm => {
                    self.alarm.silence();
                    self.is_armed = false;
                    is_rung = true;
                }
                // It was not found, because it waits for its turn in a chain, or has just completed. Only in the first
                // case will it still be there, and then it is found later.
                Token::Cancel(ticket) if one.result == -libc::ENOENT => {
                    if self.requests.of(ticket).is_some() {
                        self.missed.push(ticket);
                    }
                }
                Token::Cancel(_) => {}
                Token::Request(ticket) => {
                    progress = true;
                    let (ring, requests, groups) = (&mut self.ring, &mut self.requests, &mut self.groups);
                    Completions { ring, requests, groups, out: completions }.read(ticket, one);
                }
            }
        }
        self.reaped = reaped;
        self.cancel_beyond(completions);
        if progress || is_idle {
            for ticket in std::mem::take(&mut self.missed) {
                if self.requests.of(ticket).is_some() {
                    self.push_cancel(ticket);
                }
            }
        }
        is_rung
    }
}

impl Backend for UringBackend {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn alarm(&self) -> Arc<dyn Alarm> {
        self.alarm.clone()
    }

    fn start(&mut self, key: Key, attempt: Attempt<'_>) {
        let wants_link = matches!(attempt, Attempt::Send { linked: true, .. });
        if let Some(last) = self.chain_cut_at {
            // It belongs to a chain that has no more room.
            self.chain_cut_at = wants_link.then_some(last);
            self.beyond.push((last, key));
            return;
        }
        let (ticket, entry) = self.request(key, &attempt);
        let linked = wants_link && self.may_link(&attempt);
        if wants_link && !linked {
            self.chain_cut_at = Some(ticket);
        }
        let entry = if linked { entries::linked(entry) } else { entry };
        // SAFETY: the pieces stay in place until the last completion (what `Backend` demands, I2, I6), everything else is
        // kept in the table until then, and the descriptor too.
        unsafe { self.ring.push(&entry, linked) };
    }

    fn cancel(&mut self, key: Key) {
        if let Some((ticket, request)) = self.requests.of_key(key)
            && !std::mem::replace(&mut request.cancelled, true)
        {
            self.push_cancel(ticket);
        }
    }

    fn wait(&mut self, timeout: Option<Duration>, completions: &mut Vec<Completion>) -> Result<(), Errno> {
        let start = Instant::now();
        let before = completions.len();
        self.groups.refill_all();
        loop {
            let left = timeout.map(|timeout| timeout.saturating_sub(start.elapsed()));
            let is_last = left.is_some_and(|left| left.is_zero());
            let left = if self.missed.is_empty() { left } else { Some(left.unwrap_or(RETRY).min(RETRY)) };
            self.cancel_beyond(completions);
            let wait = match left {
                _ if completions.len() > before || self.ring.has_completions() => Wait::No,
                Some(left) if left.is_zero() => Wait::No,
                Some(left) => Wait::AtMost(left),
                None => Wait::ForEver,
            };
            self.arm();
            self.ring.submit_and_wait(wait)?;
            let is_rung = self.reap(completions);
            if is_rung || is_last || completions.len() > before {
                return Ok(());
            }
        }
    }

    fn register(&mut self, slab: &Slab, piece_bytes: usize) -> Result<Vec<u16>, String> {
        self.slots.register(&self.ring, slab, piece_bytes)
    }

    fn unregister(&mut self, slots: &[u16]) {
        self.slots.unregister(&self.ring, slots);
    }

    fn add_pool(&mut self, group: Group, pool: &BufferPool) -> Result<(), Errno> {
        let choose = self.capabilities.has(Capability::MultishotReceive);
        self.groups.add(&self.ring, group, pool, choose)
    }

    fn remove_pool(&mut self, group: Group) {
        self.groups.remove(&self.ring, group);
    }

    fn lends(&self, group: Group) -> bool {
        self.groups.lends(group)
    }

    fn overflows(&self) -> u64 {
        self.ring.overflows()
    }
}

impl UringBackend {
    /// Cancels all that is in flight and waits for it, but not for long. What comes of it has no owner any more:
    /// leases and descriptors go.
    fn drain(&mut self) {
        const PATIENCE: Duration = Duration::from_millis(100);
        let start = Instant::now();
        let mut nobodys = Vec::new();
        self.reap(&mut nobodys);
        for ticket in self.requests.tickets() {
            if let Some(request) = self.requests.of(ticket) {
                request.cancelled = true;
            }
            self.push_cancel(ticket);
        }
        while self.requests.in_flight() > 0 && start.elapsed() < PATIENCE {
            nobodys.clear();
            let left = PATIENCE.saturating_sub(start.elapsed());
            if let Err(errno) = self.wait(Some(left), &mut nobodys) {
                tracing::debug!(%errno, "a ring that is closed cannot be drained");
                break;
            }
        }
    }
}

impl Drop for UringBackend {
    fn drop(&mut self) {
        if self.process != getpid() {
            // A child of a fork has neither the ring's memory nor the right to end what is the parent's.
            self.groups.leak_all();
            self.requests.leak();
            return;
        }
        self.drain();
        // The budget of locked memory comes back now, rather than when the kernel gets round to the closed ring.
        if !self.slots.is_empty()
            && let Err(errno) = self.ring.remove_slots()
        {
            tracing::debug!(%errno, "registered buffers were not removed before the ring");
        }
        let in_flight = self.requests.in_flight();
        self.groups.remove_all(&self.ring, in_flight > 0);
        if in_flight > 0 {
            tracing::warn!(
                in_flight,
                "a ring is closed with attempts in flight: what they use is kept for ever"
            );
            self.requests.leak();
        }
    }
}
