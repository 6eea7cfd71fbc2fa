//! A back end that does what a test tells it to: for what no kernel does on demand. Not a stand-in for one: the
//! conformance suite runs on the real ones.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;

use super::backend::{Alarm, Attempt, Backend, Completion, Event, Group};
use super::capability::Capabilities;
use super::choice::{self, Choice};
use super::engine::Engine;
use super::handle::Handle;
use super::key::Key;
use super::shared::Shared;
use crate::memory::Slab;
use crate::pool::BufferPool;

/// What the engine has asked of the back end, in short.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// A send of so many bytes.
    Send {
        key: Key,
        bytes: usize,
        zero_copy: bool,
        linked: bool,
    },
    Receive(Key),
    Accept(Key),
    Other(Key),
    Cancel(Key),
}

impl Asked {
    pub(super) fn key(&self) -> Key {
        match *self {
            Self::Send { key, .. }
            | Self::Receive(key)
            | Self::Accept(key)
            | Self::Other(key)
            | Self::Cancel(key) => key,
        }
    }
}

#[derive(Debug, Default)]
struct Script {
    asked: Vec<Asked>,
    completions: Vec<Completion>,
    /// How long the last wait might have taken.
    patience: Option<Duration>,
}

/// The test's end of the back end.
#[derive(Clone, Debug, Default)]
pub(super) struct Director(Rc<RefCell<Script>>);

impl Director {
    /// What was asked since the last call.
    pub(super) fn asked(&self) -> Vec<Asked> {
        std::mem::take(&mut self.0.borrow_mut().asked)
    }

    /// Whether the last wait would have slept until something happens.
    pub(super) fn would_sleep(&self) -> bool {
        self.0.borrow().patience.is_none()
    }

    /// The next wait brings this.
    pub(super) fn completes(&self, key: Key, event: Event, more: bool) {
        self.0.borrow_mut().completions.push(Completion { key, event, more });
    }
}

struct Scripted(Director);

struct Silent;

impl Alarm for Silent {
    fn ring(&self) {}
}

impl Scripted {
    fn note(&self, asked: Asked) {
        self.0.0.borrow_mut().asked.push(asked);
    }
}

impl Backend for Scripted {
    fn capabilities(&self) -> Capabilities {
        Capabilities::ALL
    }

    fn alarm(&self) -> Arc<dyn Alarm> {
        Arc::new(Silent)
    }

    fn start(&mut self, key: Key, attempt: Attempt<'_>) {
        self.note(match attempt {
            Attempt::Send { pieces, zero_copy, linked, .. } => {
                let bytes = pieces.iter().map(|piece| piece.len_bytes).sum();
                Asked::Send { key, bytes, zero_copy, linked }
            }
            Attempt::ReceiveMany { .. } => Asked::Receive(key),
            Attempt::Accept { .. } => Asked::Accept(key),
            _ => Asked::Other(key),
        });
    }

    fn cancel(&mut self, key: Key) {
        self.note(Asked::Cancel(key));
    }

    fn wait(&mut self, timeout: Option<Duration>, completions: &mut Vec<Completion>) -> Result<(), Errno> {
        let mut script = self.0.0.borrow_mut();
        script.patience = timeout;
        completions.append(&mut script.completions);
        Ok(())
    }

    fn register(&mut self, slab: &Slab, piece_bytes: usize) -> Result<Vec<u16>, String> {
        let pieces = slab.len_bytes().div_ceil(piece_bytes);
        Ok((0..).take(pieces).collect())
    }

    fn unregister(&mut self, _: &[u16]) {}

    fn add_pool(&mut self, _: Group, _: &BufferPool) -> Result<(), Errno> {
        Ok(())
    }

    fn remove_pool(&mut self, _: Group) {}

    fn lends(&self, _: Group) -> bool {
        false
    }

    fn overflows(&self) -> u64 {
        0
    }
}

/// An engine over a scripted back end. Sends of 1000 bytes or more are zero-copy ones.
pub(super) fn engine() -> (Engine, Handle, Director) {
    let director = Director::default();
    let choice = Choice { backend: choice::Backend::Readiness, why: "a test".to_owned() };
    let shared = Arc::new(Shared::new(0, choice, Capabilities::ALL, Arc::new(Silent)));
    let engine = Engine::new(Box::new(Scripted(director.clone())), shared.clone(), 1000);
    (engine, Handle { shared }, director)
}
