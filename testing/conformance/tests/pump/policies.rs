//! What happens when the ring is full, with a device that does not go on.

use std::thread;
use std::time::Duration;

use transload::pump::{Intake, OnFull, Outcome, Pump};
use transload_conformance::faulty::Call;
use transload_conformance::watchdog::{until, watch};

use crate::kit::{DRAIN, MESSAGE, Rig, balanced, faulty_host, options, ring};

/// Offers numbers until the first that is not accepted; gives how many were.
fn fill(rig: &Rig) -> u64 {
    let mut number = 0u64;
    loop {
        match rig.intake.offer(&number.to_le_bytes()).unwrap() {
            Outcome::Accepted => number += 1,
            _ => return number,
        }
        // The pump may still be taking: what it takes makes room.
        assert!(number <= 1000, "the ring never fills");
        thread::sleep(Duration::from_micros(50));
    }
}

#[test]
fn reject_refuses_and_loses_nothing_that_it_accepted() {
    watch("reject", || {
        let (device, _, gate) = faulty_host();
        gate.close();
        let rig = Rig::new(&device, 16, OnFull::Reject);
        let accepted = fill(&rig);
        for number in 0..9u64 {
            assert_eq!(rig.intake.offer(&number.to_le_bytes()), Ok(Outcome::Rejected));
        }
        gate.open();
        let (report, back) = rig.finish();
        assert_eq!((report.accepted, report.delivered, report.dropped), (accepted, accepted, 0));
        assert_eq!(report.rejected, 10);
        assert_eq!(back, (0..accepted).collect::<Vec<_>>());
    });
}

#[test]
fn drop_new_accepts_and_drops_what_has_no_room() {
    watch("drop-new", || {
        let (device, _, gate) = faulty_host();
        gate.close();
        let rig = Rig::new(&device, 16, OnFull::DropNew);
        let stored = fill(&rig);
        for number in 0..9u64 {
            assert_eq!(rig.intake.offer(&number.to_le_bytes()), Ok(Outcome::Dropped));
        }
        gate.open();
        let (report, back) = rig.finish();
        assert_eq!((report.accepted, report.delivered, report.dropped), (stored + 10, stored, 10));
        assert_eq!(back, (0..stored).collect::<Vec<_>>());
    });
}

#[test]
fn drop_oldest_keeps_the_newest_and_what_is_on_its_way() {
    watch("drop-oldest", || {
        let (device, faults, gate) = faulty_host();
        gate.close();
        let rig = Rig::new(&device, 16, OnFull::DropOldest);
        for batch in 0..2u64 {
            for number in 4 * batch..4 * batch + 4 {
                assert_eq!(rig.intake.offer(&number.to_le_bytes()), Ok(Outcome::Accepted));
            }
            let stopper = rig.running.stopper().clone();
            assert!(until(
                || faults.count(Call::Submit) > batch && stopper.progress().accepted == 4 * batch + 4
            ));
        }
        let intake = rig.intake.clone();
        let source = thread::spawn(move || {
            for number in 8..100u64 {
                assert_eq!(intake.offer(&number.to_le_bytes()), Ok(Outcome::Accepted));
            }
        });
        let stopper = rig.running.stopper().clone();
        assert!(until(|| stopper.progress().dropped > 0), "the ring fills, and the oldest go");
        // Two batches of four are on their way and hold the oldest slots: dropping more would make no room.
        thread::sleep(Duration::from_millis(50));
        assert_eq!((stopper.progress().dropped, stopper.progress().delivered), (4, 0));
        gate.open();
        source.join().unwrap();
        let (report, back) = rig.finish();
        assert_eq!(report.accepted, 100);
        assert!(report.dropped >= 4, "{report:?}");
        assert!(back.windows(2).all(|pair| pair[0] < pair[1]), "{back:?}");
        assert_eq!((back.first(), back.last()), (Some(&0), Some(&99)));
        assert!(!back.contains(&8), "the oldest that was not on its way is gone");
        assert_eq!(back.len() as u64, report.delivered);
    });
}

#[test]
fn block_waits_and_drops_nothing() {
    watch("block", || {
        let (device, _, gate) = faulty_host();
        gate.close();
        let rig = Rig::new(&device, 16, OnFull::Block);
        let intake = rig.intake.clone();
        let source = thread::spawn(move || {
            for number in 0..100u64 {
                assert_eq!(intake.offer(&number.to_le_bytes()), Ok(Outcome::Accepted));
            }
        });
        let stopper = rig.running.stopper().clone();
        assert!(until(|| stopper.progress().accepted == 16), "the ring fills");
        thread::sleep(Duration::from_millis(20));
        assert!(!source.is_finished(), "the source waits");
        assert_eq!(stopper.progress().delivered, 0, "no slot comes back before its copy");
        gate.open();
        source.join().unwrap();
        let (report, back) = rig.finish();
        assert_eq!((report.accepted, report.delivered, report.dropped), (100, 100, 0));
        assert_eq!(back, (0..100).collect::<Vec<_>>());
    });
}

#[test]
fn a_stop_drops_what_does_not_drain_in_time() {
    watch("stop", || {
        let (device, _, gate) = faulty_host();
        gate.close();
        let rig = Rig::new(&device, 16, OnFull::Reject);
        let accepted = fill(&rig);
        let stopper = rig.running.stopper().clone();
        stopper.stop(Duration::from_millis(30));
        let report = rig.running.join();
        balanced(&report);
        assert_eq!((report.accepted, report.delivered, report.dropped), (accepted, 0, accepted));
        assert!(rig.intake.offer(&[0; 8]).is_err(), "closed");
        gate.open();
    });
}

#[test]
fn a_stop_delivers_what_drains_in_time() {
    watch("drain", || {
        let (device, _, gate) = faulty_host();
        gate.close();
        let rig = Rig::new(&device, 16, OnFull::Reject);
        let accepted = fill(&rig);
        let opens = thread::spawn(move || {
            thread::sleep(Duration::from_millis(30));
            gate.open();
        });
        let report = rig.running.stop(DRAIN);
        opens.join().unwrap();
        assert_eq!((report.accepted, report.delivered, report.dropped), (accepted, accepted, 0));
        assert_eq!(rig.back.numbers().len() as u64, accepted);
    });
}

#[test]
fn an_abort_ends_at_once_and_counts() {
    watch("abort", || {
        let (device, _, gate) = faulty_host();
        gate.close();
        let rig = Rig::new(&device, 16, OnFull::Reject);
        let accepted = fill(&rig);
        rig.running.stopper().abort();
        let report = rig.running.join();
        assert_eq!((report.accepted, report.delivered, report.dropped), (accepted, 0, accepted));
        gate.open();
    });
}

#[test]
fn totals_hold_with_as_many_batches_in_flight_as_there_can_be() {
    watch("64 in flight", || {
        let (device, faults, gate) = faulty_host();
        gate.close();
        let (producer, consumer) = ring(256);
        let mut options = options();
        (options.batch_bytes, options.in_flight) = (MESSAGE, 64);
        let pump = Pump::open(&device, consumer, options).unwrap();
        let running = pump.spawn().unwrap();
        producer.try_enqueue_batch(&[1; 256 * MESSAGE]).unwrap();
        assert!(until(|| faults.count(Call::Submit) == 64));
        running.stopper().abort();
        let report = running.join();
        balanced(&report);
        assert_eq!((report.accepted, report.delivered, report.dropped), (256, 0, 256));
        gate.open();
    });
}

#[test]
fn totals_hold_with_a_reservation_that_is_never_committed() {
    watch("held", || {
        let (device, _, _) = faulty_host();
        let (producer, consumer) = ring(16);
        let running = Pump::open(&device, consumer, options()).unwrap().spawn().unwrap();
        let held = producer.try_reserve().unwrap();
        producer.try_enqueue_batch(&[1; 5 * MESSAGE]).unwrap();
        let report = running.stop(Duration::from_millis(20));
        balanced(&report);
        assert_eq!((report.accepted, report.delivered), (6, 0), "a claimed slot counts");
        held.commit();
    });
}

#[test]
fn what_has_landed_when_a_pump_is_stopped_has_arrived() {
    watch("landed", || {
        for _ in 0..50 {
            let (device, faults, gate) = faulty_host();
            gate.close();
            let rig = Rig::new(&device, 16, OnFull::Block);
            for number in 0..4u64 {
                rig.intake.offer(&number.to_le_bytes()).unwrap();
            }
            assert!(until(|| faults.count(Call::Submit) > 0));
            rig.running.stopper().stop(Duration::ZERO);
            gate.open();
            let (report, back) = rig.finish();
            assert_eq!((report.delivered, report.dropped), (back.len() as u64, 4 - back.len() as u64));
        }
    });
}

#[test]
fn a_full_ring_goes_out_although_its_last_slot_is_only_reserved() {
    watch("full", || {
        let (device, _, _) = faulty_host();
        let (producer, consumer) = ring(16);
        let mut patient = options();
        (patient.batch_bytes, patient.batch_delay) = (16 * MESSAGE, Duration::from_hours(1));
        let running = Pump::open(&device, consumer, patient).unwrap().spawn().unwrap();
        producer.try_enqueue_batch(&[1; 15 * MESSAGE]).unwrap();
        let held = producer.try_reserve().unwrap();
        let stopper = running.stopper().clone();
        assert!(until(|| stopper.progress().delivered == 15), "the ring is full");
        assert!(until(|| stopper.progress().stalled.is_some()), "and waits for the reservation");
        held.commit();
        drop(producer);
        assert_eq!(running.join().delivered, 16);
    });
}

#[test]
fn drop_oldest_lets_a_batch_go_out_rather_than_drop_the_whole_ring() {
    watch("a ring of one batch", || {
        let device = transload::device::host::HostDevice::new();
        let (producer, consumer) = ring(64);
        let whole = transload::pump::PumpOptions { batch_bytes: 64 * MESSAGE, ..options() };
        let pump = Pump::open(&device, consumer, whole).unwrap();
        let intake = Intake::new(producer, OnFull::DropOldest, &pump).unwrap();
        let running = pump.spawn().unwrap();
        for number in 0..100_000u64 {
            intake.offer(&number.to_le_bytes()).unwrap();
        }
        drop(intake);
        let report = running.join();
        balanced(&report);
        // All but nothing was delivered when the pump dropped before it tried to send.
        assert!(report.delivered > report.accepted / 20, "{report:?}");
    });
}
