//! `transload shm`: what is listed, shown and reclaimed.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "what fails in a helper of a test fails the test")]

mod common;

use std::fs;

use common::region::{Names, PREFIXED, Shape};
use common::{Done, Run, Running, count, transload, wait_until};
use rustix::process::{Signal, geteuid};
use serde_json::Value;
use transload::shared::{SharedPool, SharedRegion, unlink_named};

/// With the names of a test as the folder.
fn shm(names: &Names, args: &[&str]) -> Run {
    transload(["shm"]).args(args).env("TRANSLOAD_RUNTIME_DIR", names.0.path())
}

fn json(done: &Done) -> Value {
    assert_eq!(done.text().trim_end().lines().count(), 1, "{}", done.text());
    let document: Value = serde_json::from_str(done.text()).unwrap();
    assert_eq!(document["schema"], 1);
    document
}

/// A sender, which has the region and goes on for a while.
fn sender(names: &Names, name: &str) -> Running {
    let address = names.address(&format!("{name}.sock"));
    let running = transload(["send", "--to", &address, "--duration", "10m"]).start();
    wait_until("a member", || {
        let document = json(&shm(names, &["show", name, "--json"]).done().code(0));
        let pid = u64::from(running.child.id());
        document["members"].as_array().unwrap().iter().any(|member| count(member, "pid") == pid)
    });
    running
}

/// With a ring so small that a sender always has a buffer in its hand.
const FULL: Shape = Shape { ring_slots: 2, ..PREFIXED };

#[test]
fn names_are_listed_with_who_has_them() {
    let names = Names::new();
    let text = shm(&names, &["list"]).done().code(0);
    assert!(!text.text().contains("shm:"), "{}", text.text());
    let pump = names.pump("served.sock", PREFIXED);
    let mut stale = names.pump("stale.sock", PREFIXED);
    let (held, dying) = (names.pump("held.sock", PREFIXED), sender(&names, "stale"));
    let stopped = sender(&names, "held");
    drop((held, std::mem::replace(&mut stale, names.pump("other.sock", PREFIXED))));
    wait_until("the senders serve", || {
        let document = json(&shm(&names, &["list", "--json"]).done().code(0));
        let served = document["names"].as_array().unwrap().iter().filter(|one| one["state"] == "served");
        served.count() == 4
    });
    dying.signal(Signal::KILL);
    drop(dying);
    stopped.stop();

    let document = json(&shm(&names, &["list", "--json"]).done().code(0));
    let all = document["names"].as_array().unwrap();
    let states: Vec<_> =
        all.iter().map(|one| (one["name"].as_str().unwrap(), one["state"].as_str().unwrap())).collect();
    assert_eq!(states, [("held", "unknown"), ("other", "served"), ("served", "served"), ("stale", "stale")]);
    assert!(
        all[0]["why"].as_str().unwrap().contains(&format!("process {}", stopped.child.id())),
        "{document}"
    );
    let served = &all[2];
    assert_eq!(
        (count(served, "pid"), count(served, "owner")),
        (std::process::id().into(), geteuid().as_raw().into())
    );
    assert_eq!((count(served, "members"), count(served, "dead")), (1, 0));
    let region = &served["region"];
    assert_eq!((count(region, "slots"), count(region, "slot_bytes"), count(region, "bytes")), (16, 28, 448));
    assert_eq!(region["id"], format!("{:032x}", pump.region.id()));
    assert!(all[3]["pid"].is_null() && all[3]["region"].is_null());

    let text = shm(&names, &["list"]).done().code(0);
    for words in [
        "shm:stale  stale",
        "shm:served  served by process",
        "16 slots of 28 bytes",
        "1 members, 0 of them dead",
    ] {
        assert!(text.text().contains(words), "no {words} in {}", text.text());
    }
    stopped.signal(Signal::CONT);
}

#[test]
fn members_are_shown_with_what_they_hold_and_the_dead_are_reclaimed() {
    let names = Names::new();
    let mut pump = names.pump("a.sock", FULL);
    let running = sender(&names, "a");
    let show = || json(&shm(&names, &["show", "a", "--json"]).done().code(0));
    let member = |document: &Value, pid: u32| {
        let all = document["members"].as_array().unwrap().clone();
        all.into_iter().find(|member| count(member, "pid") == u64::from(pid))
    };
    let pid = running.child.id();
    wait_until("a full ring, and one more in hand", || {
        member(&show(), pid).is_some_and(|member| count(&member, "owned") == 1 && count(&member, "sent") == 2)
    });
    let document = show();
    let sending = member(&document, pid).unwrap();
    assert_eq!((&sending["name"], &sending["alive"]), (&format!("send-{pid}").into(), &true.into()));
    assert_eq!(sending["consumer"], false);
    let me = member(&document, std::process::id()).unwrap();
    assert_eq!((&me["name"], &me["consumer"], &me["alive"]), (&"test".into(), &true.into(), &true.into()));
    let (counts, region) = (&document["counts"], &document["region"]);
    assert_eq!((count(counts, "free"), count(counts, "pending"), count(counts, "published")), (13, 2, 2));
    assert_eq!((count(counts, "joined"), count(counts, "left"), count(region, "ring_slots")), (2, 0, 2));
    assert_eq!(
        (&document["kind"], &region["sealed"], &region["layout"]),
        (&"socket".into(), &true.into(), &"prefixed".into())
    );

    // Whoever lives, or is only stopped, keeps everything.
    running.stop();
    let nothing = json(&shm(&names, &["reclaim", "a", "--json"]).done().code(0));
    assert_eq!((count(&nothing, "freed"), nothing["dead"].as_array().unwrap().len()), (0, 0));
    assert_eq!(count(&member(&show(), pid).unwrap(), "owned"), 1);

    running.signal(Signal::KILL);
    drop(running);
    let text = shm(&names, &["show", "a"]).done().code(0);
    assert!(
        text.text().contains(&format!("process {pid}")) && text.text().contains("DEAD"),
        "{}",
        text.text()
    );
    let dead = member(&show(), pid).unwrap();
    assert_eq!((&dead["alive"], count(&dead, "owned")), (&false.into(), 1));
    let reclaimed = json(&shm(&names, &["reclaim", "a", "--json"]).done().code(0));
    assert_eq!((count(&reclaimed, "freed"), count(&reclaimed, "quarantined")), (1, 0));
    assert_eq!((count(&reclaimed["dead"][0], "pid"), &reclaimed["removed"]), (pid.into(), &Value::Null));
    // What it had sent is there.
    let dead = member(&show(), pid).unwrap();
    assert_eq!((count(&dead, "owned"), count(&dead, "sent")), (0, 2));
    assert_eq!(pump.take_all(2).len(), 2);
    assert!(member(&show(), pid).is_none(), "{}", show());
    assert_eq!(count(&show()["counts"], "free"), 16);
    let text = shm(&names, &["reclaim", "a"]).done().code(0);
    assert!(text.text().contains("0 slots freed"), "{}", text.text());
}

#[test]
fn stale_names_are_removed_and_nothing_else() {
    let names = Names::new();
    let pump = names.pump("a.sock", PREFIXED);
    let running = sender(&names, "a");
    drop(pump);
    wait_until("the sender serves", || {
        let document = json(&shm(&names, &["list", "--json"]).done().code(0));
        document["names"][0]["pid"] == running.child.id()
    });
    running.signal(Signal::KILL);
    drop(running);
    assert!(names.path("a.sock").exists());
    let document = json(&shm(&names, &["reclaim", "a", "--json"]).done().code(0));
    assert_eq!(document["removed"], "socket");
    assert!(!names.path("a.sock").exists());
    for action in ["show", "reclaim"] {
        let done = shm(&names, &[action, "a"]).done().code(1);
        assert!(done.stderr.contains("no process has a region named a"), "{}", done.stderr);
        assert!(done.stderr.contains("transload shm list"), "{}", done.stderr);
        let document = json(&shm(&names, &[action, "a", "--json"]).done().code(1));
        assert_eq!(document["error"]["kind"], "absent");
    }
}

#[test]
fn objects_are_listed_shown_and_removed_when_nobody_has_them() {
    struct Object(String);
    impl Drop for Object {
        fn drop(&mut self) {
            let _ = unlink_named(&self.0);
        }
    }
    let (names, name) = (Names::new(), format!("shm-test-{}", std::process::id()));
    let object = Object(name.clone());
    let region = SharedRegion::builder(4, 64).create_named(&name, 0o600).unwrap();
    let pool = SharedPool::join(&region, "owner").unwrap();
    let lease = pool.try_acquire().unwrap();
    let document = json(&shm(&names, &["list", "--json"]).done().code(0));
    let listed = document["objects"].as_array().unwrap().iter().find(|one| one["name"] == name);
    let listed = listed.unwrap_or_else(|| panic!("{document}"));
    assert!(count(listed, "bytes") > 256 && count(listed, "owner") == u64::from(geteuid().as_raw()));
    let document = json(&shm(&names, &["show", &name, "--json"]).done().code(0));
    assert_eq!((&document["kind"], &document["region"]["sealed"]), (&"object".into(), &false.into()));
    assert_eq!(count(&document["members"][0], "owned"), 1);
    let document = json(&shm(&names, &["reclaim", &name, "--json"]).done().code(0));
    assert_eq!((&document["removed"], count(&document, "freed")), (&Value::Null, 0), "it lives");

    drop((lease, pool, region));
    let document = json(&shm(&names, &["reclaim", &name, "--json"]).done().code(0));
    assert_eq!(document["removed"], "object");
    shm(&names, &["show", &name]).done().code(1);
    drop(object);
}

#[test]
fn what_is_of_another_program_is_told_and_left_alone() {
    let names = Names::new();
    std::fs::write(names.path("file.sock"), "kept").unwrap();
    let other = std::os::unix::net::UnixListener::bind(names.path("stream.sock")).unwrap();
    let document = json(&shm(&names, &["list", "--json"]).done().code(0));
    for (listed, words) in document["names"].as_array().unwrap().iter().zip(["no socket", "another program"])
    {
        assert!(
            listed["state"] == "unknown" && listed["why"].as_str().unwrap().contains(words),
            "{document}"
        );
    }
    for name in ["file", "stream"] {
        shm(&names, &["show", name]).done().code(1);
        shm(&names, &["reclaim", name]).done().code(1);
    }
    assert_eq!(std::fs::read(names.path("file.sock")).unwrap(), b"kept");
    drop(other);
}

#[test]
fn a_folder_that_others_can_change_is_refused() {
    let names = Names::new();
    let set_mode = |mode| {
        fs::set_permissions(names.0.path(), std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    };
    set_mode(0o777);
    let done = shm(&names, &["list"]).done().code(1);
    assert!(done.stderr.contains("mode 0777") && done.stderr.contains("owner uid"), "{}", done.stderr);
    let document = json(&shm(&names, &["show", "a", "--json"]).done().code(1));
    assert!(document["error"]["message"].as_str().unwrap().contains("mode 0777"), "{document}");
    set_mode(0o700);
    shm(&names, &["list"]).done().code(0);
}

#[test]
fn usage() {
    for args in [
        &["show"][..],
        &["show", "a/b"],
        &["reclaim", ".a"],
        &["remove", "a"],
        &["show", "a", "--allow-uid", "x"],
    ] {
        transload(["shm"]).args(args).done().code(2);
    }
    let help = transload(["shm", "show", "--help"]).done().code(0);
    assert!(help.text().contains("TRANSLOAD_SHM_ALLOW_UID"), "{}", help.text());
}
