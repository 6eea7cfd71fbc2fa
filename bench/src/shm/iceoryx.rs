//! iceoryx2: publish and receive.

use std::mem::MaybeUninit;

use anyhow::{Result, bail};
use iceoryx2::node::Node;
use iceoryx2::port::publisher::Publisher;
use iceoryx2::port::subscriber::Subscriber;
use iceoryx2::prelude::{BackpressureStrategy, NodeBuilder, SignalHandlingMode, ipc};
use iceoryx2::sample_mut_uninit::SampleMutUninit;
use iceoryx2::service::port_factory::publish_subscribe::PortFactory;

use super::content::{Content, Seen, read, write};
use super::folder::Names;
use super::link::Link;
use super::way::Way;

type Message<const WORDS: usize> = [u64; WORDS];
type Service<const WORDS: usize> = PortFactory<ipc::Service, Message<WORDS>, ()>;
type Loan<const WORDS: usize> = SampleMutUninit<ipc::Service, MaybeUninit<Message<WORDS>>, ()>;

/// Which of the two processes, or one with itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// Who measures.
    Near,
    /// The other.
    Far,
    /// One that sends to itself.
    Alone,
}

/// One service for each direction, each with one publisher and one subscriber.
pub(super) struct Iceoryx<const WORDS: usize> {
    loan: Option<Loan<WORDS>>,
    publisher: Publisher<ipc::Service, Message<WORDS>, ()>,
    subscriber: Subscriber<ipc::Service, Message<WORDS>, ()>,
    way: Way,
    most: usize,
    /// Last, as ports end before their node.
    _node: Node<ipc::Service>,
}

impl<const WORDS: usize> Iceoryx<WORDS> {
    /// Opens the services, or makes them. So many messages wait at most.
    pub(super) fn open(names: &Names, side: Side, way: Way, slots: usize, most: usize) -> Result<Self> {
        let config = names.config()?;
        let node = NodeBuilder::new().config(&config).signal_handling_mode(SignalHandlingMode::Disabled);
        let node = node.create::<ipc::Service>()?;
        let (out, back) = match side {
            Side::Near => ("there", "back"),
            Side::Far => ("back", "there"),
            Side::Alone => ("there", "there"),
        };
        let strategy = match way {
            Way::IceoryxPolling => BackpressureStrategy::DiscardData,
            _ => BackpressureStrategy::RetryUntilDelivered,
        };
        let publisher = Self::service(&node, out, slots)?;
        let publisher = publisher.publisher_builder().backpressure_strategy(strategy).create()?;
        let subscriber = Self::service(&node, back, slots)?.subscriber_builder().create()?;
        Ok(Self { loan: None, publisher, subscriber, way, most, _node: node })
    }

    fn service(node: &Node<ipc::Service>, name: &str, slots: usize) -> Result<Service<WORDS>> {
        let service = node.service_builder(&name.try_into()?).publish_subscribe::<Message<WORDS>>();
        let service = service.max_publishers(1).max_subscribers(1).history_size(0);
        Ok(service.subscriber_max_buffer_size(slots).enable_safe_overflow(false).open_or_create()?)
    }
}

impl<const WORDS: usize> Iceoryx<WORDS> {
    /// A loan given back without a message.
    pub(super) fn loan_and_drop(&mut self) -> Result<()> {
        drop(std::hint::black_box(self.publisher.loan_uninit()?));
        Ok(())
    }
}

impl<const WORDS: usize> Link<WORDS> for Iceoryx<WORDS> {
    #[inline]
    fn prepare(&mut self) -> Result<()> {
        if self.way.is_ahead() && self.loan.is_none() {
            self.loan = Some(self.publisher.loan_uninit()?);
        }
        Ok(())
    }

    #[inline]
    fn send<C: Content>(&mut self, tag: u64) -> Result<bool> {
        let mut loan = match self.loan.take() {
            Some(loan) => loan,
            None => self.publisher.loan_uninit()?,
        };
        // SAFETY: the sample is this process's until it is sent, and has that many words.
        unsafe { write::<C, WORDS>(loan.payload_mut().as_mut_ptr().cast::<u64>(), tag) };
        // SAFETY: all words were written.
        let sample = unsafe { loan.assume_init() };
        match sample.send()? {
            0 => Ok(false),
            1 => Ok(true),
            more => bail!("one subscriber, and {more} of them got the message"),
        }
    }

    #[inline]
    fn receive<C: Content>(&mut self, mut see_one: impl FnMut(Seen) -> Result<()>) -> Result<usize> {
        for count in 0..self.most {
            let Some(sample) = self.subscriber.receive()? else { return Ok(count) };
            // SAFETY: an array of that many words; nobody writes it until the sample is dropped.
            see_one(unsafe { read::<C, WORDS>(sample.payload().as_ptr()) })?;
        }
        Ok(self.most)
    }
}
