//! The two sides of a run: there and back again, and one way.

use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use serde::{Deserialize, Serialize};

use super::content::{Content, Seen};
use super::link::Link;
use crate::message::{tag, untag};

/// What a message is for: who asks, who answers, and which is the last of its kind.
const ASK: usize = 0;
const ANSWER: usize = 1;
const LAST_ASK: usize = 2;
const LAST_ANSWER: usize = 3;

/// Round trips before the clock starts.
const WARM_UP_TRIPS: u64 = 2000;
/// Operations between two looks at the clock.
const CHUNK: u64 = 64;
/// Whoever has seen nothing happen for so long gives up.
const GIVE_UP: Duration = Duration::from_secs(20);

/// When a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Until {
    /// After this time.
    Time(Duration),
    /// After so many messages.
    Messages(u64),
}

/// What one timed run yields.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// Messages, or round trips.
    pub count: u64,
    /// The time that they took.
    pub elapsed: Duration,
}

#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
impl Outcome {
    /// Nanoseconds for each.
    pub fn nanoseconds(&self) -> f64 {
        self.elapsed.as_secs_f64() * 1e9 / self.count as f64
    }

    /// How many a second.
    pub fn per_second(&self) -> f64 {
        self.count as f64 / self.elapsed.as_secs_f64()
    }
}

impl Until {
    fn is_over(self, done: u64, begun: Instant) -> bool {
        match self {
            Self::Time(time) => begun.elapsed() >= time,
            Self::Messages(count) => done >= count,
        }
    }
}

/// How long nothing has happened. Looks at the clock seldom.
#[derive(Debug, Default)]
struct Watch {
    polls: u32,
    since: Option<Instant>,
}

impl Watch {
    #[inline]
    fn nothing(&mut self) -> Result<()> {
        self.polls = self.polls.wrapping_add(1);
        if self.polls.is_multiple_of(1 << 20) { self.look() } else { Ok(()) }
    }

    #[cold]
    fn look(&mut self) -> Result<()> {
        let since = *self.since.get_or_insert_with(Instant::now);
        ensure!(since.elapsed() < GIVE_UP, "the other side has done nothing for {} s", GIVE_UP.as_secs());
        Ok(())
    }
}

#[inline]
fn send<const WORDS: usize, C: Content>(link: &mut impl Link<WORDS>, tag: u64) -> Result<()> {
    let mut watch = Watch::default();
    while !link.send::<C>(tag)? {
        watch.nothing()?;
    }
    Ok(())
}

/// The one message that arrives next.
#[inline]
fn receive<const WORDS: usize, C: Content>(link: &mut impl Link<WORDS>) -> Result<Seen> {
    let mut watch = Watch::default();
    let mut only = None;
    while link.receive::<C>(|seen| {
        ensure!(only.replace(seen).is_none(), "two messages where one was sent");
        Ok(())
    })? == 0
    {
        watch.nothing()?;
    }
    match only {
        Some(seen) => Ok(seen),
        None => bail!("a message was counted and not shown"),
    }
}

#[inline]
fn expect(seen: Seen, expected: u64) -> Result<()> {
    if seen == (Seen { tag: expected, is_whole: true }) { Ok(()) } else { refuse(seen, expected) }
}

#[cold]
fn refuse(seen: Seen, expected: u64) -> Result<()> {
    let Seen { tag, is_whole } = seen;
    let state = if is_whole { "whole" } else { "torn" };
    bail!("message {:?} arrived {state} where {:?} was due", untag(tag), untag(expected))
}

#[inline]
fn trip<const WORDS: usize, C: Content>(link: &mut impl Link<WORDS>, sequence: u64) -> Result<()> {
    send::<WORDS, C>(link, tag(ASK, sequence))?;
    link.prepare()?;
    expect(receive::<WORDS, C>(link)?, tag(ANSWER, sequence))
}

/// Sends messages, each after the answer to the one before.
///
/// # Errors
///
/// When an answer is not what it must be, or does not come.
pub fn ping<const WORDS: usize, C: Content>(link: &mut impl Link<WORDS>, until: Until) -> Result<Outcome> {
    let mut sequence = 0;
    while sequence < WARM_UP_TRIPS {
        trip::<WORDS, C>(link, sequence)?;
        sequence += 1;
    }
    let (begun, mut count) = (Instant::now(), 0);
    while !until.is_over(count, begun) {
        for _ in 0..CHUNK {
            trip::<WORDS, C>(link, sequence)?;
            sequence += 1;
        }
        count += CHUNK;
    }
    let elapsed = begun.elapsed();
    send::<WORDS, C>(link, tag(LAST_ASK, sequence))?;
    expect(receive::<WORDS, C>(link)?, tag(LAST_ANSWER, sequence))?;
    Ok(Outcome { count, elapsed })
}

/// Answers messages until the last.
///
/// # Errors
///
/// When a message is not what it must be, or does not come.
pub fn pong<const WORDS: usize, C: Content>(link: &mut impl Link<WORDS>) -> Result<()> {
    for sequence in 0.. {
        link.prepare()?;
        let seen = receive::<WORDS, C>(link)?;
        if seen.tag == tag(LAST_ASK, sequence) {
            expect(seen, tag(LAST_ASK, sequence))?;
            return send::<WORDS, C>(link, tag(LAST_ANSWER, sequence));
        }
        expect(seen, tag(ASK, sequence))?;
        send::<WORDS, C>(link, tag(ANSWER, sequence))?;
    }
    Ok(())
}

/// Sends as many messages as go through, and waits for the answer to the last.
///
/// # Errors
///
/// When the answer is not what it must be, or does not come.
pub fn pour<const WORDS: usize, C: Content>(
    link: &mut impl Link<WORDS>,
    warm_up: u64,
    until: Until,
) -> Result<Outcome> {
    let mut sequence = 0;
    while sequence < warm_up {
        send::<WORDS, C>(link, tag(ASK, sequence))?;
        sequence += 1;
    }
    let (begun, mut count) = (Instant::now(), 0);
    while !until.is_over(count, begun) {
        for _ in 0..CHUNK {
            send::<WORDS, C>(link, tag(ASK, sequence))?;
            sequence += 1;
        }
        count += CHUNK;
    }
    send::<WORDS, C>(link, tag(LAST_ASK, sequence))?;
    expect(receive::<WORDS, C>(link)?, tag(LAST_ANSWER, sequence))?;
    Ok(Outcome { count, elapsed: begun.elapsed() })
}

/// Takes messages until the last, and answers that.
///
/// # Errors
///
/// When a message is not what it must be, or does not come.
pub fn drain<const WORDS: usize, C: Content>(link: &mut impl Link<WORDS>) -> Result<()> {
    let (mut sequence, mut is_over) = (0, false);
    let mut watch = Watch::default();
    while !is_over {
        let arrived = link.receive::<C>(|seen| {
            if seen.tag == tag(LAST_ASK, sequence) {
                is_over = true;
                return expect(seen, tag(LAST_ASK, sequence));
            }
            expect(seen, tag(ASK, sequence))?;
            sequence += 1;
            Ok(())
        })?;
        if arrived == 0 {
            watch.nothing()?;
        } else {
            watch = Watch::default();
        }
    }
    send::<WORDS, C>(link, tag(LAST_ANSWER, sequence))
}
