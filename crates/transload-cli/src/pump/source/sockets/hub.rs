//! What the tasks of one thread share.

use std::cell::{Cell, RefCell};

use event_listener::Event;
use transload::proactor::{Handle, ReceivePool};
use transload::pump::SocketIntake;

use crate::pump::source::{Stage, Why};

/// What the tasks of one thread share.
pub(super) struct Hub {
    pub(super) handle: Handle,
    pub(super) stage: Stage,
    pub(super) way: Way,
    /// End when so many connections have ended.
    pub(super) connections: Option<u64>,
    over: Cell<Option<Why>>,
    changed: Event,
}

/// The way of received bytes.
pub(super) enum Way {
    /// Straight into slots.
    Straight(RefCell<SocketIntake>),
    /// Through buffers.
    Staged(ReceivePool),
}

impl Hub {
    pub(super) fn new(handle: Handle, stage: Stage, way: Way, connections: Option<u64>) -> Self {
        Self { handle, stage, way, connections, over: Cell::new(None), changed: Event::new() }
    }

    /// Ends the source.
    pub(super) fn end(&self, why: Why) {
        if self.over.get().is_none() {
            self.over.set(Some(why));
        }
        self.changed.notify(usize::MAX);
    }

    /// Whether tasks are to end.
    pub(super) fn is_over(&self) -> bool {
        self.over.get().is_some() || self.stage.outlet.stop.is_raised()
    }

    /// Waits until the source ends, and says why.
    pub(super) async fn over(&self) -> Why {
        loop {
            let changed = self.changed.listen();
            if let Some(why) = self.over.get() {
                return why;
            }
            changed.await;
        }
    }

    /// Counts a connection that has ended.
    pub(super) fn connection_ended(&self, bad: bool) {
        let tally = &self.stage.tally;
        tally.connections.add_as_only_writer(1);
        tally.bad_peers.add_as_only_writer(u64::from(bad));
        if self.connections == Some(tally.connections.value()) {
            self.end(Why::Connections);
        }
    }
}
