//! Members that are killed and stopped at random moments.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of tests, and figures for who asks for them"
)]

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use transload_crash::campaign::actor::Role;
use transload_crash::campaign::director::{Cast, Tally, run};
use transload_crash::victim::Victim;

/// `TRANSLOAD_SEED`, to begin as another run did; the moments themselves do not come again.
fn campaign(cast: Cast, time: Duration) -> Result<Tally, String> {
    let seed = std::env::var("TRANSLOAD_SEED").ok().and_then(|seed| seed.parse().ok());
    let now = || u64::from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().subsec_nanos());
    let seed = seed.unwrap_or_else(now);
    println!("seed {seed}");
    let outcome = run(&Victim::new(env!("CARGO_BIN_EXE_victim")), cast, seed, time);
    match &outcome {
        Ok(tally) => println!("{tally}"),
        Err(fault) => println!("FAULT: {fault}"),
    }
    outcome
}

/// 20 seconds, or with `TRANSLOAD_LONG` set (`cargo xtask test --long`) ten minutes.
#[test]
fn serial_nothing_is_lost_in_a_campaign() {
    let is_long = std::env::var_os("TRANSLOAD_LONG").is_some();
    let time = if is_long { Duration::from_mins(10) } else { Duration::from_secs(20) };
    let tally = campaign(Cast::default(), time).unwrap();
    assert!(tally.kills.iter().all(|&kills| kills > 0) && tally.stops > 0, "{tally}");
    assert!(tally.in_the_middle > 0 && tally.redelivered > 0 && tally.reclaimed > 0, "{tally}");
}

const SHORT: Duration = Duration::from_secs(2);

#[test]
fn serial_who_acknowledges_too_early_is_caught() {
    let fault = campaign(Cast { producer: Role::HastyProducer, ..Cast::default() }, SHORT).unwrap_err();
    assert!(fault.contains("arrived"), "{fault}");
}

#[test]
fn serial_who_loses_messages_is_caught() {
    let fault = campaign(Cast { consumer: Role::CarelessConsumer, ..Cast::default() }, SHORT).unwrap_err();
    assert!(fault.contains("consumer ended by itself"), "{fault}");
}

#[test]
fn serial_who_takes_the_living_for_dead_is_caught() {
    campaign(Cast { recoverer: Role::Murderer, ..Cast::default() }, SHORT).unwrap_err();
}
