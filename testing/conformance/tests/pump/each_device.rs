//! What must hold on every device that is there, whatever fails of it.

use std::thread;

use transload::device::Device;
use transload::pump::{Intake, OnFull, Outcome, Pump};
use transload_conformance::faulty::{Call, Faults, Faulty};
use transload_conformance::watchdog::watch;

use crate::kit::{Collected, Rig, balanced, devices, options, ring};

const NAME: &str = "pump::each_device";

/// Each of the first calls of each kind is refused in turn, and each of the first completions fails: everything arrives, in
/// order, and the failure is counted.
#[test]
fn one_failure_costs_no_message() {
    watch("one failure", || {
        let fails: [fn(&Faults, u64); 3] = [
            |faults, nth| faults.refuse(Call::Submit, nth),
            |faults, nth| faults.refuse(Call::Fetch, nth),
            Faults::fail,
        ];
        for (nth_kind, fail) in fails.into_iter().enumerate() {
            for nth in 0..12 {
                for device in devices(NAME) {
                    let faults = Faults::new();
                    fail(&faults, nth);
                    let device = Faulty::new(device, faults);
                    let rig = Rig::new(&device, 16, OnFull::Block);
                    for number in 0..200_u64 {
                        assert_eq!(rig.intake.offer(&number.to_le_bytes()), Ok(Outcome::Accepted));
                    }
                    let (report, back) = rig.finish();
                    let what = format!("{:?}: kind {nth_kind}, number {nth}", device.info().backend);
                    assert!(report.error.is_none(), "{what}: {report:?}");
                    assert_eq!((report.delivered, report.failed_copies), (200, 1), "{what}");
                    assert_eq!(back, (0..200).collect::<Vec<_>>(), "{what}");
                }
            }
        }
    });
}

/// Three producers into a ring that is nearly always full, under each policy: what is accepted arrives or is counted, and
/// what arrives of one producer does so in its order.
#[test]
fn totals_hold_under_each_policy() {
    const EACH: u64 = 20_000;
    watch("policies", || {
        for device in devices(NAME) {
            for policy in [OnFull::Block, OnFull::Reject, OnFull::DropNew, OnFull::DropOldest] {
                let (producer, consumer) = ring(8);
                let back = Collected::default();
                let pump = Pump::open(&*device, consumer, options()).unwrap();
                let pump = pump.read_back(&*device, back.clone()).unwrap();
                let intake = Intake::new(producer, policy, &pump).unwrap();
                let running = pump.spawn().unwrap();
                let accepted: u64 = thread::scope(|scope| {
                    let offer = |producer: u64| {
                        let intake = intake.clone();
                        move || {
                            let numbers = (0..EACH).map(|number| producer << 32 | number);
                            let outcomes = numbers.map(|number| intake.offer(&number.to_le_bytes()).unwrap());
                            outcomes.filter(|&outcome| outcome != Outcome::Rejected).count() as u64
                        }
                    };
                    let threads: Vec<_> = (0..3).map(|producer| scope.spawn(offer(producer))).collect();
                    threads.into_iter().map(|thread| thread.join().unwrap()).sum()
                });
                drop(intake);
                let report = running.join();
                let what = format!("{} under {policy:?}", device.info().backend);
                balanced(&report);
                assert!(report.error.is_none(), "{what}: {report:?}");
                assert_eq!(report.accepted, accepted, "{what}");
                assert_eq!(report.accepted + report.rejected, 3 * EACH, "{what}");
                if policy == OnFull::Block {
                    assert_eq!((report.dropped, report.rejected), (0, 0), "{what}");
                }
                let numbers = back.numbers();
                assert_eq!(numbers.len() as u64, report.delivered, "{what}");
                for producer in 0..3 {
                    let own = numbers.iter().filter(|&number| number >> 32 == producer);
                    assert!(own.is_sorted_by(|before, after| before < after), "{what}: producer {producer}");
                }
            }
        }
    });
}
