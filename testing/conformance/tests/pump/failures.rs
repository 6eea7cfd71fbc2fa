//! Copies that fail, calls that are refused, devices that are lost.

use transload::device::DeviceError;
use transload::pump::{OnFull, Outcome, Pump, PumpError};
use transload_conformance::faulty::Call;
use transload_conformance::watchdog::{until, watch};

use crate::kit::{Rig, balanced, faulty_host, options, ring};

fn offer(rig: &Rig, numbers: std::ops::Range<u64>) {
    for number in numbers {
        assert_eq!(rig.intake.offer(&number.to_le_bytes()), Ok(Outcome::Accepted));
    }
}

#[test]
fn failed_copies_are_tried_again_and_order_is_kept() {
    watch("retry", || {
        let (device, faults, _) = faulty_host();
        // Uploads and downloads among the first, and some three times in a row.
        for nth in [0, 1, 2, 5, 9, 10, 14, 20, 21, 22] {
            faults.fail(nth);
        }
        let rig = Rig::new(&device, 16, OnFull::Block);
        offer(&rig, 0..200);
        let (report, back) = rig.finish();
        assert!(report.error.is_none(), "{report:?}");
        assert_eq!((report.delivered, report.dropped, report.failed_copies), (200, 0, 10));
        assert_eq!(back, (0..200).collect::<Vec<_>>());
    });
}

#[test]
fn a_batch_that_fails_too_often_is_given_up_and_counted() {
    watch("given up", || {
        let (device, faults, gate) = faulty_host();
        gate.close();
        let rig = Rig::new(&device, 16, OnFull::Block);
        offer(&rig, 0..4);
        // The first batch alone is in flight, so all completions until it is given up are its own.
        assert!(until(|| faults.count(Call::Submit) == 1));
        for nth in 0..4 {
            faults.fail(nth);
        }
        gate.open();
        assert!(until(|| rig.running.stopper().progress().dropped == 4), "given up after three retries");
        offer(&rig, 4..100);
        let told = rig.back.clone();
        let (report, back) = rig.finish();
        assert_eq!(told.lost(), 4, "the sink is told");
        assert!(report.error.is_none(), "the pump goes on: {report:?}");
        assert_eq!((report.accepted, report.delivered, report.dropped), (100, 96, 4));
        assert_eq!(back, (4..100).collect::<Vec<_>>());
    });
}

#[test]
fn a_lost_device_ends_the_pump_and_quarantines() {
    watch("lost", || {
        for nth in [0, 1, 2, 7] {
            let (device, faults, _) = faulty_host();
            faults.lose(nth);
            let rig = Rig::new(&device, 16, OnFull::Block);
            let mut accepted = 0;
            while rig.intake.offer(&[1; 8]).is_ok() {
                accepted += 1;
            }
            let report = rig.running.join();
            balanced(&report);
            assert!(matches!(report.error, Some(PumpError::Device(DeviceError::Lost { .. }))), "{report:?}");
            assert_eq!(report.accepted, accepted);
        }
    });
}

#[test]
fn calls_that_the_driver_refuses_are_tried_again() {
    watch("refused", || {
        let (device, faults, _) = faulty_host();
        for nth in [0, 3, 4, 9] {
            faults.refuse(Call::Submit, nth);
            faults.refuse(Call::Fetch, nth);
        }
        let rig = Rig::new(&device, 16, OnFull::Block);
        offer(&rig, 0..200);
        let (report, back) = rig.finish();
        assert!(report.error.is_none(), "{report:?}");
        assert_eq!((report.delivered, report.dropped, report.failed_copies), (200, 0, 8));
        assert_eq!(back, (0..200).collect::<Vec<_>>());
    });
}

#[test]
fn a_batch_that_the_driver_always_refuses_is_given_up() {
    watch("always refused", || {
        let (device, faults, _) = faulty_host();
        for nth in 0..4 {
            faults.refuse(Call::Submit, nth);
        }
        let rig = Rig::new(&device, 4, OnFull::Block);
        offer(&rig, 0..100);
        let (report, back) = rig.finish();
        assert!(report.error.is_none(), "the pump goes on: {report:?}");
        assert_eq!((report.accepted, report.dropped > 0), (100, true));
        assert!(back.windows(2).all(|pair| pair[0] < pair[1]), "{back:?}");
    });
}

#[test]
fn a_pump_that_is_refused_its_device_lets_go_of_the_ring() {
    for call in [Call::Register, Call::OpenStream] {
        let (device, faults, _) = faulty_host();
        faults.refuse(call, 0);
        let (producer, consumer) = ring(16);
        assert!(Pump::open(&device, consumer, options()).is_err());
        assert!(producer.is_closed());
    }
}
