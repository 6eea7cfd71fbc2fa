//! Stopped after an instruction, while another process acts; then killed, or let go on.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of tests, and figures for who asks for them"
)]

use transload_conformance::skip::skip;
use transload_crash::interplay::{INTERPLAYS, Interplay};
use transload_crash::operation::Operation;
use transload_crash::stop::{Stops, stop_everywhere};
use transload_crash::trace::place_children_alike;
use transload_crash::victim::Victim;

/// `None` where processes cannot be stepped.
fn stops(test: &str, name: &str, plays: &[Interplay], every: usize) -> Option<Stops> {
    if let Err(why) = place_children_alike() {
        skip(test, &why.to_string());
        return None;
    }
    let (operation, victim) = (Operation::of(name).unwrap(), Victim::new(env!("CARGO_BIN_EXE_victim")));
    let is_long = std::env::var_os("TRANSLOAD_LONG").is_some();
    let stops = stop_everywhere(operation, &victim, plays, if is_long { 1 } else { every }, is_long);
    println!("{stops}");
    Some(stops)
}

/// Each with the name of the operation, and at how many instructions it is stopped once. At length at all, and with all
/// that the other can do.
macro_rules! survives {
    ($($test:ident $name:literal $every:literal)*) => { $(
        #[test]
        fn $test() {
            if let Some(stops) = stops(stringify!($test), $name, &INTERPLAYS, $every) {
                assert!(stops.faults.is_empty(), "{stops}");
            }
        }
    )* };
}

survives! {
    acquire "acquire" 1
    acquire_nothing "acquire-nothing" 1
    release "release" 1
    send "send" 1
    send_behind_dead "send-behind-dead" 1
    send_full "send-full" 1
    send_too_late "send-too-late" 1
    send_copy "send-copy" 1
    take "take" 1
    take_behind_dead "take-behind-dead" 1
    take_nothing "take-nothing" 1
    finish "finish" 1
    finish_all "finish-all" 1
    into_leases "into-leases" 1
    recover "recover" 3
    become_consumer "become-consumer" 3
    end_consumer "end-consumer" 1
    lend "lend" 1
    take_back "take-back" 1
    lend_batch "lend-batch" 1
    quarantine "quarantine" 1
    put_back "put-back" 1
    drop_unless_done "drop-unless-done" 1
}

/// Whoever stands still is not dead.
#[test]
fn who_takes_the_stopped_for_dead_is_caught() {
    for name in ["acquire", "send", "take"] {
        let test = "who_takes_the_stopped_for_dead_is_caught";
        let Some(stops) = stops(test, name, &[Interplay::Presume], 1) else { return };
        assert!(!stops.faults.is_empty(), "{stops}");
    }
}
