//! The pump over a ring that processes share: each message is delivered, counted as dropped, or left to the next consumer.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use transload::device::{Device, DeviceError};
use transload::pump::{Intake, OnFull, Pump, PumpError, PumpHandle, PumpOptions, Report, SharedFeed, Sink};
use transload::shared::{SharedPool, SharedRegion, TakeError};
use transload_conformance::faulty::Call;
use transload_conformance::watchdog::{until, watch};
use transload_core::Flag;

use crate::kit::{self, Collected, DRAIN, MESSAGE, balanced, devices, faulty_host, options, ring};

const BUFFERS: usize = 16;
const PATIENCE: Duration = Duration::from_secs(30);

/// A region and a member that sends.
struct Rig {
    region: SharedRegion,
    sender: SharedPool,
}

/// Another attach, as another process would have it.
fn other(region: &SharedRegion) -> SharedRegion {
    SharedRegion::open(region.file_for_peer().unwrap()).unwrap()
}

impl Rig {
    fn new() -> Self {
        let region = SharedRegion::builder(BUFFERS, MESSAGE).members(4).create().unwrap();
        let sender = SharedPool::join(&region, "sender").unwrap();
        Self { region, sender }
    }

    fn feed(&self) -> SharedFeed {
        let pool = SharedPool::join(&other(&self.region), "pump").unwrap();
        SharedFeed::new(pool.ring().consumer().unwrap())
    }

    fn pump(&self, device: &dyn Device) -> Pump {
        Pump::open(device, self.feed(), options()).unwrap()
    }

    /// A running pump that reads everything back.
    fn running(&self, device: &dyn Device) -> (PumpHandle, Collected) {
        let back = Collected::default();
        let pump = self.pump(device).read_back(device, back.clone()).unwrap();
        (pump.spawn().unwrap(), back)
    }

    fn send(&self, numbers: std::ops::Range<u64>) {
        kit::send(&self.sender, numbers);
    }

    /// What the next consumer finds in the ring, and how much of it for the second time.
    fn rest(&self) -> (Vec<u64>, usize) {
        let pool = SharedPool::join(&other(&self.region), "next").unwrap();
        let mut consumer = pool.ring().consumer().unwrap();
        let (mut numbers, mut redelivered) = (Vec::new(), 0);
        loop {
            match consumer.take(5) {
                Ok(batch) => {
                    for message in batch.iter() {
                        let mut bytes = [0; MESSAGE];
                        batch.read(&message, &mut bytes).unwrap();
                        numbers.push(u64::from_le_bytes(bytes));
                        redelivered += usize::from(message.redelivered);
                    }
                }
                Err(TakeError::Empty) => return (numbers, redelivered),
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Buffers that are free, and those that are never used again.
    fn free(&self) -> (usize, usize) {
        let statistics = self.sender.statistics();
        (statistics.free, statistics.quarantined)
    }

    /// What the pump's member has: buffers of its own, and lent ones.
    fn held(&self) -> (usize, usize) {
        let holders = self.sender.holders();
        let pump = holders.iter().find(|holder| holder.name == "pump");
        pump.map_or((0, 0), |pump| (pump.owned, pump.lent))
    }
}

fn stop(running: PumpHandle) -> Report {
    let report = running.stop(DRAIN);
    balanced(&report);
    report
}

/// A sink that waits until it may go on.
#[derive(Clone, Default)]
struct Held {
    open: Arc<Flag>,
    entered: Arc<Flag>,
    back: Collected,
}

impl Sink for Held {
    fn receive(&mut self, messages: &[u8], message_size: usize) -> io::Result<()> {
        self.entered.raise();
        assert!(until(|| self.open.is_raised()));
        self.back.receive(messages, message_size)
    }
}

#[test]
fn everything_comes_back_in_order_from_each_device() {
    watch("shared", || {
        for device in devices("pump::shared::everything_comes_back_in_order_from_each_device") {
            let rig = Rig::new();
            let (running, back) = rig.running(&*device);
            rig.send(0..5000);
            let report = stop(running);
            assert!(report.error.is_none(), "{report:?}");
            assert_eq!((report.delivered, report.dropped, report.redelivered), (5000, 0, 0));
            assert_eq!(back.numbers(), (0..5000).collect::<Vec<_>>());
            assert_eq!((rig.free(), rig.rest().0), ((BUFFERS, 0), vec![]));
        }
    });
}

#[test]
fn many_senders_lose_nothing_and_keep_their_orders() {
    watch("senders", || {
        let rig = Rig::new();
        let device = transload::device::host::HostDevice::new();
        let (running, back) = rig.running(&device);
        let senders: Vec<_> = (0..3u64)
            .map(|sender| {
                let pool = rig.sender.clone();
                std::thread::spawn(move || {
                    for number in 0..2000 {
                        let message = (sender << 32 | number).to_le_bytes();
                        pool.ring().send_copy_timeout(&message, PATIENCE).unwrap();
                    }
                })
            })
            .collect();
        for sender in senders {
            sender.join().unwrap();
        }
        assert_eq!(stop(running).delivered, 6000);
        for sender in 0..3 {
            let of_it = back.numbers().into_iter().filter(|number| number >> 32 == sender);
            assert!(of_it.map(|number| number & 0xffff_ffff).eq(0..2000), "sender {sender}");
        }
    });
}

#[test]
fn failed_copies_are_tried_again_and_order_is_kept() {
    watch("retry", || {
        let (device, faults, _) = faulty_host();
        for nth in [0, 1, 2, 5, 9, 10, 14, 20, 21, 22] {
            faults.fail(nth);
        }
        for nth in [30, 40, 41] {
            faults.refuse(Call::Submit, nth);
        }
        let rig = Rig::new();
        let (running, back) = rig.running(&device);
        rig.send(0..200);
        let report = stop(running);
        assert!(report.error.is_none(), "{report:?}");
        assert_eq!((report.delivered, report.dropped, report.failed_copies), (200, 0, 13));
        assert_eq!(back.numbers(), (0..200).collect::<Vec<_>>());
        assert_eq!(rig.free(), (BUFFERS, 0));
    });
}

#[test]
fn a_batch_that_fails_too_often_is_given_up_and_counted() {
    watch("given up", || {
        // Of the way there, and of the way back.
        for first in [0, 1] {
            let (device, faults, gate) = faulty_host();
            gate.close();
            let rig = Rig::new();
            let (running, back) = rig.running(&device);
            rig.send(0..4);
            assert!(until(|| faults.count(Call::Submit) == 1));
            for nth in first..first + 4 {
                faults.fail(nth);
            }
            gate.open();
            let stopper = running.stopper().clone();
            assert!(until(|| stopper.progress().dropped == 4), "given up after three retries");
            assert!(until(|| rig.free() == (BUFFERS, 0)), "nobody needs its buffers any more");
            rig.send(4..100);
            let report = stop(running);
            assert!(report.error.is_none(), "the pump goes on: {report:?}");
            assert_eq!((report.accepted, report.delivered, report.dropped), (100, 96, 4));
            assert_eq!((back.numbers(), back.lost()), ((4..100).collect::<Vec<_>>(), 4));
            assert_eq!(rig.rest().0, [], "what was given up does not come again");
        }
    });
}

#[test]
fn a_lost_device_loses_no_message_and_keeps_the_buffers_that_it_had() {
    watch("lost", || {
        for nth in [0, 1, 2, 7] {
            let (device, faults, _) = faulty_host();
            faults.lose(nth);
            faults.outlive_the_process();
            let rig = Rig::new();
            let (running, back) = rig.running(&device);
            let mut sent = 0;
            while !running.is_finished() {
                let numbered = u64::to_le_bytes(sent);
                sent += u64::from(
                    rig.sender.ring().send_copy_timeout(&numbered, Duration::from_millis(1)).is_ok(),
                );
            }
            let report = running.join();
            balanced(&report);
            let lost = matches!(report.error, Some(PumpError::Device(DeviceError::Lost { .. })));
            assert!(lost, "{report:?}");
            let (rest, redelivered) = rig.rest();
            let mut all = back.numbers();
            assert_eq!(all.len() as u64, report.delivered);
            all.extend(rest);
            assert!(all.iter().copied().eq(0..sent), "{nth}: delivered or left, in order: {all:?}");
            // A download that is lost has no buffers of the region.
            let (free, quarantined) = rig.free();
            assert!(
                redelivered >= 1 && [0, 1, 2, 3, 4].contains(&quarantined),
                "{redelivered} {quarantined}"
            );
            assert!(nth != 0 || quarantined > 0, "the first completion is an upload's");
            assert_eq!(free + quarantined, BUFFERS);
        }
    });
}

#[test]
fn what_is_not_delivered_comes_to_the_next_consumer() {
    watch("left", || {
        for reads_back in [false, true] {
            let (device, faults, gate) = faulty_host();
            gate.close();
            let rig = Rig::new();
            let running =
                if reads_back { rig.running(&device).0 } else { rig.pump(&device).spawn().unwrap() };
            rig.send(0..10);
            // Two batches of four are in flight, and the last two messages stay in the ring.
            assert!(until(|| faults.count(Call::Submit) == 2));
            running.stopper().abort();
            let report = running.join();
            balanced(&report);
            assert_eq!((report.accepted, report.delivered, report.dropped), (0, 0, 0), "{report:?}");
            gate.open();
            // The copies end now, and the pump's member leaves.
            assert!(until(|| rig.held() == (0, 0)));
            assert_eq!(rig.rest(), ((0..10).collect(), 8));
            assert_eq!(rig.free(), (BUFFERS, 0));
        }
    });
}

#[test]
fn buffers_are_kept_until_the_sink_has_the_messages_and_lent_until_they_have_landed() {
    watch("kept", || {
        let (device, faults, gate) = faulty_host();
        faults.outlive_the_process();
        gate.close();
        let rig = Rig::new();
        let sink = Held::default();
        let pump = rig.pump(&device).read_back(&device, sink.clone()).unwrap();
        let running = pump.spawn().unwrap();
        rig.send(0..4);
        assert!(until(|| faults.count(Call::Submit) == 1));
        assert_eq!((rig.held(), rig.free().0), ((0, 4), BUFFERS - 4), "a driver may read them");
        gate.open();
        assert!(until(|| sink.entered.is_raised()));
        assert_eq!(
            (rig.held(), rig.free().0),
            ((4, 0), BUFFERS - 4),
            "they have landed, and are not delivered"
        );
        sink.open.raise();
        assert!(until(|| rig.free().0 == BUFFERS));
        assert_eq!(stop(running).delivered, 4);
        assert_eq!(sink.back.numbers(), [0, 1, 2, 3]);
    });
}

#[test]
fn what_a_sink_did_not_take_comes_to_the_next_consumer() {
    watch("sink", || {
        let (device, _, _) = faulty_host();
        let rig = Rig::new();
        let back = Collected { fails_after: Some(8), ..Collected::default() };
        let pump = rig.pump(&device).read_back(&device, back.clone()).unwrap();
        let running = pump.spawn().unwrap();
        rig.send(0..16);
        let report = running.join();
        balanced(&report);
        let failed = matches!(&report.error, Some(PumpError::Sink(error)) if error.kind() == io::ErrorKind::StorageFull);
        assert!(failed, "{report:?}");
        assert_eq!((report.dropped, report.delivered), (0, back.numbers().len() as u64));
        let mut all = back.numbers();
        let (rest, redelivered) = rig.rest();
        assert!(redelivered > 0, "what the sink has refused was taken");
        all.extend(rest);
        assert_eq!(all, (0..16).collect::<Vec<_>>());
    });
}

#[test]
fn a_sink_that_panics_leaves_its_messages() {
    struct Panics;
    impl Sink for Panics {
        fn receive(&mut self, _: &[u8], _: usize) -> io::Result<()> {
            panic!("a fault in the sink");
        }
    }
    watch("panic", || {
        let (device, _, _) = faulty_host();
        let rig = Rig::new();
        let running = rig.pump(&device).read_back(&device, Panics).unwrap().spawn().unwrap();
        rig.send(0..4);
        let report = running.join();
        balanced(&report);
        assert!(matches!(report.error, Some(PumpError::Panicked(_))));
        assert_eq!((report.accepted, report.dropped), (0, 0), "{report:?}");
        assert!(until(|| rig.held() == (0, 0)));
        assert_eq!(rig.rest(), ((0..4).collect(), 4));
    });
}

#[test]
fn the_next_pump_counts_what_it_is_given_once_more() {
    watch("again", || {
        let (device, faults, gate) = faulty_host();
        gate.close();
        let rig = Rig::new();
        let first = rig.pump(&device).spawn().unwrap();
        rig.send(0..8);
        assert!(until(|| faults.count(Call::Submit) == 2));
        first.stopper().abort();
        drop(first.join());
        gate.open();
        assert!(until(|| rig.held() == (0, 0)));
        let (second, back) = rig.running(&device);
        rig.send(8..12);
        let report = stop(second);
        assert_eq!((report.accepted, report.delivered, report.redelivered), (12, 12, 8), "{report:?}");
        assert_eq!(back.numbers(), (0..12).collect::<Vec<_>>());
    });
}

#[test]
fn a_stop_delivers_what_is_in_the_ring_and_a_limit_leaves_it() {
    watch("stop", || {
        let (device, faults, gate) = faulty_host();
        gate.close();
        let rig = Rig::new();
        let (running, back) = rig.running(&device);
        rig.send(0..14);
        assert!(until(|| faults.count(Call::Submit) == 2));
        let stopper = running.stopper().clone();
        stopper.stop(DRAIN);
        gate.open();
        let report = running.join();
        assert_eq!((report.delivered, back.numbers().len()), (14, 14), "{report:?}");

        rig.send(0..14);
        let pump = Pump::open(&device, rig.feed().at_most(9), options()).unwrap();
        let report = pump.run();
        balanced(&report);
        assert_eq!((report.accepted, report.delivered), (9, 9), "it ends by itself");
        assert_eq!(rig.rest(), ((9..14).collect(), 0));
    });
}

#[test]
fn a_stop_ends_although_senders_go_on() {
    watch("endless", || {
        let rig = Rig::new();
        let device = transload::device::host::HostDevice::new();
        let running = rig.pump(&device).spawn().unwrap();
        let over = Arc::new(Flag::new());
        let sender = std::thread::spawn({
            let (pool, over) = (rig.sender.clone(), over.clone());
            move || {
                while !over.is_raised() {
                    let _ = pool.ring().send_copy_timeout(&[1; MESSAGE], Duration::from_millis(1));
                }
            }
        });
        let stopper = running.stopper().clone();
        assert!(until(|| stopper.progress().delivered > 100));
        let report = running.stop(Duration::from_hours(1));
        balanced(&report);
        assert_eq!(report.dropped, 0);
        over.raise();
        sender.join().unwrap();
    });
}

#[test]
fn a_lone_message_goes_out_when_its_time_has_come_and_a_full_batch_at_once() {
    watch("delay", || {
        let rig = Rig::new();
        let device = transload::device::host::HostDevice::new();
        let patient = PumpOptions { batch_delay: Duration::from_hours(1), ..options() };
        let running = Pump::open(&device, rig.feed(), patient).unwrap().spawn().unwrap();
        rig.send(0..3);
        std::thread::sleep(Duration::from_millis(50));
        let stopper = running.stopper().clone();
        assert_eq!(stopper.progress().delivered, 0, "three of four");
        rig.send(3..4);
        assert!(until(|| stopper.progress().delivered == 4), "four of four");
        rig.send(4..5);
        assert_eq!(stop(running).delivered, 5, "closed");

        let running = rig.pump(&device).spawn().unwrap();
        rig.send(0..1);
        let stopper = running.stopper().clone();
        assert!(until(|| stopper.progress().delivered == 1), "nothing else will come");
        assert_eq!(stop(running).delivered, 1);
    });
}

#[test]
fn batches_say_where_they_landed() {
    watch("landed", || {
        let rig = Rig::new();
        let device = transload::device::host::HostDevice::new();
        let landed = Arc::new(Mutex::new(Vec::new()));
        let noted = landed.clone();
        let pump = rig.pump(&device).on_landed(move |batch| noted.lock().unwrap().push(batch.clone()));
        let running = pump.spawn().unwrap();
        rig.send(0..1000);
        stop(running);
        let mut next = 0;
        for batch in landed.lock().unwrap().iter() {
            assert_eq!(batch.first_position, next);
            assert!(batch.messages <= 4 && batch.message_size == MESSAGE);
            assert_eq!(batch.device_range.len(), batch.messages * MESSAGE);
            next += batch.messages as u64;
        }
        assert_eq!(next, 1000);
    });
}

#[test]
fn a_shared_ring_has_no_intakes() {
    let rig = Rig::new();
    let device = transload::device::host::HostDevice::new();
    let pump = rig.pump(&device);
    assert!(pump.ring().is_none());
    let refused = Intake::new(ring(16).0, OnFull::Block, &pump);
    assert!(matches!(refused, Err(PumpError::ForeignProducer)), "{refused:?}");
}
