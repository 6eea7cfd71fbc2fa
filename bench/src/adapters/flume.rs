//! flume's bounded channel, a queue behind a mutex, received from in two ways; the faster one counts in each cell.

use flume::{Receiver as Handle, Sender as Producer, bounded};

use crate::adapter::{Adapter, Receiver, Role, Sender, destination, fill};

/// flume, received from message by message into the destination.
#[derive(Debug)]
pub struct FlumeEach;

/// flume, received from with `drain`: one lock a batch, which takes the whole queue away; what was there is then
/// copied to the destination, as the queue that it hands out cannot be read as a slice.
#[derive(Debug)]
pub struct FlumeDrain;

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

impl<const N: usize> Adapter<N> for FlumeEach {
    const NAME: &'static str = "flume";
    const ROLE: Role = Role::Rival;
    type Sender = Producer<[u8; N]>;
    type Receiver = Each<N>;

    fn open(capacity: usize) -> (Self::Sender, Self::Receiver) {
        let (sender, channel) = bounded(capacity);
        (sender, Each { channel, destination: destination() })
    }
}

impl<const N: usize> Adapter<N> for FlumeDrain {
    const NAME: &'static str = "flume drain";
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
        self.try_send(*message).is_ok()
    }
}

impl<const N: usize> Receiver<N> for Each<N> {
    #[inline]
    fn receive(&mut self, max: usize) -> &[[u8; N]] {
        fill(&mut self.destination, max, || self.channel.try_recv().ok())
    }
}

impl<const N: usize> Receiver<N> for Drain<N> {
    #[inline]
    fn receive(&mut self, _: usize) -> &[[u8; N]] {
        self.destination.clear();
        self.destination.extend(self.channel.drain());
        &self.destination
    }
}
