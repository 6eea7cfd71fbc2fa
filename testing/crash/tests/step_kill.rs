//! Killed after each instruction.

use transload_crash::kill::kill_everywhere;
use transload_crash::operation::Operation;

fn survives(name: &str) {
    let deaths = kill_everywhere(Operation::of(name).unwrap(), env!("CARGO_BIN_EXE_victim"));
    println!("{deaths}");
    assert!(deaths.faults.is_empty(), "{deaths}");
}

macro_rules! kill {
    ($($test:ident $name:literal)*) => { $( #[test] fn $test() { survives($name); } )* };
}

kill! {
    acquire "acquire"
    acquire_nothing "acquire-nothing"
    release "release"
    send "send"
    send_behind_dead "send-behind-dead"
    send_full "send-full"
    send_too_late "send-too-late"
    send_copy "send-copy"
    take "take"
    take_behind_dead "take-behind-dead"
    take_nothing "take-nothing"
    finish "finish"
    finish_all "finish-all"
    into_leases "into-leases"
    recover "recover"
    become_consumer "become-consumer"
    end_consumer "end-consumer"
    lend "lend"
    take_back "take-back"
    lend_batch "lend-batch"
    quarantine "quarantine"
}
