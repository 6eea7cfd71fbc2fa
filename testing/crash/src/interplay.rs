//! What a process does while another one stands in the middle of an operation.

use transload::shared::{ConsumerError, SendError, SharedAcquireError, TakeError};
use transload_core::SwapBarrier;

use crate::scene::{Fault, Scene, VICTIM};

/// What the survivor does meanwhile: whole operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interplay {
    /// Takes a buffer, writes to it and keeps it.
    Acquire,
    /// Takes all buffers, and gives them back.
    Churn,
    /// Sends one message.
    Send,
    /// Sends until there is no room.
    Fill,
    /// Becomes the consumer and takes all, if nobody is.
    Consume,
    /// Wrong on purpose: takes whoever does not move for dead, and uses what it had.
    Presume,
}

/// All that are right.
pub const INTERPLAYS: [Interplay; 5] =
    [Interplay::Acquire, Interplay::Churn, Interplay::Send, Interplay::Fill, Interplay::Consume];

/// What the first of its messages has in it.
const FIRST_ID: u64 = 300;

impl Interplay {
    /// Acts, and then recovers: the other one lives, and must lose nothing.
    ///
    /// # Errors
    ///
    /// What went wrong.
    pub fn act(self, scene: &mut Scene) -> Result<(), Fault> {
        match self {
            Interplay::Acquire => acquire(scene)?,
            Interplay::Churn => {
                let pool = scene.survivor();
                let leases: Vec<_> = std::iter::from_fn(|| pool.try_acquire().ok()).collect();
                drop(leases);
            }
            Interplay::Send => send(scene, 1)?,
            Interplay::Fill => send(scene, 99)?,
            Interplay::Consume => consume(scene)?,
            Interplay::Presume => {
                scene.view().parts().recover(VICTIM, &SwapBarrier);
                acquire(scene)?;
            }
        }
        let before: Vec<u64> = scene.words_of(VICTIM);
        let recovered = scene.survivor().recover();
        if !recovered.is_empty() && !scene.has_corpse() {
            return Err(format!("a living member lost something: {recovered:?}"));
        }
        let after = scene.words_of(VICTIM);
        if before == after {
            Ok(())
        } else {
            Err(format!("a living member had {before:x?}, and has {after:x?}"))
        }
    }
}

fn acquire(scene: &mut Scene) -> Result<(), Fault> {
    match scene.survivor().try_acquire() {
        Ok(lease) => {
            scene.keep(lease);
            Ok(())
        }
        Err(SharedAcquireError::Exhausted) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

fn send(scene: &mut Scene, most: u64) -> Result<(), Fault> {
    for id in (FIRST_ID..).take(usize::try_from(most).unwrap_or(0)) {
        match scene.send(id) {
            Ok(()) => {}
            Err(SendError::Full) => break,
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(())
}

fn consume(scene: &mut Scene) -> Result<(), Fault> {
    let mut consumer = match scene.survivor().ring().consumer() {
        Ok(consumer) => consumer,
        Err(ConsumerError::InUse { member: VICTIM, .. }) if scene.operation().may_be_consumer() => {
            return Ok(());
        }
        // Its number is written down a moment after its lock is taken, and struck out a moment before.
        Err(ConsumerError::InUse { member: 0, .. }) if scene.operation().may_be_consumer() => return Ok(()),
        Err(error) => return Err(error.to_string()),
    };
    let expected = scene.expected();
    let mut taken = Vec::new();
    loop {
        match crate::scene::take(&mut consumer, 3) {
            Ok(Some(more)) => taken.extend(more),
            Ok(None) => break,
            // The other one is about to recover that member.
            Err(TakeError::Blocked { .. }) if scene.has_corpse() => break,
            Err(error) => return Err(format!("a take meanwhile: {error}")),
        }
    }
    if !expected.starts_with(&taken) || (taken.len() < expected.len() && !scene.has_corpse()) {
        return Err(format!("{taken:?} arrived meanwhile, not {expected:?}"));
    }
    scene.note_done(taken.iter().map(|message| message.id));
    Ok(())
}
