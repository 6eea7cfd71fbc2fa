//! A kernel that each batch goes through: its outputs come in the order of the messages, whatever fails.

use std::io;
use std::sync::{Arc, Mutex};

use transload::device::host::{HostDevice, HostKernel};
use transload::device::{Device, DeviceError, Kernel, KernelSource, Launch, Reply};
use transload::pump::{
    DeviceQueues, Intake, KernelOptions, OnFull, OutputSink, Pump, PumpError, PumpOptions, Report,
};
use transload_conformance::faulty::{Call, Faults, Faulty};
use transload_conformance::watchdog::watch;

use crate::kit::{self, Collected, balanced, faulty_host, options, ring};

/// What the kernel of these tests makes of a message, on the host: three times its number, and nothing of each fifth.
fn thrice(message: &[u8]) -> Option<u64> {
    let number = u64::from_le_bytes(message.try_into().unwrap());
    (!number.is_multiple_of(5)).then(|| number.wrapping_mul(3))
}

/// The kernel that does so, unless it is told to do something else with one message.
fn kernel(device: &dyn Device, other: impl Fn(u64) -> Option<usize> + Send + Sync + 'static) -> Kernel {
    let function = HostKernel::per_message(move |message, output| {
        if let Some(length) = other(u64::from_le_bytes(message.try_into().unwrap())) {
            return Some(length);
        }
        let made = thrice(message)?;
        output[..8].copy_from_slice(&made.to_le_bytes());
        Some(8)
    });
    device.build(&KernelSource::host(function, "thrice")).unwrap()
}

/// Room for a little more than the kernel writes.
const OPTIONS: KernelOptions = KernelOptions { output_bytes: 12, prefix_bytes: 0 };

/// What came of the messages, in order: outputs, and what was dropped or lost.
#[derive(Clone, Debug, Default)]
struct Outputs {
    inner: Arc<Mutex<Told>>,
    /// Fails after so many.
    fails_after: Option<usize>,
}

/// What a sink was told.
#[derive(Debug, Default)]
struct Told {
    replies: Vec<Option<u64>>,
    lost: usize,
    has_ended: bool,
}

impl Outputs {
    fn all(&self) -> Vec<Option<u64>> {
        self.inner.lock().unwrap().replies.clone()
    }

    fn lost(&self) -> usize {
        self.inner.lock().unwrap().lost
    }
}

impl OutputSink for Outputs {
    fn receive(&mut self, launch: &Launch) -> io::Result<()> {
        let mut inner = self.inner.lock().unwrap();
        if self.fails_after.is_some_and(|most| inner.replies.len() >= most) {
            return Err(io::Error::new(io::ErrorKind::StorageFull, "no room"));
        }
        inner.replies.extend(launch.replies().map(|reply| match reply {
            Reply::Output(bytes) => Some(u64::from_le_bytes(bytes.try_into().unwrap())),
            Reply::Dropped => None,
            Reply::TooLong { .. } => panic!("a sink is given what fits"),
        }));
        Ok(())
    }

    fn lost(&mut self, messages: usize) {
        self.inner.lock().unwrap().lost += messages;
    }

    fn finish(&mut self) -> io::Result<()> {
        self.inner.lock().unwrap().has_ended = true;
        Ok(())
    }
}

/// What is wrong with the outputs of messages from 0 on, if all came.
fn findings(outputs: &[Option<u64>], messages: u64) -> Vec<&'static str> {
    let twin = (0..messages).map(|number| thrice(&number.to_le_bytes())).collect::<Vec<_>>();
    let mut findings = Vec::new();
    if outputs.len() != twin.len() {
        findings.push("not one reply for each message");
    }
    if outputs.iter().zip(&twin).any(|(output, twin)| output != twin) {
        findings.push("a reply is not the twin's");
    }
    findings
}

/// Sends messages through the kernel.
fn through(
    device: &dyn Device,
    kernel: Kernel,
    (capacity, messages): (usize, u64),
    options: PumpOptions,
    outputs: Outputs,
) -> Report {
    let (producer, consumer) = ring(capacity);
    let pump = Pump::open(device, consumer, options).unwrap();
    let pump = pump.through_kernel(device, kernel, OPTIONS, outputs.clone()).unwrap();
    let intake = Intake::new(producer, OnFull::Block, &pump).unwrap();
    let running = pump.spawn().unwrap();
    let mut accepted = 0;
    for number in 0..messages {
        if intake.offer(&number.to_le_bytes()).is_err() {
            break;
        }
        accepted += 1;
    }
    drop(intake);
    let report = running.join();
    balanced(&report);
    assert_eq!(report.accepted, accepted);
    assert!(outputs.inner.lock().unwrap().has_ended, "the sink was not told of the end");
    report
}

#[test]
fn each_message_has_its_reply_in_order() {
    watch("kernel", || {
        let device = HostDevice::new();
        for capacity in [2, 4, 64, 1024] {
            let outputs = Outputs::default();
            let none = kernel(&device, |_| None);
            let report = through(&device, none, (capacity, 5000), options(), outputs.clone());
            assert!(report.error.is_none(), "{report:?}");
            assert_eq!(findings(&outputs.all(), 5000), [""; 0]);
            assert_eq!((report.delivered, report.filtered), (5000, 1000));
            // Batches are cut at the wrap, and the host reads each where it is.
            assert_eq!(report.mapped_batches, report.batches);
            assert!(report.latency.samples > 0);
        }
    });
}

/// Twins of the check: kernels that do something else with one message.
#[test]
fn a_wrong_reply_is_found() {
    watch("kernel", || {
        let device = HostDevice::new();
        let wrong = kernel(&device, |number| (number == 77).then_some(8));
        let outputs = Outputs::default();
        through(&device, wrong, (16, 200), options(), outputs.clone());
        assert_eq!(findings(&outputs.all(), 200), ["a reply is not the twin's"]);
        assert_eq!(findings(&outputs.all()[..199], 200)[0], "not one reply for each message");
    });
}

#[test]
fn an_output_that_is_too_long_ends_the_pump() {
    watch("kernel", || {
        let device = HostDevice::new();
        let outputs = Outputs::default();
        let wrong = kernel(&device, |number| (number == 50).then_some(13));
        let report = through(&device, wrong, (16, 1000), options(), outputs.clone());
        let Some(PumpError::OutputTooLong { entry, length: 13, output_bytes: 12 }) = &report.error else {
            panic!("{report:?}");
        };
        assert_eq!(entry, "thrice");
        assert!(report.delivered <= 50);
        assert_eq!(findings(&outputs.all(), report.delivered), [""; 0]);
    });
}

#[test]
fn a_launch_that_fails_is_tried_again_in_its_place() {
    watch("kernel", || {
        for nth in 0..12 {
            let (device, faults, _) = faulty_host();
            faults.fail(nth);
            faults.fail(nth + 2);
            faults.refuse(Call::Launch, nth);
            let outputs = Outputs::default();
            let report = through(&device, kernel(&device, |_| None), (64, 300), options(), outputs.clone());
            assert!(report.error.is_none(), "{report:?}");
            assert_eq!(report.failed_copies, 3);
            assert_eq!(findings(&outputs.all(), 300), [""; 0]);
        }
    });
}

#[test]
fn what_is_given_up_is_told_and_counted() {
    watch("kernel", || {
        for nth in 0..12 {
            let (device, faults, _) = faulty_host();
            faults.fail(nth);
            let outputs = Outputs::default();
            let options = PumpOptions { retries: 0, ..options() };
            let report = through(&device, kernel(&device, |_| None), (64, 300), options, outputs.clone());
            assert!(report.error.is_none(), "{report:?}");
            assert!((1..=4).contains(&report.dropped), "{report:?}");
            assert_eq!(report.dropped, outputs.lost() as u64);
            assert_eq!(report.delivered, outputs.all().len() as u64);
            // What is left keeps its order.
            let numbers = outputs.all().into_iter().flatten().collect::<Vec<_>>();
            assert!(numbers.is_sorted());
        }
    });
}

#[test]
fn a_lost_device_ends_the_pump() {
    watch("kernel", || {
        for nth in 0..12 {
            let (device, faults, _) = faulty_host();
            faults.lose(nth);
            let outputs = Outputs::default();
            let report = through(&device, kernel(&device, |_| None), (64, 300), options(), outputs.clone());
            let is_lost = matches!(report.error, Some(PumpError::Device(DeviceError::Lost { .. })));
            assert!(is_lost, "{report:?}");
            assert_eq!(findings(&outputs.all(), report.delivered), [""; 0]);
            assert!(report.quarantined > 0, "{report:?}");
        }
    });
}

#[test]
fn a_sink_that_fails_ends_the_pump() {
    watch("kernel", || {
        let device = HostDevice::new();
        let outputs = Outputs { fails_after: Some(40), ..Outputs::default() };
        let report = through(&device, kernel(&device, |_| None), (16, 1000), options(), outputs.clone());
        assert!(
            matches!(&report.error, Some(PumpError::Sink(error)) if error.kind() == io::ErrorKind::StorageFull)
        );
        assert_eq!(report.delivered, outputs.all().len() as u64);
        assert_eq!(findings(&outputs.all(), report.delivered), [""; 0]);
    });
}

#[cfg(target_os = "linux")]
#[test]
fn messages_of_a_shared_ring_go_through_it() {
    watch("kernel", || {
        let device = HostDevice::new();
        let (sender, feed) = kit::shared_feed(500);
        let outputs = Outputs::default();
        let pump = Pump::open(&device, feed, options()).unwrap();
        let pump = pump.through_kernel(&device, kernel(&device, |_| None), OPTIONS, outputs.clone()).unwrap();
        let running = pump.spawn().unwrap();
        kit::send(&sender, 0..500);
        let report = running.join();
        assert!(report.error.is_none(), "{report:?}");
        assert_eq!((report.accepted, report.delivered), (500, 500));
        assert_eq!(findings(&outputs.all(), 500), [""; 0]);
        // Others may write there: never read in place.
        assert_eq!(report.mapped_batches, 0);
    });
}

#[test]
fn kernels_and_pumps_that_do_not_fit_are_refused() {
    let device = HostDevice::new();
    let over_queues = HostKernel::over_queues(|_| {});
    let source = KernelSource::host(over_queues, "over_queues");
    let over_queues = device.build(&source).unwrap();
    watch("kernel", move || {
        let outputs = Outputs::default();
        let report = through(&device, over_queues, (16, 100), options(), outputs);
        let Some(PumpError::Device(DeviceError::OtherKernel { entry, .. })) = &report.error else {
            panic!("{report:?}");
        };
        assert_eq!((entry.as_str(), report.delivered), ("over_queues", 0));

        let queues = || {
            let (_, feed) = ring(16);
            let faulty = Faulty::new(Box::new(HostDevice::new()), Faults::new());
            Pump::open_queues(&faulty, DeviceQueues::new().inbound(feed, 16), options()).unwrap()
        };
        let refused = queues().read_back(&device, Collected::default()).err();
        assert!(matches!(refused, Some(PumpError::OverQueues { .. })), "{refused:?}");
        let refused =
            queues().through_kernel(&device, kernel(&device, |_| None), OPTIONS, Outputs::default());
        assert!(matches!(refused.err(), Some(PumpError::OverQueues { .. })));
    });
}
