//! Queues in device memory, kept going by a pump: what each back end that runs kernels must get right.
//!
//! A back end needs a device and its own build of the kernel `echo`, which takes messages from one queue and gives them to
//! the other with each byte changed by [`TURN`]. Its file in `tests/` then says
//! `transload_conformance::queue_suite!(subject)`, with a function that makes a [`Subject`], or says why it cannot.

use std::thread;
use std::time::Duration;

use transload::device::host::{HostDevice, HostKernel};
use transload::device::{
    Code, CopyError, Device, DeviceError, Kernel, KernelSource, QueueLayout, StreamOptions,
};
use transload::pump::{DeviceQueues, Pump, PumpError, PumpOptions, PumpStopper, Report};
use transload::staging::{Consumer, DequeueError, PinnedStagingBuffer, Producer};

use crate::device::Random;
use crate::faulty::{Call, Faults, Faulty};
use crate::watchdog::PATIENCE;

/// What `echo` changes each byte by.
pub const TURN: u8 = 0x5a;

/// A device, and its kernel `echo`.
#[derive(Debug)]
pub struct Subject {
    /// The device, with calls that can be made to fail.
    pub device: Faulty,
    /// What fails.
    pub faults: Faults,
    /// The kernel.
    pub echo: Kernel,
    /// Whether one work item gives in the order in which it takes, and is alone: devices may run more than they are told.
    pub in_order: bool,
}

impl Subject {
    /// With a kernel that is built from this.
    ///
    /// # Errors
    ///
    /// What the device says.
    pub fn new(device: Box<dyn Device>, echo: &KernelSource) -> Result<Self, DeviceError> {
        let faults = Faults::new();
        let device = Faulty::new(device, faults.clone());
        Ok(Self { echo: device.build(echo)?, device, faults, in_order: false })
    }

    /// The host, and the twin of the kernel.
    ///
    /// # Errors
    ///
    /// None in fact.
    pub fn host() -> Result<Self, DeviceError> {
        Self::of_host_kernel(echo())
    }

    /// The host, and a kernel that may be another.
    ///
    /// # Errors
    ///
    /// None in fact.
    pub fn of_host_kernel(kernel: HostKernel) -> Result<Self, DeviceError> {
        let source = KernelSource { code: Code::Host(kernel), entry: "echo".to_owned() };
        Ok(Self { in_order: true, ..Self::new(Box::new(HostDevice::new()), &source)? })
    }
}

/// The twin of the kernel `echo` on the host: one message a work item.
pub fn echo() -> HostKernel {
    HostKernel::over_queues(|queues| {
        if !queues.has_room() {
            return;
        }
        if let Some(message) = queues.take()
            && let Some(mut place) = queues.give()
        {
            message.iter().zip(&mut *place).for_each(|(byte, to)| *to = byte ^ TURN);
        }
    })
}

/// How messages are sent through the queues.
#[derive(Clone, Copy, Debug)]
pub struct Course {
    /// How many messages.
    pub messages: u32,
    /// Bytes in each.
    pub message_size: usize,
    /// Of the rings on both sides.
    pub ring: usize,
    /// Of the queue that the kernel takes from.
    pub inbound: usize,
    /// Of the queue that it gives to.
    pub outbound: usize,
    /// How often the kernel runs at once.
    pub work_items: u32,
    /// The position that both queues begin with.
    pub start: u32,
    /// How often a failed transfer is tried again.
    pub retries: u32,
    /// Messages in a batch.
    pub batch: usize,
    /// The transfers that the stream takes at once, if it is opened before.
    pub in_flight: Option<usize>,
}

impl Course {
    /// A small one, in which everything wraps.
    pub fn small() -> Self {
        Self {
            messages: 200,
            message_size: 8,
            ring: 16,
            inbound: 8,
            outbound: 8,
            work_items: 8,
            start: 0,
            retries: 3,
            batch: 4,
            in_flight: None,
        }
    }

    /// One of sizes by chance, with positions that wrap.
    fn by_chance(random: &mut Random) -> Self {
        let mut word = |limit| u32::try_from(random.below(limit)).unwrap();
        let (messages, work_items, before) = (word(400), 1 + word(130), word(500));
        let mut power = |least: usize, most: usize| 1 << (least + random.below(most - least + 1));
        let (ring, inbound, outbound) = (power(1, 6), power(0, 7), power(0, 7));
        Self {
            messages,
            message_size: (1 + random.below(40)) * 4,
            ring,
            inbound,
            outbound,
            work_items,
            start: u32::MAX - before,
            batch: 1 + random.below(20),
            ..Self::small()
        }
    }

    /// The queues and the ends of the rings around them.
    ///
    /// # Errors
    ///
    /// What the pump says.
    pub fn open(self, subject: &Subject) -> Result<(Producer, Pump, Consumer), PumpError> {
        let ring = || PinnedStagingBuffer::new(self.ring, self.message_size).unwrap().split();
        let ((producer, feed), (back, consumer)) = (ring(), ring());
        let mut queues = DeviceQueues::new();
        if let Some(in_flight) = self.in_flight {
            let layout = |capacity| QueueLayout::new(capacity, self.message_size).unwrap();
            let queue_bytes = layout(self.inbound).stride_bytes() + layout(self.outbound).len_bytes();
            queues = queues.on(subject.device.open_stream(&StreamOptions { queue_bytes, in_flight })?);
        }
        let queues = queues
            .inbound(feed, self.inbound)
            .outbound(back, self.outbound)
            .kernel(subject.echo.clone(), self.work_items)
            .starting_at(self.start);
        let options = PumpOptions {
            batch_bytes: self.batch * self.message_size,
            in_flight: 3,
            retries: self.retries,
            ..PumpOptions::default()
        };
        Ok((producer, Pump::open_queues(&subject.device, queues, options)?, consumer))
    }

    /// Sends all messages, as long as they are taken, and says what the pump reports and which came back.
    ///
    /// # Errors
    ///
    /// What the pump says when it is opened.
    pub fn run(self, subject: &Subject) -> Result<(Report, Returned), PumpError> {
        self.run_until(subject, |_| ())
    }

    /// As [`run`](Course::run), with somebody else who may stop the pump.
    fn run_until(
        self,
        subject: &Subject,
        somebody: impl FnOnce(&PumpStopper) + Send + 'static,
    ) -> Result<(Report, Returned), PumpError> {
        let (producer, pump, mut consumer) = self.open(subject)?;
        let running = pump.spawn()?;
        let stopper = running.stopper().clone();
        let somebody = thread::spawn(move || somebody(&stopper));
        let sender = thread::spawn(move || {
            (0..self.messages)
                .take_while(|number| producer.enqueue(&message(*number, self.message_size)).is_ok())
                .count()
        });
        let mut returned = Returned::default();
        loop {
            match consumer.take(5) {
                Ok(batch) => batch.iter().for_each(|message| returned.note(message)),
                Err(DequeueError::Closed) => break,
                Err(_) => thread::yield_now(),
            }
        }
        sender.join().unwrap();
        somebody.join().unwrap();
        Ok((running.join(), returned))
    }
}

/// What came back, by the numbers of the messages.
#[derive(Debug, Default)]
pub struct Returned {
    /// In the order in which they came.
    pub numbers: Vec<u32>,
    /// How many had other bytes than they should.
    pub spoilt: usize,
}

impl Returned {
    fn note(&mut self, bytes: &[u8]) {
        let turned = bytes.iter().map(|byte| byte ^ TURN).collect::<Vec<_>>();
        let number = turned.first_chunk().map_or(u32::MAX, |number| u32::from_le_bytes(*number));
        if turned == message(number, bytes.len()) {
            self.numbers.push(number);
        } else {
            self.spoilt += 1;
        }
    }

    /// What is wrong if all of so many were to come, in any order, or in order.
    pub fn findings(&self, messages: u32, in_order: bool) -> Vec<&'static str> {
        let mut findings = Vec::new();
        let mut sorted = self.numbers.clone();
        sorted.sort_unstable();
        if self.spoilt > 0 {
            findings.push("a message came back with other bytes");
        }
        if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
            findings.push("a message came back twice");
        }
        sorted.dedup();
        if sorted.len() < messages as usize {
            findings.push("a message did not come back");
        }
        if in_order && !self.numbers.is_sorted() {
            findings.push("messages came back in another order");
        }
        findings
    }
}

/// A message of a number: that, and bytes that follow from it. The first is of zeros.
fn message(number: u32, size: usize) -> Vec<u8> {
    let rest = (4..size).map(|at| (number as usize * 7 + number as usize * at).to_le_bytes()[0]);
    number.to_le_bytes().into_iter().chain(rest).collect()
}

/// What a report says that nobody wants to read of a pump that had no faults.
fn unbalanced(report: &Report, messages: u64) -> Vec<&'static str> {
    let mut findings = Vec::new();
    if report.error.is_some() {
        findings.push("the pump ended with an error");
    }
    if report.accepted != report.delivered + report.dropped {
        findings.push("delivered and dropped are not what was accepted");
    }
    if (report.delivered, report.dropped) != (messages, 0) {
        findings.push("a message was not delivered");
    }
    if (report.returned, report.unreturned, report.untaken) != (messages, 0, 0) {
        findings.push("what was returned is counted wrongly");
    }
    findings
}

/// What is wrong with one course in which nothing may get lost.
pub fn check(subject: &Subject, course: Course) -> Vec<&'static str> {
    let (report, returned) = course.run(subject).unwrap();
    let mut findings = returned.findings(course.messages, subject.in_order && course.work_items == 1);
    findings.extend(unbalanced(&report, u64::from(course.messages)));
    findings
}

/// All messages come back, of several sizes, through queues of several, with the kernel side by side and alone.
pub fn everything_comes_back(subject: &Subject) {
    for message_size in [4, 24, 924, 4096] {
        for (inbound, outbound, work_items) in [(8, 8, 1), (1, 1, 1), (16, 4, 3), (2, 64, 64), (64, 32, 100)]
        {
            let small = Course::small();
            let course = Course { message_size, inbound, outbound, work_items, messages: 500, ..small };
            let findings = check(subject, course);
            assert!(findings.is_empty(), "{course:?}: {findings:?}");
        }
    }
}

/// The same, with sizes by chance.
pub fn sizes_by_chance(subject: &Subject) {
    let mut random = Random(5);
    for _ in 0..30 {
        let course = Course::by_chance(&mut random);
        let findings = check(subject, course);
        assert!(findings.is_empty(), "{course:?}: {findings:?}");
    }
}

/// Positions of 32 bits wrap on the way.
pub fn positions_wrap(subject: &Subject) {
    for before in [0, 1, 7, 50] {
        let course = Course { start: u32::MAX - before, work_items: 1, ..Course::small() };
        let findings = check(subject, course);
        assert!(findings.is_empty(), "{course:?}: {findings:?}");
    }
}

/// A stream of somebody's own, that takes few transfers at once: nobody starves.
pub fn few_transfers_at_once(subject: &Subject) {
    for in_flight in [1, 2, 3, 5] {
        let course = Course { in_flight: Some(in_flight), work_items: 1, ..Course::small() };
        let findings = check(subject, course);
        assert!(findings.is_empty(), "{course:?}: {findings:?}");
    }
    let options = StreamOptions { queue_bytes: 600, in_flight: 4 };
    let stream = subject.device.open_stream(&options).unwrap();
    let (_, feed) = PinnedStagingBuffer::new(16, 8).unwrap().split();
    let queues = DeviceQueues::new().on(stream).inbound(feed, 16);
    let refused = Pump::open_queues(&subject.device, queues, PumpOptions::default()).err();
    let is_short = matches!(
        refused,
        Some(PumpError::Device(DeviceError::OutOfQueue { offset: 0, len_bytes: 640, available: 600 }))
    );
    assert!(is_short, "{refused:?}");
}

/// The calls that keep queues going.
const CALLS: [Call; 4] = [Call::Submit, Call::Fill, Call::Dispatch, Call::Fetch];

/// How many fills make two queues. Those are not tried again.
const MAKING: u64 = 14;

/// Each call is refused in turn, and each transfer fails in turn: all comes back all the same.
pub fn faults_lose_nothing(subject: &Subject) {
    let course = Course { messages: 60, work_items: 1, ..Course::small() };
    for nth in 0..25 {
        for call in CALLS {
            let making = if call == Call::Fill { MAKING } else { 0 };
            subject.faults.refuse(call, subject.faults.count(call) + making + nth);
            let findings = check(subject, course);
            assert!(findings.is_empty(), "{call:?} refused, the {nth}-th: {findings:?}");
            subject.faults.forget();
        }
    }
    let mut failures = 0;
    for nth in 0..120 {
        let failing = subject.faults.completions() + MAKING + nth;
        subject.faults.fail(failing);
        let findings = check(subject, course);
        assert!(findings.is_empty(), "completion {nth} failed: {findings:?}");
        failures += u32::from(subject.faults.completions() > failing);
        subject.faults.forget();
    }
    assert!(failures > 20, "no more than {failures} of the failures came to pass");
}

/// Transfers that fail are not tried again: messages get lost, and each is counted, or the pump ends with words.
pub fn what_is_given_up_is_counted(subject: &Subject) {
    let course = Course { messages: 60, retries: 0, ..Course::small() };
    let (mut dropped, mut unreturned, mut ended) = (0, 0, 0);
    for nth in 0..120 {
        subject.faults.fail(subject.faults.completions() + MAKING + nth);
        let (report, returned) = course.run(subject).unwrap();
        subject.faults.forget();
        counted(&report, &returned);
        match &report.error {
            None => assert_eq!(report.delivered + report.dropped, 60, "{nth}: {report:?}"),
            Some(PumpError::QueueFailed { reason, .. }) => {
                assert!(reason.contains("injected"), "{reason}");
                ended += 1;
            }
            Some(error) => panic!("{error}"),
        }
        dropped += u64::from(report.dropped > 0 && report.error.is_none());
        unreturned += u64::from(report.unreturned > 0 && report.error.is_none());
    }
    assert!(dropped > 0 && unreturned > 0 && ended > 0, "{dropped} {unreturned} {ended}");
}

/// Faults by chance, several in each course: all comes back if they are tried again often enough, and if they are not,
/// everything is counted.
pub fn faults_by_chance(subject: &Subject) {
    let mut random = Random(7);
    let mut ended = 0;
    for nth in 0..60 {
        let course = Course { messages: 150, ..Course::by_chance(&mut random) };
        let retries = if nth % 2 == 0 { 100 } else { u32::try_from(random.below(2)).unwrap() };
        let course = Course { retries, ..course };
        let one_in = 3 + random.below(if retries > 1 { 10 } else { 100 }) as u64;
        let completions = subject.faults.completions() + MAKING;
        (0..5000)
            .filter(|_| random.number().is_multiple_of(one_in))
            .for_each(|at| subject.faults.fail(completions + at));
        for call in CALLS {
            let calls = subject.faults.count(call) + MAKING;
            let refused = (0..2000).filter(|_| random.number().is_multiple_of(one_in * 2));
            refused.for_each(|at| subject.faults.refuse(call, calls + at));
        }
        if retries > 1 {
            let findings = check(subject, course);
            assert!(findings.is_empty(), "{course:?}: {findings:?}");
        } else {
            let (report, returned) = course.run(subject).unwrap();
            counted(&report, &returned);
            ended += u32::from(report.error.is_some());
        }
        subject.faults.forget();
    }
    assert!((1..30).contains(&ended), "{ended} of 30 ended with an error");
}

/// The pump is stopped or aborted at any moment: what has come back is whole, and everything is counted.
pub fn stopped_at_any_moment(subject: &Subject) {
    let mut random = Random(11);
    for nth in 0..60 {
        let course = Course { messages: u32::MAX, ..Course::by_chance(&mut random) };
        let wait = Duration::from_micros(random.below(3000) as u64);
        let stop = move |stopper: &PumpStopper| {
            thread::sleep(wait);
            match nth % 3 {
                0 => stopper.abort(),
                1 => stopper.stop(Duration::ZERO),
                _ => stopper.stop(PATIENCE),
            }
        };
        let (report, returned) = course.run_until(subject, stop).unwrap();
        assert!(report.error.is_none(), "{course:?}: {report:?}");
        assert_eq!(report.accepted, report.delivered + report.dropped, "{course:?}: {report:?}");
        assert_eq!(report.returned, returned.numbers.len() as u64, "{course:?}: {report:?}");
        let messages = u32::try_from(report.returned).unwrap();
        let findings = returned.findings(messages, subject.in_order && course.work_items == 1);
        assert!(findings.is_empty(), "{course:?}: {findings:?}");
        if nth % 3 == 2 {
            // There was time for everything.
            let rest = (report.dropped, report.unreturned, report.untaken);
            assert_eq!((report.returned, rest), (report.delivered, (0, 0, 0)), "{course:?}: {report:?}");
        }
    }
}

/// What holds however a pump over queues has ended.
fn counted(report: &Report, returned: &Returned) {
    assert_eq!(report.accepted, report.delivered + report.dropped, "{report:?}");
    assert_eq!(returned.spoilt, 0, "{report:?}");
    assert_eq!(report.returned, returned.numbers.len() as u64, "{report:?}");
    if report.error.is_none() {
        assert_eq!(report.delivered, report.returned + report.unreturned, "{report:?}");
    }
}

/// The device is lost in turn with each transfer: the pump ends, and what did not arrive is counted.
pub fn a_lost_device_ends_the_pump(make: impl Fn() -> Subject) {
    let mut losses = 0;
    for nth in MAKING..MAKING + 80 {
        let subject = make();
        subject.faults.lose(nth);
        let (report, returned) = Course { messages: 60, ..Course::small() }.run(&subject).unwrap();
        counted(&report, &returned);
        let is_lost = matches!(report.error, Some(PumpError::Device(DeviceError::Lost { .. })));
        assert_eq!(is_lost, subject.faults.completions() > nth, "{nth}: {report:?}");
        losses += u32::from(is_lost);
    }
    assert!(losses > 10, "no more than {losses} of the losses came to pass");
    let subject = make();
    subject.faults.fail(3);
    let refused = Course::small().open(&subject).err();
    let is_failed = matches!(refused, Some(PumpError::Device(DeviceError::Copy(CopyError::Failed { .. }))));
    assert!(is_failed, "{refused:?}");
}

/// Makes tests of a function that makes a [`Subject`].
#[macro_export]
macro_rules! queue_suite {
    ($subject:expr) => {
        $crate::queue_suite!(@ $subject,
            everything_comes_back, sizes_by_chance, positions_wrap, faults_lose_nothing, what_is_given_up_is_counted,
            faults_by_chance, stopped_at_any_moment, few_transfers_at_once
        );

        #[test]
        fn a_lost_device_ends_the_pump() {
            $crate::watchdog::watch("queues", || match $subject() {
                Ok(_) => $crate::queues::a_lost_device_ends_the_pump(|| $subject().expect("it was there")),
                Err(error) => $crate::skip::skip(concat!(module_path!(), "::a_lost_device_ends_the_pump"), &error.to_string()),
            });
        }
    };
    (@ $subject:expr, $($test:ident),*) => {
        $(
            #[test]
            fn $test() {
                $crate::watchdog::watch("queues", || match $subject() {
                    Ok(subject) => $crate::queues::$test(&subject),
                    Err(error) => $crate::skip::skip(concat!(module_path!(), "::", stringify!($test)), &error.to_string()),
                });
            }
        )*
    };
}
