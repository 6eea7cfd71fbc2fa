//! Who kills, stops and replaces the members of a campaign, and checks the end.

use std::fmt;
use std::thread::sleep;
use std::time::{Duration, Instant};

use transload::shared::{SharedPool, SharedRegion, TakeError};
use transload_core::SlotState;

use super::actor::Role;
use super::puppet::Puppet;
use super::side::{ACTORS, LIVES, Life, PRODUCERS, Phase, Side};
use crate::random::Random;
use crate::scene::Fault;
use crate::victim::Victim;
use crate::view::View;

const BUFFERS: usize = 32;
const BUFFER_BYTES: usize = 128;
const RING_SLOTS: usize = 16;
const MEMBERS: usize = 12;
/// How often a producer is looked at before it is killed, so that it is in the middle of something.
const TRIES: u64 = 20;
/// No end takes a tenth of it.
const PATIENCE: Duration = Duration::from_secs(30);

/// Who takes part: in the place of the usual ones, those that are wrong on purpose.
#[derive(Clone, Copy, Debug)]
pub struct Cast {
    /// The first producer.
    pub producer: Role,
    /// The consumer.
    pub consumer: Role,
    /// The first recoverer.
    pub recoverer: Role,
}

impl Default for Cast {
    fn default() -> Self {
        Self { producer: Role::Producer, consumer: Role::Consumer, recoverer: Role::Recoverer }
    }
}

/// What happened in a campaign.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Kills of producers, the consumer and recoverers.
    pub kills: [u64; 3],
    /// Those of a producer with a buffer, or with a message that was not in the ring yet.
    pub in_the_middle: u64,
    /// Stops, after which it went on or was killed.
    pub stops: u64,
    /// Messages that arrived.
    pub messages: u64,
    /// Those that came once more, and said so.
    pub redelivered: u64,
    /// Messages that arrived though their send had not returned.
    pub unacknowledged: u64,
    /// Buffers taken from the dead.
    pub reclaimed: u64,
}

struct Director {
    victim: Victim,
    cast: Cast,
    seed: u64,
    random: Random,
    region: SharedRegion,
    view: View,
    side: Side,
    puppets: [Option<Puppet>; ACTORS],
    lives: [usize; ACTORS],
    tally: Tally,
}

/// Runs a campaign for so long.
///
/// # Errors
///
/// What must not be.
pub fn run(victim: &Victim, cast: Cast, seed: u64, time: Duration) -> Result<Tally, Fault> {
    let builder = SharedRegion::builder(BUFFERS, BUFFER_BYTES).ring_slots(RING_SLOTS).members(MEMBERS);
    let region = builder.create().map_err(|error| error.to_string())?;
    let view = View::of(&region).map_err(|error| error.to_string())?;
    let mut director = Director {
        victim: victim.clone(),
        cast,
        seed,
        random: Random::new(seed),
        region,
        view,
        side: Side::create().map_err(|error| error.to_string())?,
        puppets: [const { None }; ACTORS],
        lives: [0; ACTORS],
        tally: Tally::default(),
    };
    let end = Instant::now() + time;
    (0..ACTORS).try_for_each(|actor| director.start(actor))?;
    while Instant::now() < end {
        director.turn()?;
    }
    director.end()?;
    Ok(director.tally)
}

impl Director {
    fn role(&self, actor: usize) -> Role {
        match actor {
            0 => self.cast.producer,
            _ if actor < PRODUCERS => Role::Producer,
            PRODUCERS => self.cast.consumer,
            _ if actor == PRODUCERS + 1 => self.cast.recoverer,
            _ => Role::Recoverer,
        }
    }

    fn start(&mut self, actor: usize) -> Result<(), Fault> {
        self.side.member(actor).store(0);
        let numbers = [actor as u64, self.lives[actor] as u64, self.seed];
        let puppet = Puppet::start(&self.victim, self.role(actor), numbers, &self.region, &self.side);
        self.puppets[actor] = Some(puppet.map_err(|error| error.to_string())?);
        Ok(())
    }

    /// Lets them act for a moment, and does something to one of them.
    fn turn(&mut self) -> Result<(), Fault> {
        sleep(Duration::from_micros(self.random.below(2000)));
        for actor in 0..ACTORS {
            match &mut self.puppets[actor] {
                Some(puppet) => puppet.check()?,
                // The dead are not always replaced at once.
                None if self.random.one_in(2) => self.start(actor)?,
                None => {}
            }
        }
        let actor = match self.random.below(10) {
            0..6 => self.random.index(PRODUCERS),
            6..8 => PRODUCERS,
            _ => PRODUCERS + 1 + self.random.index(ACTORS - PRODUCERS - 1),
        };
        if self.puppets[actor].is_none() {
            return Ok(());
        }
        if self.random.one_in(4) {
            self.stop(actor)
        } else {
            self.aim(actor)?;
            self.kill(actor)
        }
    }

    /// Waits until it is in the middle of something, if that comes soon.
    fn aim(&mut self, actor: usize) -> Result<(), Fault> {
        let tries = if actor < PRODUCERS { self.random.below(TRIES) } else { 0 };
        for _ in 0..tries {
            let Some(puppet) = &mut self.puppets[actor] else { break };
            puppet.stop()?;
            if self.is_in_the_middle(actor) {
                self.tally.in_the_middle += 1;
                break;
            }
            if let Some(puppet) = &self.puppets[actor] {
                puppet.go_on()?;
            }
            // Time enough for it to get a processor.
            sleep(Duration::from_micros(self.random.below(400)));
        }
        Ok(())
    }

    /// Whether the actor has a buffer, or a message that is not in the ring.
    fn is_in_the_middle(&self, actor: usize) -> bool {
        let member = self.side.member(actor).load();
        let published = self.view.published();
        (0_u32..).zip(self.view.slots()).any(|(index, _)| {
            let slot = self.view.slot(index);
            let is_named = published.iter().any(|published| published.index == index);
            member != 0 && u64::from(slot.owner) == member && !is_named && slot.state != SlotState::Free
        })
    }

    fn kill(&mut self, actor: usize) -> Result<(), Fault> {
        let Some(puppet) = self.puppets[actor].take() else { return Ok(()) };
        puppet.kill()?;
        self.tally.kills[if actor < PRODUCERS { 0 } else { 1 + usize::from(actor > PRODUCERS) }] += 1;
        self.lives[actor] += 1;
        if self.lives[actor] == LIVES {
            return Err("the campaign is too long".to_owned());
        }
        if self.random.one_in(2) { self.start(actor) } else { Ok(()) }
    }

    /// Stops it for a while: what it has stays its own.
    fn stop(&mut self, actor: usize) -> Result<(), Fault> {
        let Some(puppet) = &mut self.puppets[actor] else { return Ok(()) };
        puppet.stop()?;
        self.tally.stops += 1;
        let before = self.held_by(actor);
        sleep(Duration::from_micros(self.random.below(15_000)));
        let after = self.held_by(actor);
        if before != after {
            return Err(format!("a stopped {} had {before:x?}, and has {after:x?}", self.role(actor).name()));
        }
        if self.random.one_in(3) {
            return self.kill(actor);
        }
        self.puppets[actor].as_ref().map_or(Ok(()), Puppet::go_on)
    }

    /// The words of the buffers that the actor has, except for messages.
    fn held_by(&self, actor: usize) -> Vec<(usize, u64)> {
        let member = self.side.member(actor).load();
        let words = self.view.slots().iter().map(transload_core::SharedWord::load).enumerate();
        let is_held = |word: u64| word >> 54 == member && [1, 2].contains(&(word >> 50 & 7));
        words.filter(|&(_, word)| member != 0 && is_held(word)).collect()
    }

    /// Lets all come to their end, and checks what is left.
    fn end(&mut self) -> Result<(), Fault> {
        if self.puppets[PRODUCERS].is_none() {
            self.start(PRODUCERS)?;
        }
        self.side.set_phase(Phase::Ending);
        (0..ACTORS).filter(|&actor| actor != PRODUCERS).try_for_each(|actor| self.wait_for(actor))?;
        self.side.set_phase(Phase::Draining);
        self.wait_for(PRODUCERS)?;
        self.check_region()?;
        self.check_lives()
    }

    fn wait_for(&mut self, actor: usize) -> Result<(), Fault> {
        let end = Instant::now() + PATIENCE;
        let role = self.role(actor);
        let Some(mut puppet) = self.puppets[actor].take() else { return Ok(()) };
        while !puppet.is_done()? {
            if Instant::now() > end {
                return Err(format!("a {} does not come to an end", role.name()));
            }
            sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Nothing is lost, and nothing is in anybody's hands.
    fn check_region(&mut self) -> Result<(), Fault> {
        let pool = SharedPool::join(&self.region, "director").map_err(|error| error.to_string())?;
        pool.recover();
        let mut consumer = pool.ring().consumer().map_err(|error| error.to_string())?;
        match consumer.take(1) {
            Err(TakeError::Empty) => {}
            other => return Err(format!("in the end there is {other:?}")),
        }
        let statistics = pool.statistics();
        let is_whole = statistics.free == BUFFERS && statistics.pending == 0;
        if !is_whole || statistics.spoiled != 0 || statistics.quarantined != 0 {
            return Err(format!("in the end: {statistics:?}, {:?}", pool.holders()));
        }
        self.tally.redelivered = statistics.redelivered;
        self.tally.reclaimed = statistics.reclaimed;
        Ok(())
    }

    /// Each producer's messages have arrived up to the last that it knew to be sent, and at most one more.
    fn check_lives(&mut self) -> Result<(), Fault> {
        for producer in 0..PRODUCERS {
            for life in (0..=self.lives[producer]).map(|life| Life { producer, life }) {
                let (acked, seen) = (self.side.acked(life).load(), self.side.seen(life).load());
                if seen < acked || seen > acked + 1 {
                    return Err(format!("{life:?} had sent {acked} messages, and {seen} arrived"));
                }
                self.tally.messages += seen;
                self.tally.unacknowledged += seen - acked;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kills: [producers, consumers, recoverers], in_the_middle, stops, .. } = self;
        let Self { messages, redelivered, unacknowledged, reclaimed, .. } = self;
        write!(f, "killed {producers} producers ({in_the_middle} of them in the middle of something), ")?;
        write!(f, "{consumers} consumers, {recoverers} recoverers; {stops} stops; {messages} messages, ")?;
        write!(f, "{redelivered} redelivered, {unacknowledged} of a send that had not returned; ")?;
        write!(f, "{reclaimed} buffers reclaimed")
    }
}
