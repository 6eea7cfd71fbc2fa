//! What comes back, and sinks that fail.

use std::io;

use transload::pump::{Intake, OnFull, Outcome, Pump, PumpError, Sink};
use transload_conformance::watchdog::watch;

use crate::kit::{Collected, MESSAGE, balanced, devices, faulty_host, options, ring};

#[test]
fn everything_comes_back_in_order_from_each_device() {
    watch("read back", || {
        for device in devices("pump::read_back::everything_comes_back_in_order_from_each_device") {
            for capacity in [2, 4, 64, 1024] {
                let (producer, consumer) = ring(capacity);
                let back = Collected::default();
                let pump = Pump::open(&*device, consumer, options()).unwrap();
                let pump = pump.read_back(&*device, back.clone()).unwrap();
                let intake = Intake::new(producer, OnFull::Block, &pump).unwrap();
                let running = pump.spawn().unwrap();
                for number in 0..5000u64 {
                    assert_eq!(intake.offer(&number.to_le_bytes()), Ok(Outcome::Accepted));
                }
                drop(intake);
                let report = running.join();
                balanced(&report);
                assert_eq!(report.delivered, 5000, "{report:?}");
                assert_eq!(back.numbers(), (0..5000).collect::<Vec<_>>());
                assert!(report.latency.samples > 0 && report.latency.p50 <= report.latency.max);
            }
        }
    });
}

#[test]
fn a_sink_that_fails_ends_the_pump() {
    watch("sink", || {
        let (device, _, _) = faulty_host();
        let (producer, consumer) = ring(16);
        let back = Collected { fails_after: Some(40), ..Collected::default() };
        let pump =
            Pump::open(&device, consumer, options()).unwrap().read_back(&device, back.clone()).unwrap();
        let intake = Intake::new(producer, OnFull::Block, &pump).unwrap();
        let running = pump.spawn().unwrap();
        let mut accepted = 0;
        while intake.offer(&[0; MESSAGE]).is_ok() {
            accepted += 1;
        }
        let report = running.join();
        balanced(&report);
        assert_eq!(report.accepted, accepted);
        assert_eq!(report.delivered, back.numbers().len() as u64);
        assert!(
            matches!(&report.error, Some(PumpError::Sink(error)) if error.kind() == io::ErrorKind::StorageFull)
        );
    });
}

#[test]
fn a_sink_that_panics_is_an_error_and_not_a_hang() {
    struct Panics;
    impl Sink for Panics {
        fn receive(&mut self, _: &[u8], _: usize) -> io::Result<()> {
            panic!("a fault in the sink");
        }
    }
    watch("panic", || {
        let (device, _, _) = faulty_host();
        let (producer, consumer) = ring(16);
        let pump = Pump::open(&device, consumer, options()).unwrap().read_back(&device, Panics).unwrap();
        let intake = Intake::new(producer, OnFull::Block, &pump).unwrap();
        let running = pump.spawn().unwrap();
        while intake.offer(&[0; MESSAGE]).is_ok() {}
        let report = running.join();
        assert!(
            matches!(&report.error, Some(PumpError::Panicked(text)) if text.contains("fault in the sink"))
        );
        assert_eq!(report.accepted, report.delivered + report.dropped);
    });
}
