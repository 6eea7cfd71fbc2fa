//! Leases as numbers: whatever is done with them, each buffer has one owner, and what is wrong changes nothing.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod pool_kit;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;

use pool_kit::pool;
use proptest::prelude::*;
use transload::pool::{Lease, RawLease, RawLeaseError};

#[test]
fn a_raw_lease_is_redeemed_once() {
    let (pool, other) = (pool(2, 8), pool(2, 8));
    let mut lease = pool.try_acquire().unwrap();
    lease.copy_from_slice(b"together");
    let raw = lease.into_raw();
    assert_eq!((pool.available(), pool.statistics().leased), (1, 1));
    let foreign = other.lease_from_raw(raw).unwrap_err();
    assert!(matches!(foreign, RawLeaseError::Foreign { actual, .. } if actual == raw.pool), "{foreign}");
    let lease = pool.lease_from_raw(raw).unwrap();
    assert_eq!(&*lease, b"together");
    let stale = RawLeaseError::Stale { index: raw.index };
    assert_eq!(pool.lease_from_raw(raw).unwrap_err(), stale);
    assert_eq!(pool.release_raw(raw), Err(stale));
    drop(lease);
    assert_eq!(pool.release_raw(raw), Err(stale));
    let none = RawLease { index: 2, ..raw };
    assert_eq!(pool.release_raw(none), Err(RawLeaseError::NoSuchBuffer { index: 2, capacity: 2 }));
    assert_eq!((pool.available(), other.available()), (2, 2));
}

#[test]
fn the_token_of_an_earlier_lease_of_the_same_buffer_is_stale() {
    let pool = pool(1, 8);
    let mut handle = pool.handle();
    let mut old = Vec::new();
    for _ in 0..1000 {
        let raw = handle.try_acquire().unwrap().into_raw();
        for &earlier in &old {
            assert!(pool.release_raw(earlier).is_err());
        }
        if old.len() < 20 {
            old.push(raw);
        }
        pool.release_raw(raw).unwrap();
        assert_eq!(pool.available(), 1);
    }
}

#[test]
fn of_many_who_redeem_one_succeeds() {
    let pool = pool(1, 8);
    for _ in 0..200 {
        let raw = pool.try_acquire().unwrap().into_raw();
        let barrier = Arc::new(std::sync::Barrier::new(3));
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let (pool, barrier) = (pool.clone(), barrier.clone());
                thread::spawn(move || {
                    barrier.wait();
                    usize::from(pool.release_raw(raw).is_ok())
                })
            })
            .collect();
        assert_eq!(threads.into_iter().map(|thread| thread.join().unwrap()).sum::<usize>(), 1);
        assert_eq!(pool.available(), 1);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Acquire,
    /// Of those that are out: drop one, by its place in the list.
    Release(usize),
    Quarantine(usize),
    IntoRaw(usize),
    Redeem(usize),
    /// One that was redeemed before.
    RedeemOld(usize),
    /// Numbers that nobody gave out.
    RedeemMadeUp {
        index: u32,
        generation: u64,
        foreign: bool,
    },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => Just(Step::Acquire),
        4 => any::<usize>().prop_map(Step::Release),
        1 => any::<usize>().prop_map(Step::Quarantine),
        3 => any::<usize>().prop_map(Step::IntoRaw),
        3 => any::<usize>().prop_map(Step::Redeem),
        2 => any::<usize>().prop_map(Step::RedeemOld),
        2 => (0..12u32, any::<u64>(), any::<bool>())
            .prop_map(|(index, generation, foreign)| Step::RedeemMadeUp { index, generation, foreign }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Against a model: which buffers are out, and how.
    #[test]
    fn every_buffer_has_one_owner(count in 1..9usize, steps in prop::collection::vec(step(), 1..200)) {
        let pool = pool(count, 16);
        let (mut leases, mut raws, mut old) = (BTreeMap::<u32, Lease>::new(), Vec::new(), Vec::new());
        let mut quarantined = 0;
        for step in steps {
            match step {
                Step::Acquire => {
                    if let Ok(lease) = pool.try_acquire() {
                        let index = lease.index();
                        prop_assert!(raws.iter().all(|raw: &RawLease| raw.index != index));
                        prop_assert!(leases.insert(index, lease).is_none(), "two owners");
                    } else {
                        prop_assert_eq!(leases.len() + raws.len() + quarantined, count);
                    }
                }
                Step::Release(at) | Step::Quarantine(at) | Step::IntoRaw(at) if !leases.is_empty() => {
                    let index = *leases.keys().nth(at % leases.len()).unwrap();
                    let lease = leases.remove(&index).unwrap();
                    match step {
                        Step::Release(_) => drop(lease),
                        Step::IntoRaw(_) => raws.push(lease.into_raw()),
                        _ => {
                            lease.quarantine();
                            quarantined += 1;
                        }
                    }
                }
                Step::Redeem(at) if !raws.is_empty() => {
                    let raw = raws.swap_remove(at % raws.len());
                    let lease = pool.lease_from_raw(raw).unwrap();
                    prop_assert_eq!(lease.index(), raw.index);
                    prop_assert!(leases.insert(raw.index, lease).is_none());
                    old.push(raw);
                }
                Step::RedeemOld(at) if !old.is_empty() => {
                    prop_assert!(pool.lease_from_raw(old[at % old.len()]).is_err());
                }
                Step::RedeemMadeUp { index, generation, foreign } => {
                    let pool_number = raws.first().or(old.first()).map_or(0, |raw| raw.pool);
                    let raw = RawLease { pool: pool_number + u64::from(foreign), generation, index };
                    if !raws.contains(&raw) {
                        prop_assert!(pool.release_raw(raw).is_err());
                    }
                }
                _ => {}
            }
            let out = leases.len() + raws.len() + quarantined;
            prop_assert_eq!(pool.available(), count - out);
            let statistics = pool.statistics();
            prop_assert_eq!(statistics.acquired, statistics.released + out as u64);
        }
        for raw in raws {
            prop_assert!(pool.release_raw(raw).is_ok());
        }
        drop(leases);
        prop_assert_eq!(pool.available(), count - quarantined);
    }
}
