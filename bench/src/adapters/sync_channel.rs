//! The standard library's bounded channel.

use std::sync::mpsc::{Receiver as Handle, SyncSender, sync_channel};

use crate::adapter::{Adapter, Receiver, Role, Sender, destination, fill};

/// std `sync_channel`.
#[derive(Debug)]
pub struct SyncChannel;

/// The receiver, and where messages are copied to.
#[derive(Debug)]
pub struct Consumer<const N: usize> {
    channel: Handle<[u8; N]>,
    destination: Vec<[u8; N]>,
}

impl<const N: usize> Adapter<N> for SyncChannel {
    const NAME: &'static str = "sync_channel";
    const ROLE: Role = Role::Rival;
    type Sender = SyncSender<[u8; N]>;
    type Receiver = Consumer<N>;

    fn open(capacity: usize) -> (Self::Sender, Self::Receiver) {
        let (sender, channel) = sync_channel(capacity);
        (sender, Consumer { channel, destination: destination() })
    }
}

impl<const N: usize> Sender<N> for SyncSender<[u8; N]> {
    #[inline]
    fn send(&mut self, message: &[u8; N]) -> bool {
        self.try_send(*message).is_ok()
    }
}

impl<const N: usize> Receiver<N> for Consumer<N> {
    #[inline]
    fn receive(&mut self, max: usize) -> &[[u8; N]] {
        fill(&mut self.destination, max, || self.channel.try_recv().ok())
    }
}
