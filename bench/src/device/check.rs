//! Before and after anything is timed: does the device's queue hold what was sent?

use std::ops::Range;

use anyhow::{Context, Result, ensure};

use super::shape::Shape;
use super::side::{Place, Run, Side, Until};
use crate::message::{first_word, is_whole, tag};

/// Runs of one batch, of two, and so on up to so many bytes: so each batch up to there is once the last one, and every byte
/// of it is compared.
///
/// # Errors
///
/// When a batch is missing, or another one stands in its place.
pub fn verify(side: &mut dyn Side, shape: &Shape, bytes: u64) -> Result<()> {
    for batches in 1..=(bytes / shape.batch_bytes as u64).max(1) {
        let run = side.run(Until::Batches(batches))?;
        let expected = batches * shape.batch_messages() as u64;
        ensure!(
            run.messages == expected,
            "{} at {shape}: {} of {expected} messages landed",
            side.name(),
            run.messages
        );
        check(&run, shape).with_context(|| format!("{} at {shape}, after {batches} batches", side.name()))?;
    }
    Ok(())
}

/// Compares what stands in the queue after a run with what was sent last, as far back as nothing newer has overwritten it.
///
/// # Errors
///
/// When a message is missing, damaged or another one, and when it is not said where the last ones are.
pub fn check(run: &Run, shape: &Shape) -> Result<()> {
    let mut newer: Vec<&Range<usize>> = Vec::new();
    let mut end = run.messages;
    for place in run.last.iter().rev() {
        let Place { position, messages, at } = place;
        ensure!(
            position + *messages as u64 == end,
            "messages {position} and {messages} more landed in front of {end}"
        );
        if newer.iter().any(|newer| newer.start < at.end && at.start < newer.end) {
            break;
        }
        compare(run, shape, place)?;
        newer.push(at);
        end = *position;
    }
    ensure!(!newer.is_empty(), "{} messages landed, and it is not known where", run.messages);
    Ok(())
}

fn compare(run: &Run, shape: &Shape, place: &Place) -> Result<()> {
    let Place { position, messages, at } = place;
    let landed = run.queue.get(at.clone()).unwrap_or_default();
    ensure!(
        landed.len() == messages * shape.message_bytes,
        "{} bytes at {at:?} are not {messages} messages",
        landed.len()
    );
    for (number, message) in (*position..).zip(landed.chunks_exact(shape.message_bytes)) {
        let slot = number % shape.capacity() as u64;
        let is_there = first_word(message) == tag(0, slot) && is_whole(message);
        ensure!(is_there, "message {number} is not where it should have landed, in {at:?}");
    }
    Ok(())
}
