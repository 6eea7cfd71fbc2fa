//! Killed after each instruction.

use transload_crash::kill::{Deaths, kill_at_events, kill_everywhere};
use transload_crash::operation::Operation;

fn deaths(name: &str) -> Deaths {
    let deaths = kill_everywhere(Operation::of(name).unwrap(), env!("CARGO_BIN_EXE_victim"));
    println!("{deaths}");
    deaths
}

/// Each with the name of the operation.
macro_rules! survives {
    ($($test:ident $name:literal)*) => { $(
        #[test]
        fn $test() {
            let deaths = deaths($name);
            assert!(deaths.faults.is_empty(), "{deaths}");
        }
    )* };
}

/// Each with the name of what is wrong on purpose, and what must be said of it.
macro_rules! is_caught {
    ($($test:ident $name:literal $fault:literal)*) => { $(
        #[test]
        fn $test() {
            let deaths = deaths($name);
            assert!(deaths.points > deaths.faults.len(), "{deaths}: it works where nobody dies");
            assert!(deaths.faults.iter().any(|(_, fault)| fault.contains($fault)), "{deaths}");
        }
    )* };
}

survives! {
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

/// Each with the name of the operation, which is killed at each store to shared memory and at each system call.
macro_rules! survives_its_events {
    ($($test:ident $name:literal)*) => { $(
        #[test]
        fn $test() {
            let deaths = kill_at_events(Operation::of($name).unwrap(), env!("CARGO_BIN_EXE_victim"));
            println!("{deaths}");
            assert!(deaths.faults.is_empty(), "{deaths}");
        }
    )* };
}

survives_its_events! {
    create "create"
    open "open"
    join "join"
    join_after_dead "join-after-dead"
    leave "leave"
}

is_caught! {
    twin_acquire "twin-acquire" "has room for"
    twin_send "twin-send" "has room for"
    twin_recover "twin-recover" "arrived, not"
    twin_finish "twin-finish" "arrived, not"
    twin_take "twin-take" "in the ring no more"
}
