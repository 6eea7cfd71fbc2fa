//! One's part in a region: getting it, sending into it, and going on when a pump or the region itself is another one.

use std::time::{Duration, Instant};

use transload::pump::{LENGTH_BYTES, SlotLayout};
use transload::shared::handover::{self, HandoverError, Name, Standing, Steward, Terms};
use transload::shared::{OutOfBuffer, SharedLease, SharedPool, SharedRegion, SharedRing};

use super::watch::Watch;
use crate::failure::Failure;
use crate::output::complain;
use crate::send::args::SendArgs;
use crate::send::report::StoppedBy;

/// How long one waits before one looks at time, signals and pumps again.
const TURN: Duration = Duration::from_millis(50);

/// How often one looks at those while there is room.
const CHECK: Duration = Duration::from_millis(100);

/// How long there may be no pump before that is told, or fails.
const ABSENCE: Duration = Duration::from_secs(1);

/// Zeros behind a payload, so many at once.
const ZEROS: [u8; 1024] = [0; 1024];

/// A part in a region, and what was done with it.
#[derive(Debug)]
pub(super) struct Session<'a> {
    args: &'a SendArgs,
    name: &'a Name,
    part: Part,
    pump: Presence,
    checked: Instant,
    pub(super) messages: u64,
    pub(super) bytes: u64,
    /// How often another pump, or another region, took the place of the one before.
    pub(super) reconnects: u64,
    /// Messages, of all who sent, that were not done in a region when this left it for another.
    pub(super) left_behind: u64,
    pub(super) waited: Duration,
}

/// What a process has of a region.
#[derive(Debug)]
struct Part {
    // Before the member's part: while this is served, it is the member's.
    steward: Steward,
    pool: SharedPool,
    ring: SharedRing,
    slots: Slots,
}

/// What the slots of a region hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slots {
    pub(super) bytes: usize,
    pub(super) layout: SlotLayout,
}

impl Slots {
    /// The most bytes of payload in one.
    pub(super) fn payload_bytes(self) -> usize {
        self.layout.payload_bytes(self.bytes)
    }

    /// Writes a message as a slot holds it.
    fn fill(self, lease: &mut SharedLease, payload: &[u8]) -> Result<(), OutOfBuffer> {
        let mut at = 0;
        let mut write = |part: &[u8]| {
            lease.write_at(at, part)?;
            at += part.len();
            Ok(at)
        };
        if self.layout == SlotLayout::Prefixed {
            let length: [u8; LENGTH_BYTES] = u32::try_from(payload.len()).unwrap_or(u32::MAX).to_le_bytes();
            write(&length)?;
        }
        let mut filled = write(payload)?;
        while filled < self.bytes {
            filled = write(&ZEROS[..ZEROS.len().min(self.bytes - filled)])?;
        }
        Ok(())
    }

    fn of(region: &SharedRegion, name: &Name) -> Result<Self, Failure> {
        let layout = SlotLayout::of_code(region.user_word()).ok_or_else(|| {
            let word = region.user_word();
            Failure::new(
                "region",
                format!("shm:{name} does not say how messages lie in its slots (its word is {word:#x})"),
            )
            .fix("it was made by another program: use a region of transload pump")
        })?;
        Ok(Self { bytes: region.buffer_size(), layout })
    }
}

/// Whether a pump takes from the region, as far as was seen.
#[derive(Clone, Copy, Debug, Default)]
struct Presence {
    /// The last one that was seen: member and process.
    last: Option<(u16, u32)>,
    absent_since: Option<Instant>,
    is_told: bool,
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Sent,
    /// It is time to stop, and it is not sent.
    Stopped,
}

impl<'a> Session<'a> {
    /// Takes part in a region as soon as there is one. Nothing if it is time to stop before.
    pub(super) fn connect(
        args: &'a SendArgs,
        name: &'a Name,
        watch: &mut Watch,
    ) -> Result<Option<Self>, Failure> {
        let started = Instant::now();
        let Some(part) = Part::get(args, name, watch)? else { return Ok(None) };
        let mut session = Self {
            args,
            name,
            part,
            pump: Presence::default(),
            checked: Instant::now(),
            messages: 0,
            bytes: 0,
            reconnects: 0,
            left_behind: 0,
            waited: started.elapsed(),
        };
        session.check(watch)?;
        Ok(Some(session))
    }

    pub(super) fn slots(&self) -> Slots {
        self.part.slots
    }

    pub(super) fn member(&self) -> u16 {
        self.part.pool.member()
    }

    pub(super) fn region(&self) -> &SharedRegion {
        self.part.pool.region()
    }

    /// Sends a message, and waits for room. If it is to be kept, it is also when it is time to stop, until it is overdue.
    pub(super) fn send(
        &mut self,
        payload: &[u8],
        is_kept: bool,
        watch: &mut Watch,
    ) -> Result<Outcome, Failure> {
        loop {
            if self.checked.elapsed() >= CHECK {
                self.check(watch)?;
            }
            let mut is_sent = self.part.try_send(self.name, payload, Duration::ZERO)?;
            if !is_sent {
                let started = Instant::now();
                is_sent = self.part.try_send(self.name, payload, TURN)?;
                self.waited += started.elapsed();
            }
            if is_sent {
                self.messages += 1;
                self.bytes += payload.len() as u64;
                return Ok(Outcome::Sent);
            }
            match watch.overdue() {
                Some(why) if is_kept => {
                    return Err(Watch::unsent(why, "there was room for all that had been read"));
                }
                Some(_) => return Ok(Outcome::Stopped),
                None if watch.is_over() && !is_kept => return Ok(Outcome::Stopped),
                None => {}
            }
        }
    }

    /// Waits until all that was sent is done.
    pub(super) fn drain(&mut self, watch: &mut Watch) -> Result<(), Failure> {
        // Of this region: what was sent into one before is not to be seen any more.
        let mut region = self.region().id();
        let mut target = self.part.ring.published();
        let mut turn = Duration::from_micros(50);
        while self.messages > 0 && self.part.ring.done() < target {
            if let Some(why) = watch.overdue() {
                let left = target.saturating_sub(self.part.ring.done());
                let rest = format!(
                    "a pump was done with all; at most {left} messages of this one are in the region"
                );
                return Err(Watch::unsent(why, &rest));
            }
            std::thread::sleep(turn);
            turn = (turn * 2).min(TURN);
            if self.checked.elapsed() >= CHECK {
                self.check(watch)?;
                if self.region().id() != region {
                    (region, target) = (self.region().id(), 0);
                }
            }
        }
        Ok(())
    }

    /// Looks whether the region is still the one of its name, and whether a pump takes from it.
    pub(super) fn check(&mut self, watch: &mut Watch) -> Result<(), Failure> {
        self.checked = Instant::now();
        if self.part.steward.standing() == Standing::Superseded {
            return self.go_over(watch);
        }
        let taker = self.region().taker().filter(|taker| taker.alive);
        let Some(pump) = taker.map(|taker| (taker.member, taker.pid)) else { return self.miss_pump() };
        let is_another = self.pump.last.is_some_and(|last| last != pump || self.pump.absent_since.is_some());
        self.reconnects += u64::from(is_another);
        if self.pump.is_told {
            complain(&format!("process {} takes from shm:{}, and this goes on", pump.1, self.name));
        }
        self.pump = Presence { last: Some(pump), ..Presence::default() };
        Ok(())
    }

    fn miss_pump(&mut self) -> Result<(), Failure> {
        let absent = self.pump.absent_since.get_or_insert_with(Instant::now).elapsed();
        if absent < ABSENCE {
            return Ok(());
        }
        let name = self.name;
        if self.args.no_reconnect {
            return Err(Failure::new("connect", format!("no pump takes from shm:{name} any more")).fix(
                format!(
                    "start one: transload pump --from shm:{name}; without --no-reconnect it is waited for"
                ),
            ));
        }
        if !std::mem::replace(&mut self.pump.is_told, true) {
            complain(&format!("no pump takes from shm:{name}: waits for one"));
        }
        Ok(())
    }

    /// Takes part in the region that has the name now.
    fn go_over(&mut self, watch: &mut Watch) -> Result<(), Failure> {
        let left = self.part.ring.len();
        complain(&format!(
            "shm:{} is another region by now: goes over to it; {left} messages were not done in the old one",
            self.name
        ));
        let started = Instant::now();
        let Some(part) = Part::get(self.args, self.name, watch)? else { return Ok(()) };
        if part.slots != self.part.slots {
            return Err(Failure::new(
                "region",
                format!("shm:{} has slots of another size or layout by now", self.name),
            )
            .fix("start this again"));
        }
        self.part = part;
        self.pump = Presence::default();
        self.reconnects += 1;
        self.left_behind += left as u64;
        self.waited += started.elapsed();
        Ok(())
    }
}

impl Part {
    /// Waits for somebody who has the region, unless it is not to. Nothing if it is time to stop.
    fn get(args: &SendArgs, name: &Name, watch: &mut Watch) -> Result<Option<Self>, Failure> {
        let terms = Terms::new().patience(ABSENCE);
        let terms = args.allow_uid.iter().fold(terms, |terms, uid| terms.allow_uid(*uid));
        let mut is_told = false;
        loop {
            let error = match handover::attach(name, &terms) {
                Ok((region, post)) => return Self::join(name, &region, post).map(Some),
                Err(error) => error,
            };
            let may_come = matches!(
                error,
                HandoverError::NotThere { .. }
                    | HandoverError::Unserved { .. }
                    | HandoverError::NotAnswering { .. }
            );
            if watch.is_over() && watch.why() == Some(StoppedBy::Signal) {
                return Ok(None);
            }
            if args.no_reconnect || !may_come || watch.is_over() {
                let failure = Failure::new("connect", &error);
                let is_missing = matches!(error, HandoverError::NotThere { .. });
                let fix = format!("start one that makes it: transload pump --from shm:{name}");
                return Err(if is_missing { failure.fix(fix) } else { failure });
            }
            if !std::mem::replace(&mut is_told, true) {
                complain(&format!("{error}: waits for it"));
            }
            std::thread::sleep(TURN);
        }
    }

    fn join(name: &Name, region: &SharedRegion, post: handover::Post) -> Result<Self, Failure> {
        let slots = Slots::of(region, name)?;
        let me = format!("send-{}", std::process::id());
        let pool = SharedPool::join(region, &me).map_err(|error| Failure::new("region", error))?;
        let look = pool.clone();
        let steward = Steward::start(post, move || {
            look.recover();
        });
        let steward = steward.map_err(|error| Failure::new("region", error))?;
        Ok(Self { steward, ring: pool.ring(), pool, slots })
    }

    /// Sends a message, if there is a buffer and room within this time.
    fn try_send(&self, name: &Name, payload: &[u8], timeout: Duration) -> Result<bool, Failure> {
        let lease = match timeout {
            Duration::ZERO => self.pool.try_acquire(),
            timeout => self.pool.acquire_timeout(timeout),
        };
        let mut lease = match lease {
            Ok(lease) => lease,
            Err(error) if error.is_exhausted() => return Ok(false),
            Err(error) => return Err(spoilt(name, error)),
        };
        let bytes = self.slots.bytes;
        self.slots.fill(&mut lease, payload).map_err(|error| spoilt(name, error))?;
        let sent = match timeout {
            Duration::ZERO => self.ring.try_send(lease, bytes),
            timeout => self.ring.send_timeout(lease, bytes, timeout),
        };
        match sent {
            Ok(()) => Ok(true),
            Err(refused) if refused.error.is_full() => Ok(false),
            Err(refused) => Err(spoilt(name, refused.error)),
        }
    }
}

/// The region cannot be used any more.
fn spoilt(name: &Name, error: impl std::fmt::Display) -> Failure {
    Failure::new("region", format!("shm:{name}: {error}"))
        .fix("end all processes that have the region, and start a pump anew")
}
