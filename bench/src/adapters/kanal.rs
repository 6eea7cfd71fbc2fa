//! kanal's bounded channel, a queue behind a spin lock, received from in two ways; the faster one counts in each cell.

use kanal::{Receiver as Handle, Sender as Producer, bounded};

use crate::adapter::{Adapter, Receiver, Role, Sender, destination, fill};

/// kanal, received from message by message into the destination.
#[derive(Debug)]
pub struct KanalEach;

/// kanal, received from with `drain_into`: one lock a batch, and the batch is all that was there. Its vector is the
/// destination; nothing is copied a second time.
#[derive(Debug)]
pub struct KanalDrain;

/// Takes message by message.
#[derive(Debug)]
pub struct Each<const N: usize> {
    channel: Handle<[u8; N]>,
    destination: Vec<[u8; N]>,
}

/// Takes all at once.
#[derive(Debug)]
pub struct Drain<const N: usize> {
    channel: Handle<[u8; N]>,
    destination: Vec<[u8; N]>,
}

impl<const N: usize> Adapter<N> for KanalEach {
    const NAME: &'static str = "kanal";
    const ROLE: Role = Role::Rival;
    type Sender = Producer<[u8; N]>;
    type Receiver = Each<N>;

    fn open(capacity: usize) -> (Self::Sender, Self::Receiver) {
        let (sender, channel) = bounded(capacity);
        (sender, Each { channel, destination: destination() })
    }
}

impl<const N: usize> Adapter<N> for KanalDrain {
    const NAME: &'static str = "kanal drain";
    const ROLE: Role = Role::Rival;
    type Sender = Producer<[u8; N]>;
    type Receiver = Drain<N>;

    fn open(capacity: usize) -> (Self::Sender, Self::Receiver) {
        let (sender, channel) = bounded(capacity);
        (sender, Drain { channel, destination: Vec::with_capacity(capacity) })
    }
}

impl<const N: usize> Sender<N> for Producer<[u8; N]> {
    #[inline]
    fn send(&mut self, message: &[u8; N]) -> bool {
        self.try_send(*message).unwrap_or(false)
    }
}

impl<const N: usize> Receiver<N> for Each<N> {
    #[inline]
    fn receive(&mut self, max: usize) -> &[[u8; N]] {
        fill(&mut self.destination, max, || self.channel.try_recv().unwrap_or(None))
    }
}

impl<const N: usize> Receiver<N> for Drain<N> {
    #[inline]
    fn receive(&mut self, _: usize) -> &[[u8; N]] {
        self.destination.clear();
        // An error means that the channel is closed, and then nothing was drained.
        let _ = self.channel.drain_into(&mut self.destination);
        &self.destination
    }
}
