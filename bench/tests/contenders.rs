//! Every queue passes the verifying mode, by single calls and by batches, with one and with three producers.

use transload_bench::adapter::{Adapter, Receiver, Role, Sender};
use transload_bench::adapters::{Crossbeam, FlumeEach, KanalEach, Staging, SyncChannel, Thingbuf};
use transload_bench::cell::Cell;
use transload_bench::contender::contenders;
use transload_bench::drive::Call;
use transload_bench::pin::{Cores, Spread};
use transload_bench::settings::Settings;

fn prove_all<const N: usize>(messages: u64) {
    for spread in [Spread::Both, Spread::Apart] {
        let Ok(cores) = Cores::detect(spread) else {
            println!("skipped: two cores are needed");
            return;
        };
        let settings = Settings::quick(cores);
        for contender in contenders::<N>() {
            for (producers, call) in
                [(1, Call::Single), (3, Call::Single), (1, Call::Batch), (3, Call::Batch)]
            {
                let cell = Cell { message_bytes: N, capacity: 128, producers, call };
                let findings =
                    contender.prove(settings.counted(messages, producers), &cell).expect("a sound queue");
                assert!(
                    contender.role == Role::Baseline || findings.messages >= messages / 3 * 3,
                    "{} at {cell}: {findings:?}",
                    contender.name
                );
            }
        }
    }
}

#[test]
fn small_messages() {
    prove_all::<64>(9_000);
}

#[test]
fn middle_messages() {
    prove_all::<256>(6_000);
}

#[test]
fn large_messages() {
    prove_all::<4096>(1_200);
}

/// The comparison would be unfair if one queue had more room than another.
#[test]
fn every_queue_holds_as_many_messages() {
    fn room<A: Adapter<64>>() -> usize {
        let (mut sender, mut receiver) = A::open(64);
        let count = (0..100).filter(|_| sender.send(&[7; 64])).count();
        assert_eq!(receiver.receive(64), vec![[7; 64]; count.min(64)], "{}", A::NAME);
        count
    }
    let rooms = [
        room::<Crossbeam>(),
        room::<Thingbuf>(),
        room::<KanalEach>(),
        room::<FlumeEach>(),
        room::<SyncChannel>(),
        room::<Staging>(),
    ];
    assert_eq!(rooms, [64; 6]);
}
