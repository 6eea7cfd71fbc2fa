use std::collections::BTreeMap;
use std::io::{Read, Write};

use super::*;
use crate::proactor::capability::Capability;

/// Numbers that are the same each time (a linear congruential generator).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % end
    }
}

/// Attempts in flight, and what they use. A key is as good as its lease's owner in the real table.
#[derive(Default)]
struct Ledger {
    in_flight: BTreeMap<Key, Option<Lease>>,
    ended: usize,
    data: usize,
    starved: usize,
    cancelled: usize,
}

impl Ledger {
    fn note(&mut self, completion: Completion) {
        let Completion { key, event, more } = completion;
        assert!(self.in_flight.contains_key(&key), "{event:?} of an attempt that has ended");
        match event {
            Event::Data(lease) => self.data += lease.len(),
            Event::Starved => self.starved += 1,
            Event::Done(Err(Errno::CANCELED)) => self.cancelled += 1,
            Event::Done(_) | Event::Notified { .. } | Event::Accepted(_) => {}
        }
        if !more {
            self.in_flight.remove(&key);
            self.ended += 1;
        }
    }
}

/// Starts, cancels, lets peers write, read and go, lets submissions fail; each attempt ends once, and all comes back.
fn storm(seed: u64, entries: u32, allowed: Capabilities) {
    let mut numbers = Numbers(seed);
    let mut bench = Bench::with(entries, allowed);
    let (receives, buffers) = (pool(5, 64), pool(64, 64));
    bench.backend.add_pool(0, &receives).unwrap();
    let mut pairs: Vec<_> = (0..8).map(|at| pair(at % 2 == 0)).collect();
    let mut ledger = Ledger::default();
    for _ in 0..4000 {
        let at = numbers.below(pairs.len());
        let (socket, peer) = &mut pairs[at];
        let zero_copy = allowed.has(Capability::ZeroCopySend) && numbers.below(2) == 0;
        match numbers.below(12) {
            0 => drop(ledger.in_flight.insert(bench.start(Attempt::Readable { socket }), None)),
            1 | 2 => {
                let key = bench.start(Attempt::ReceiveMany { socket, group: 0 });
                ledger.in_flight.insert(key, None);
            }
            choice @ 3..=5 => {
                if let Ok(lease) = buffers.try_acquire() {
                    let pieces = &[piece(&lease)];
                    let key = bench.start(if choice == 3 {
                        Attempt::Receive { socket, pieces }
                    } else {
                        Attempt::Send { socket, pieces, zero_copy, linked: false }
                    });
                    ledger.in_flight.insert(key, Some(lease));
                }
            }
            6 => {
                if let Some(&key) = ledger.in_flight.keys().nth(numbers.below(ledger.in_flight.len().max(1)))
                {
                    bench.backend.cancel(key);
                }
            }
            7 => {
                let _ = peer.write(&[7; 150]);
            }
            8 => {
                let _ = peer.read(&mut [0; 4096]);
            }
            9 if numbers.below(10) == 0 => pairs[at] = pair(numbers.below(2) == 0),
            10 => bench.backend.ring.faults.push_back(Errno::AGAIN),
            _ => {
                let timeout = Duration::from_micros(100 * u64::try_from(numbers.below(3)).unwrap());
                bench.backend.wait(Some(timeout), &mut bench.seen).unwrap();
                bench.seen.drain(..).for_each(|completion| ledger.note(completion));
            }
        }
    }
    // The sockets go, the attempts keep them; then all are cancelled.
    let start = Instant::now();
    for &key in ledger.in_flight.keys() {
        bench.backend.cancel(key);
    }
    drop(pairs);
    while !ledger.in_flight.is_empty() {
        assert!(start.elapsed() < LONG, "{} attempts do not end", ledger.in_flight.len());
        bench.backend.wait(Some(SHORT), &mut bench.seen).unwrap();
        bench.seen.drain(..).for_each(|completion| ledger.note(completion));
    }
    println!(
        "seed {seed}, {entries} entries, {allowed:?}: {} ended, {} cancelled, {} starved, {} bytes, {} overflows",
        ledger.ended,
        ledger.cancelled,
        ledger.starved,
        ledger.data,
        bench.backend.overflows()
    );
    assert!(ledger.data > 0 && ledger.starved > 0 && ledger.cancelled > 0);
    assert_eq!(bench.backend.requests.in_flight(), 0);
    bench.backend.remove_pool(0);
    assert_eq!((receives.available(), buffers.available()), (5, 64));
}

trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

fn pair(tcp: bool) -> (Socket, Box<dyn Stream>) {
    if tcp {
        let (socket, peer) = tcp_pair();
        peer.set_nonblocking(true).unwrap();
        (socket, Box::new(peer))
    } else {
        let (socket, peer) = unix_pair();
        peer.set_nonblocking(true).unwrap();
        (socket, Box::new(peer))
    }
}

#[test]
fn each_attempt_ends_once_whatever_happens() {
    for seed in 0..3 {
        for entries in [2, 64] {
            storm(seed, entries, Capabilities::ALL);
            storm(seed, entries, Capabilities::ALL.without(Capability::SingleIssuer));
            storm(seed, entries, Capabilities::NONE);
        }
    }
}
