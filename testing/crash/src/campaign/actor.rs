//! The members of a campaign: producers, consumers, recoverers. They check what they see, and say so if it is wrong.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::process::Signal;
use transload::shared::{
    SendError, SharedAcquireError, SharedBatch, SharedLease, SharedPool, SharedRegion, TakeError,
};
use transload_core::SwapBarrier;

use super::side::{Life, Phase, Side};
use crate::random::Random;
use crate::view::View;

/// Bytes of a message.
const MESSAGE_BYTES: usize = 96;
/// How long anybody waits before it looks whether the campaign is over.
const SHORT: Duration = Duration::from_millis(5);

/// What a member does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Sends, and takes buffers that it gives back.
    Producer,
    /// Wrong on purpose: says that a message is sent before it is.
    HastyProducer,
    /// Takes.
    Consumer,
    /// Wrong on purpose: is done with some messages without a look at them.
    CarelessConsumer,
    /// Recovers, joins and leaves.
    Recoverer,
    /// Wrong on purpose: takes the living for dead.
    Murderer,
}

const NAMES: [(&str, Role); 6] = [
    ("producer", Role::Producer),
    ("hasty-producer", Role::HastyProducer),
    ("consumer", Role::Consumer),
    ("careless-consumer", Role::CarelessConsumer),
    ("recoverer", Role::Recoverer),
    ("murderer", Role::Murderer),
];

impl Role {
    /// Its name.
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(_, role)| *role == self).map_or("?", |(name, _)| name)
    }

    /// The role of this name.
    pub fn of(name: &str) -> Option<Role> {
        NAMES.iter().find(|(other, _)| *other == name).map(|&(_, role)| role)
    }
}

/// One member.
struct Actor {
    side: Side,
    region: SharedRegion,
    /// Which of the actors.
    number: usize,
    life: usize,
    random: Random,
}

/// Acts until the campaign is over, as the `number`th actor, in its `life`th life.
///
/// # Errors
///
/// What it saw that must not be.
pub fn act(role: Role, [number, life, seed]: [u64; 3], region: OwnedFd, side: OwnedFd) -> Result<(), String> {
    // Nobody is left behind.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| error.to_string())?;
    // Whoever kills them is to have its turn at once, and so to find them at work.
    rustix::process::setpriority_process(None, 10).map_err(|error| error.to_string())?;
    let number = usize::try_from(number).map_err(|error| error.to_string())?;
    let life = usize::try_from(life).map_err(|error| error.to_string())?;
    let side = Side::open(side).map_err(|error| error.to_string())?;
    let region = SharedRegion::open(region).map_err(|error| error.to_string())?;
    let random = Random::new(seed ^ (number as u64) << 40 ^ (life as u64) << 20);
    let mut actor = Actor { side, region, number, life, random };
    match role {
        Role::Producer => actor.produce(false),
        Role::HastyProducer => actor.produce(true),
        Role::Consumer => actor.consume(false),
        Role::CarelessConsumer => actor.consume(true),
        Role::Recoverer => actor.recover(),
        Role::Murderer => actor.murder(),
    }
}

impl Actor {
    fn join(&self, name: &str) -> Result<SharedPool, String> {
        let pool = SharedPool::join(&self.region, name).map_err(|error| error.to_string())?;
        self.side.member(self.number).store(pool.member().into());
        Ok(pool)
    }

    fn produce(&mut self, is_hasty: bool) -> Result<(), String> {
        let life = Life { producer: self.number, life: self.life };
        let pool = self.join("producer")?;
        let ring = pool.ring();
        let mut sent = 0;
        while self.side.phase() == Phase::Running {
            let message = message(life, sent + 1);
            if is_hasty {
                self.side.acked(life).store(sent + 1);
            }
            let outcome = match self.random.below(16) {
                // Taken, and not needed: the most frequent, as it is always possible, and nobody waits.
                0..10 => {
                    lease(&pool)?
                        .map_or(Ok(()), |mut lease| lease.write_at(0, &message))
                        .map_err(|error| error.to_string())?;
                    continue;
                }
                10 => ring.send_copy_timeout(&message, SHORT),
                11..13 => ring.try_send_copy(&message),
                _ => match lease(&pool)? {
                    Some(mut lease) => {
                        lease.write_at(0, &message).map_err(|error| error.to_string())?;
                        ring.try_send(lease, message.len()).map_err(|refused| refused.error)
                    }
                    None => Err(SendError::Full),
                },
            };
            match outcome {
                Ok(()) => {
                    sent += 1;
                    self.side.acked(life).store(sent);
                }
                Err(SendError::Full) if self.random.one_in(8) => std::thread::yield_now(),
                Err(SendError::Full) => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(())
    }

    fn consume(&mut self, is_careless: bool) -> Result<(), String> {
        let pool = self.join("consumer")?;
        let mut consumer = pool.ring().consumer().map_err(|error| error.to_string())?;
        let mut ledger = Ledger { side: &self.side, last: HashMap::new() };
        let mut held: Option<SharedBatch> = None;
        loop {
            let phase = self.side.phase();
            let most = 1 + self.random.index(8);
            match consumer.take(most) {
                Ok(batch) => {
                    if is_careless && self.random.one_in(50) {
                        drop(batch);
                        continue;
                    }
                    ledger.enter(&batch)?;
                    if held.is_none() && self.random.one_in(4) {
                        held = Some(batch);
                        continue;
                    }
                    if self.random.one_in(4) {
                        // Not in order: what is done then is no run.
                        ledger.end(batch, &mut self.random, held.is_none())?;
                    } else {
                        held.take().map_or(Ok(()), |first| ledger.end(first, &mut self.random, true))?;
                        ledger.end(batch, &mut self.random, true)?;
                    }
                }
                Err(TakeError::Empty) => {
                    held.take().map_or(Ok(()), |first| ledger.end(first, &mut self.random, true))?;
                    let is_ready = consumer.wait_timeout(SHORT).map_err(|error| error.to_string())?;
                    if phase == Phase::Draining && !is_ready {
                        return Ok(());
                    }
                }
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    fn recover(&mut self) -> Result<(), String> {
        let mut pool = self.join("recoverer")?;
        while self.side.phase() == Phase::Running {
            pool.recover();
            match self.random.below(16) {
                0 => {
                    // Before somebody else may have the number.
                    self.side.member(self.number).store(0);
                    drop(pool);
                    pool = self.join("recoverer")?;
                }
                1 => drop(pool.holders()),
                2 => drop(pool.statistics()),
                3 => drop(lease(&pool)?),
                4 => std::thread::sleep(Duration::from_micros(self.random.below(500))),
                _ => std::thread::yield_now(),
            }
        }
        Ok(())
    }

    fn murder(&mut self) -> Result<(), String> {
        let _pool = self.join("murderer")?;
        let file = self.region.file_for_peer().map_err(|error| error.to_string())?;
        let view = View::of_file(std::os::fd::AsFd::as_fd(&file)).map_err(|error| error.to_string())?;
        while self.side.phase() == Phase::Running {
            let other = self.random.index(3);
            let member = self.side.member(other).load();
            view.parts().recover(u16::try_from(member).unwrap_or(0), &SwapBarrier);
            std::thread::yield_now();
        }
        Ok(())
    }
}

/// A buffer, if there is one.
fn lease(pool: &SharedPool) -> Result<Option<SharedLease>, String> {
    match pool.try_acquire() {
        Ok(lease) => Ok(Some(lease)),
        Err(SharedAcquireError::Exhausted | SharedAcquireError::Contended) => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

/// What a consumer makes of what it gets.
struct Ledger<'a> {
    side: &'a Side,
    /// The last message of each producer that this consumer got.
    last: HashMap<Life, u64>,
}

impl Ledger<'_> {
    /// Checks each message against what consumers have got before, and writes it down.
    fn enter(&mut self, batch: &SharedBatch) -> Result<(), String> {
        for message in batch.iter() {
            let mut bytes = [0; MESSAGE_BYTES];
            batch.read(&message, &mut bytes).map_err(|error| error.to_string())?;
            let (life, number) =
                read(&bytes).filter(|_| message.len_bytes as usize == MESSAGE_BYTES).ok_or_else(|| {
                    format!("a message of {} bytes that nobody sent: {bytes:x?}", message.len_bytes)
                })?;
            let seen = self.side.seen(life).load();
            let what = || format!("message {number} of {life:?}, of which {seen} are here");
            if number > seen + 1 {
                return Err(format!("a gap: {}", what()));
            }
            if number <= seen && !message.redelivered {
                return Err(format!("a repeat that does not say so: {}", what()));
            }
            if number <= self.side.done(life).load() {
                return Err(format!("done before: {}", what()));
            }
            let last = self.last.insert(life, number);
            // What lies between, a consumer before this one was done with.
            if last.is_some_and(|last| last >= number) {
                return Err(format!("behind {last:?}: {}", what()));
            }
            if number > seen {
                self.side.seen(life).store(number);
            }
        }
        Ok(())
    }

    /// Is done with a batch. `in_order`: with all before it as well.
    fn end(&self, batch: SharedBatch, random: &mut Random, in_order: bool) -> Result<(), String> {
        let mut last = HashMap::new();
        for message in batch.iter() {
            let mut bytes = [0; MESSAGE_BYTES];
            batch.read(&message, &mut bytes).map_err(|error| error.to_string())?;
            last.extend(read(&bytes));
        }
        if random.one_in(4) {
            drop(batch.into_leases());
        } else {
            drop(batch);
        }
        if in_order {
            for (life, number) in last {
                self.side.done(life).store(number);
            }
        }
        Ok(())
    }
}

fn message(life: Life, number: u64) -> [u8; MESSAGE_BYTES] {
    let mut bytes = [0; MESSAGE_BYTES];
    let words = [life.producer as u64, life.life as u64, number];
    for (nth, bytes) in bytes.chunks_exact_mut(8).enumerate() {
        // The numbers over and over, each time another way.
        bytes.copy_from_slice(&(words[nth % 3] ^ (nth as u64 / 3) << 56).to_le_bytes());
    }
    bytes
}

/// Whose it is, and which; nothing if its parts do not fit.
fn read(bytes: &[u8; MESSAGE_BYTES]) -> Option<(Life, u64)> {
    let word = |nth: usize| u64::from_le_bytes(bytes.as_chunks().0[nth]);
    let (producer, life) = (usize::try_from(word(0)).ok()?, usize::try_from(word(1)).ok()?);
    let life = Life { producer, life };
    let is_known = producer < super::side::PRODUCERS && life.life < super::side::LIVES;
    (is_known && *bytes == message(life, word(2))).then(|| (life, word(2)))
}
