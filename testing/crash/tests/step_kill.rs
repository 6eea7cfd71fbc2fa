//! Killed after each instruction.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of tests, and figures for who asks for them"
)]

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use rustix::process::geteuid;
use tempfile::TempDir;
use transload_conformance::confinement::NOBODY;
use transload_conformance::skip::skip;
use transload_conformance::watchdog::long_output;

use transload_crash::kill::{Deaths, Points, kill_at};
use transload_crash::operation::Operation;
use transload_crash::trace::place_children_alike;
use transload_crash::victim::{VARIABLE, Victim};

const VICTIM: &str = env!("CARGO_BIN_EXE_victim");

/// `None` where processes cannot be stepped.
fn deaths(test: &str, name: &str, victim: &Victim, at: Points) -> Option<Deaths> {
    if let Err(why) = place_children_alike() {
        skip(test, &why.to_string());
        return None;
    }
    let deaths = kill_at(Operation::of(name).unwrap(), victim, at);
    println!("{deaths}");
    Some(deaths)
}

/// Each with the name of the operation.
macro_rules! survives {
    ($points:ident: $($test:ident $name:literal)*) => { $(
        #[test]
        fn $test() {
            if let Some(deaths) = deaths(stringify!($test), $name, &Victim::new(VICTIM), Points::$points) {
                assert!(deaths.faults.is_empty(), "{deaths}");
            }
        }
    )* };
}

/// Each with the name of what is wrong on purpose, and what must be said of it.
macro_rules! is_caught {
    ($points:ident: $($test:ident $name:literal $fault:literal)*) => { $(
        #[test]
        fn $test() {
            if let Some(deaths) = deaths(stringify!($test), $name, &Victim::new(VICTIM), Points::$points) {
                assert!(deaths.points > deaths.faults.len(), "{deaths}: it works where nobody dies");
                assert!(deaths.faults.iter().any(|(_, fault)| fault.contains($fault)), "{deaths}");
            }
        }
    )* };
}

survives! { All:
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
    put_back "put-back"
    drop_unless_done "drop-unless-done"
}

survives! { Events:
    create "create"
    open "open"
    join "join"
    join_after_dead "join-after-dead"
    leave "leave"
}

is_caught! { All:
    twin_acquire "twin-acquire" "has room for"
    twin_send "twin-send" "has room for"
    twin_recover "twin-recover" "arrived, not"
    twin_finish "twin-finish" "arrived, not"
    twin_take "twin-take" "in the ring no more"
}

is_caught! { Events:
    events_of_twin_acquire "twin-acquire" "has room for"
    events_of_twin_finish "twin-finish" "arrived, not"
}

/// A folder that anybody can read, with copies of these files in it.
fn for_anybody(files: &[PathBuf]) -> (TempDir, Vec<PathBuf>) {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let copy = |file: &PathBuf| {
        let copy = folder.path().join(file.file_name().unwrap());
        fs::copy(file, &copy).unwrap();
        copy
    };
    let copies = files.iter().map(copy).collect();
    (folder, copies)
}

/// Who survives is root, who dies is nobody, and cannot open the memory anew: the description that it was sent is its own.
#[test]
fn a_member_of_another_user() {
    if !geteuid().is_root() {
        return skip("a_member_of_another_user", "only root can start what another user runs");
    }
    let (_folder, copies) = for_anybody(&[VICTIM.into()]);
    let victim = Victim::of_user(copies[0].clone(), NOBODY);
    for name in ["acquire", "send", "take"] {
        let Some(deaths) = deaths("a_member_of_another_user", name, &victim, Points::All) else { return };
        assert!(deaths.faults.is_empty(), "{deaths}");
    }
}

/// Whoever runs the tests is nobody.
#[test]
fn as_nobody() {
    if !geteuid().is_root() {
        return skip("as_nobody", "only root can become nobody; these tests run as another user anyway");
    }
    let (_folder, copies) = for_anybody(&[VICTIM.into(), std::env::current_exe().unwrap()]);
    let mut command = Command::new(&copies[1]);
    command.args(["--exact", "acquire", "send", "take", "join_after_dead", "open"]);
    command.args(["--nocapture", "--test-threads=1"]).env(VARIABLE, &copies[0]);
    let (status, said) = long_output(command.uid(NOBODY).gid(NOBODY).current_dir("/"));
    println!("{said}");
    assert!(status.success() && said.contains("5 passed"), "{said}");
}
