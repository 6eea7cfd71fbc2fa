//! How regions are found and handed over: by processes that race, die, stand still, lie, or belong to somebody else.

#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "what fails in a helper of a test fails the test"
)]

mod forking;
mod handover_kit;

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::sync::Arc;
use std::time::{Duration, Instant};

use handover_kit::process::{Process, binary_for_all};
use handover_kit::{Scratch, by_hand, descriptors, made, set_mode, skip, small_region, terms, wait_until};
use rustix::process::{Signal, WaitStatus, geteuid};
use transload::shared::handover::{
    HandoverError, Name, Standing, Steward, Terms, attach, create, create_or_attach, look,
};
use transload::shared::{SharedPool, SharedRegion};
use transload_core::Counter;

/// No test: what this binary does in the processes of the others.
#[test]
fn obey() {
    handover_kit::process::obey();
}

fn is_there(name: &Name) -> bool {
    fs::symlink_metadata(name.to_string()).is_ok()
}

/// Serves a region in this process.
fn serving(name: &Name) -> (SharedRegion, Steward) {
    let (region, post) = made(name).unwrap();
    assert!(post.is_serving());
    (region, Steward::start(post, || {}).unwrap())
}

#[test]
fn a_region_is_made_found_and_gone() {
    let scratch = Scratch::new("found");
    let name = scratch.name("a");
    for error in [attach(&name, &terms(100)).unwrap_err(), look(&name, &terms(100)).unwrap_err()] {
        assert!(matches!(error, HandoverError::NotThere { .. }), "{error}");
        assert!(error.to_string().contains(&name.to_string()), "{error}");
    }
    let (region, steward) = serving(&name);
    assert_eq!(steward.standing(), Standing::Serving);
    let mode = fs::symlink_metadata(name.to_string()).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o600, "whatever the umask");

    let (other, post) = attach(&name, &terms(2000)).unwrap();
    assert_eq!(other.id(), region.id());
    assert!(!post.is_serving());
    assert_eq!(look(&name, &terms(2000)).unwrap().id(), region.id());
    let error = create(&name, &terms(100), || panic!("nothing is made")).unwrap_err();
    let pid = std::process::id();
    assert!(matches!(error, HandoverError::InUse { pid: it, .. } if it == pid), "{error}");
    let (same, also, is_new) = create_or_attach(&name, &terms(2000), small_region).unwrap();
    assert!(same.id() == region.id() && !is_new);

    // It is memory that both have.
    let (one, two) = (SharedPool::join(&region, "one").unwrap(), SharedPool::join(&other, "two").unwrap());
    one.ring().try_send_copy(b"hello").unwrap();
    assert_eq!(two.ring().consumer().unwrap().take(1).unwrap().messages(), 1);

    drop((post, also));
    drop(steward);
    assert!(!is_there(&name), "the last one removes the name");
    assert!(matches!(attach(&name, &terms(100)), Err(HandoverError::NotThere { .. })));
}

#[test]
fn whoever_serves_may_leave() {
    let scratch = Scratch::new("leave");
    let name = scratch.name("a");
    let (region, first) = serving(&name);
    let (_, post) = attach(&name, &terms(2000)).unwrap();
    let second = Steward::start(post, || {}).unwrap();
    assert_eq!(second.standing(), Standing::Watching);
    drop(first);
    wait_until("a successor", || second.standing() == Standing::Serving);
    // Also while nobody serves, nobody takes the name for free.
    for round in 0..20 {
        let (_, post) = attach(&name, &terms(2000)).unwrap();
        let third = Steward::start(post, || {}).unwrap();
        let (found, post, is_new) = create_or_attach(&name, &terms(2000), small_region).unwrap();
        assert!(found.id() == region.id() && !is_new, "round {round}");
        drop((third, post));
    }
    drop(second);
    assert!(!is_there(&name));
}

#[test]
fn one_of_two_creators_wins() {
    const ROUNDS: usize = 200;
    let scratch = Scratch::new("race");
    let name = scratch.name("a");
    let mut racers = [Process::start(&name), Process::start(&name)];
    let mut wins = [0; 2];
    for round in 0..ROUNDS {
        // Those who take what there is get the same.
        for racer in &mut racers {
            racer.say("either");
        }
        assert_eq!(racers[0].hear(), racers[1].hear(), "round {round}");
        for racer in &mut racers {
            assert_eq!(racer.ask("leave"), "left");
        }
        assert!(!is_there(&name), "round {round}");

        for racer in &mut racers {
            racer.say("create");
        }
        let told = [racers[0].hear(), racers[1].hear()];
        let won = told.each_ref().map(|answer| !answer.starts_with("error"));
        assert_eq!(won.iter().filter(|&&won| won).count(), 1, "round {round}: {told:?}");
        let (winner, loser) = if won[0] { (0, 1) } else { (1, 0) };
        wins[winner] += 1;
        let pid = racers[winner].pid();
        assert!(told[loser].contains(&format!("process {pid} of uid")), "round {round}: {told:?}");
        assert_eq!(racers[loser].ask("attach"), told[winner]);
        // In turn: who leaves first, and whether the name is left to be removed or to be taken over.
        for racer in [round % 2, 1 - round % 2] {
            assert_eq!(racers[racer].ask("leave"), "left");
        }
        assert!(!is_there(&name), "round {round}");
    }
    println!("wins: {wins:?} of {ROUNDS}");
}

#[test]
fn creators_are_killed_anywhere_and_leave_nothing_but_a_stale_name() {
    const ROUNDS: u64 = 60;
    let scratch = Scratch::new("killed");
    let name = scratch.name("a");
    let mut stale = 0;
    for round in 0..ROUNDS {
        let mut creator = Process::start(&name);
        creator.say("create");
        // From before it has begun until after it has ended.
        std::thread::sleep(Duration::from_micros(round * 150));
        creator.kill();
        stale += usize::from(is_there(&name));
        let (region, steward) = serving(&name);
        assert_eq!(look(&name, &terms(2000)).unwrap().id(), region.id(), "round {round}");
        drop(steward);
    }
    println!("{stale} of {ROUNDS} left a name");
    let left: Vec<_> = fs::read_dir(&scratch.0).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_survivor_serves_on_with_everything_in_it() {
    let scratch = Scratch::new("survivor");
    let name = scratch.name("a");
    for round in 0..10 {
        let (mut server, mut survivor) = (Process::start(&name), Process::start(&name));
        let id = server.ask("create");
        assert_eq!(survivor.ask("attach"), id);
        assert_eq!(server.ask("send 7"), "sent");
        assert_eq!((server.ask("standing"), survivor.ask("standing")), ("serving".into(), "watching".into()));
        server.kill();
        // At once: nobody may think that the name is free.
        let (region, post, is_new) = create_or_attach(&name, &terms(5000), small_region).unwrap();
        assert!(!is_new && format!("{:032x}", region.id()) == id, "round {round}");
        assert_eq!(survivor.ask("standing"), "serving");
        assert_eq!(survivor.ask("take"), "7");
        wait_until("the recovery of the dead", || survivor.ask("members") == "1");

        survivor.kill();
        drop((region, post));
        let error = attach(&name, &terms(1000)).unwrap_err();
        assert!(matches!(error, HandoverError::NotThere { .. }), "{error}");
        let (fresh, steward) = serving(&name);
        assert_ne!(format!("{:032x}", fresh.id()), id, "what was in flight is lost with the last of them");
        drop(steward);
    }
}

#[test]
fn of_many_survivors_one_serves() {
    let scratch = Scratch::new("many");
    let name = scratch.name("a");
    let mut members: Vec<Process> = (0..5).map(|_| Process::start(&name)).collect();
    let id = members[0].ask("create");
    for member in &mut members[1..] {
        assert_eq!(member.ask("either"), id);
    }
    while members.len() > 1 {
        let server = members.iter_mut().position(|member| member.ask("standing") == "serving");
        members.remove(server.expect("somebody serves")).kill();
        wait_until("one server, and others who watch it", || {
            let told: Vec<String> = members.iter_mut().map(|member| member.ask("standing")).collect();
            let count = |what: &str| told.iter().filter(|&one| one == what).count();
            count("serving") == 1 && count("watching") == told.len() - 1
        });
        assert_eq!(format!("{:032x}", look(&name, &terms(2000)).unwrap().id()), id);
    }
    members.pop().unwrap().end();
    assert!(!is_there(&name));
}

#[test]
fn who_is_stopped_is_not_dead() {
    let scratch = Scratch::new("stopped");
    let name = scratch.name("a");
    let (mut server, mut other) = (Process::start(&name), Process::start(&name));
    let id = server.ask("create");
    assert_eq!(other.ask("attach"), id);
    server.stop();
    for error in [
        attach(&name, &terms(100)).unwrap_err(),
        create(&name, &terms(100), || panic!("nothing is made")).unwrap_err(),
        create_or_attach(&name, &terms(100), || panic!("nothing is made")).unwrap_err(),
    ] {
        let pid = server.pid();
        assert!(matches!(error, HandoverError::NotAnswering { pid: it, .. } if it == pid), "{error}");
    }
    assert_eq!(other.ask("standing"), "watching");
    server.signal(Signal::CONT);
    assert_eq!(format!("{:032x}", attach(&name, &terms(5000)).unwrap().0.id()), id);

    // A stopped survivor keeps the name from being made anew, and serves it once it goes on.
    other.stop();
    server.kill();
    let error = create(&name, &terms(200), || panic!("nothing is made")).unwrap_err();
    assert!(matches!(error, HandoverError::Unserved { .. }), "{error}");
    other.signal(Signal::CONT);
    assert_eq!(format!("{:032x}", attach(&name, &terms(5000)).unwrap().0.id()), id);
    other.kill();
    assert!(create(&name, &terms(200), small_region).is_ok(), "the twin: nobody was left");
}

#[test]
fn whoever_serves_looks_for_the_dead_at_once_when_somebody_hangs_up() {
    let scratch = Scratch::new("looks");
    let name = scratch.name("a");
    let (_, post) = made(&name).unwrap();
    let looks = Arc::new(Counter::new());
    let counted = looks.clone();
    let _steward = Steward::start(post, move || counted.add(1)).unwrap();
    // Without that it looks seldom: 2, 4, 8, ... ms apart, up to a second.
    let (_, peer) = attach(&name, &terms(2000)).unwrap();
    wait_until("a seldom look", || {
        let before = looks.value();
        std::thread::sleep(Duration::from_millis(300));
        looks.value() == before
    });
    let (before, started) = (looks.value(), Instant::now());
    drop(peer);
    wait_until("looks", || looks.value() >= before + 6);
    // A look a second would have taken five.
    assert!(started.elapsed() < Duration::from_millis(4500), "{:?}", started.elapsed());
}

#[test]
fn a_name_that_is_removed_is_made_again() {
    let scratch = Scratch::new("removed");
    let name = scratch.name("a");
    let (region, steward) = serving(&name);
    let (_, post) = attach(&name, &terms(2000)).unwrap();
    let other = Steward::start(post, || {}).unwrap();
    fs::remove_file(name.to_string()).unwrap();
    let (found, post) = attach(&name, &terms(10_000)).unwrap();
    assert_eq!(found.id(), region.id());
    wait_until("one who serves", || {
        [&steward, &other].iter().filter(|one| one.standing() == Standing::Serving).count() == 1
    });
    drop((other, post, steward));
    assert!(!is_there(&name));
}

#[test]
fn a_region_whose_folder_was_replaced_is_superseded() {
    let scratch = Scratch::new("replaced");
    let folder = scratch.path("folder");
    let remake = || {
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).unwrap();
        set_mode(&folder, 0o700);
    };
    remake();
    let name: Name = folder.join("a").to_str().unwrap().parse().unwrap();
    let (old, steward) = serving(&name);
    remake();
    // Whoever is faster: the old one comes back, or is superseded.
    let (found, post, is_new) = create_or_attach(&name, &terms(5000), small_region).unwrap();
    let new = Steward::start(post, || {}).unwrap();
    assert_eq!(found.id() == old.id(), !is_new);
    let wanted = if is_new { Standing::Superseded } else { Standing::Serving };
    wait_until("the old one's fate", || steward.standing() == wanted);
    drop(new);
    // It is the only one then, and takes the name back.
    wait_until("the old one alone", || steward.standing() == Standing::Serving);
    assert_eq!(look(&name, &terms(2000)).unwrap().id(), old.id());
}

#[test]
fn what_is_no_socket_is_left_alone() {
    let scratch = Scratch::new("file");
    let name = scratch.name("a");
    fs::write(name.to_string(), "mine").unwrap();
    let error = made(&name).unwrap_err();
    assert!(matches!(error, HandoverError::NoSocket { .. }), "{error}");
    assert_eq!(fs::read(name.to_string()).unwrap(), b"mine");
}

#[test]
fn folders_that_others_can_change_are_refused() {
    let scratch = Scratch::new("folders");
    let open = scratch.path("open");
    fs::create_dir(&open).unwrap();
    set_mode(&open, 0o777);
    let name: Name = open.join("a").to_str().unwrap().parse().unwrap();
    let said = made(&name).unwrap_err().to_string();
    assert!(said.contains("mode 0777") && said.contains("owner uid"), "{said}");

    let link = scratch.path("link");
    symlink(&open, &link).unwrap();
    for (folder, words) in [(&open, "mode 0777"), (&link, "symbolic link")] {
        for order in ["create", "attach", "names"] {
            let said = Process::within(folder, "a").ask(order);
            assert!(said.starts_with("error") && said.contains(words), "{order}: {said}");
        }
    }
    // The twin: nothing but mode and link was wrong.
    set_mode(&open, 0o700);
    let mut process = Process::within(&open, "a");
    assert!(!process.ask("create").starts_with("error"));
    assert!(open.join("a.sock").symlink_metadata().is_ok());
}

#[test]
fn names_are_listed_with_who_is_behind_them() {
    let scratch = Scratch::new("names");
    let process = |name| Process::within(&scratch.0, name);
    assert_eq!(process("none").ask("names"), "");
    let (mut served, mut dead, mut stopped) = (process("served"), process("dead"), process("stopped"));
    let id = served.ask("create");
    let mut dying = process("unserved");
    let id_of_unserved = dying.ask("create");
    let mut survivor = process("unserved");
    assert_eq!(survivor.ask("attach"), id_of_unserved);
    dead.ask("create");
    stopped.ask("create");
    fs::write(scratch.path("other.txt"), "").unwrap();
    fs::write(scratch.path(".hidden.sock"), "").unwrap();
    dead.kill();
    survivor.stop();
    dying.kill();
    stopped.stop();
    let told = process("none").ask("names");
    let told: Vec<&str> = told.split("; ").collect();
    assert_eq!(told.len(), 4, "{told:?}");
    assert_eq!(told[0], "dead=Stale");
    let region = u128::from_str_radix(&id, 16).unwrap();
    let uid = geteuid().as_raw();
    assert_eq!(told[1], format!("served=Served {{ pid: {}, uid: {uid}, region: {region} }}", served.pid()));
    assert!(told[2].starts_with("stopped=Unknown") && told[2].contains("not answered"), "{told:?}");
    assert_eq!(told[3], "unserved=Unserved");
    survivor.signal(Signal::CONT);
    stopped.signal(Signal::CONT);
}

#[test]
fn other_users_are_refused_unless_they_are_allowed() {
    const TEST: &str = "other_users_are_refused_unless_they_are_allowed";
    if !geteuid().is_root() {
        return skip(TEST, "needs root");
    }
    let scratch = Scratch::new("users");
    set_mode(&scratch.0, 0o755);
    let binary = binary_for_all(&scratch.0);
    let name = scratch.name("a");
    let (region, steward) = serving(&name);
    let mut nobody = Process::as_nobody(&binary, &name);
    // Its mode keeps others out.
    let said = nobody.ask("allow attach 0");
    assert!(said.contains("uid 65534") && said.contains("belongs to uid 0 and has mode 0600"), "{said}");
    // Were it not for that, the server does.
    set_mode(&scratch.path("a"), 0o666);
    let said = nobody.ask("allow attach 0");
    assert!(said.contains("served for uid 0 only"), "{said}");
    // And who does not trust the server does not even ask.
    let said = nobody.ask("attach");
    assert!(said.contains("by a process of uid 0") && said.contains("trusts uid 65534 only"), "{said}");
    assert_eq!(SharedPool::join(&region, "one").unwrap().holders().len(), 1);
    drop(steward);

    let allowing = Terms::new().allow_uid(65534);
    let (region, post) = create(&name, &allowing, small_region).unwrap();
    let mode = fs::symlink_metadata(name.to_string()).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o666, "whatever the umask");
    let _steward = Steward::start(post, || {}).unwrap();
    assert!(nobody.ask("attach").contains("trusts uid 65534 only"));
    assert_eq!(nobody.ask("allow attach 0"), format!("{:032x}", region.id()));
    assert_eq!(nobody.ask("send 5"), "sent");
    let pool = SharedPool::join(&region, "one").unwrap();
    assert_eq!(pool.ring().consumer().unwrap().take(9).unwrap().messages(), 1);
}

#[test]
fn a_server_of_another_user_is_not_trusted() {
    const TEST: &str = "a_server_of_another_user_is_not_trusted";
    if !geteuid().is_root() {
        return skip(TEST, "needs root");
    }
    let scratch = Scratch::new("trust");
    // As /tmp is.
    set_mode(&scratch.0, 0o1777);
    let binary = binary_for_all(&scratch.0);
    let name = scratch.name("a");
    let mut nobody = Process::as_nobody(&binary, &name);
    assert!(!nobody.ask("create").starts_with("error"));
    for error in [attach(&name, &terms(500)).unwrap_err(), made(&name).unwrap_err()] {
        assert!(matches!(error, HandoverError::ForeignServer { owner: 65534, uid: 0, .. }), "{error}");
    }
    // Root may open any socket, and is refused all the same.
    let error = attach(&name, &terms(500).allow_uid(65534)).unwrap_err();
    assert!(matches!(error, HandoverError::WrongUser { owner: 65534, uid: 0, .. }), "{error}");
    assert_eq!(fs::symlink_metadata(name.to_string()).unwrap().uid(), 65534, "nobody took its name");
}

#[test]
fn clients_that_speak_nonsense_are_refused_and_leave_nothing() {
    let scratch = Scratch::new("nonsense");
    let name = scratch.name("a");
    let mut server = Process::start(&name);
    server.ask("create");
    let path = scratch.path("a");
    let nothing: OwnedFd = fs::File::open("/dev/null").unwrap().into();
    let spare = vec![nothing.as_fd(); 10];
    let before = descriptors(server.pid());
    let mut wrong = vec![
        (b"x".to_vec(), by_hand::MALFORMED),
        (by_hand::JOIN[..12].to_vec(), by_hand::MALFORMED),
        (by_hand::JOIN[..23].to_vec(), by_hand::MALFORMED),
        ([by_hand::JOIN, b"more"].concat(), by_hand::MALFORMED),
        (vec![0xFF; 100_000], by_hand::MALFORMED),
        ([&b"XLregion"[..], &by_hand::JOIN[8..]].concat(), by_hand::MALFORMED),
        ([&by_hand::JOIN[..12], &[9; 12]].concat(), by_hand::MALFORMED),
        ([&by_hand::JOIN[..8], &[2], &by_hand::JOIN[9..]].concat(), by_hand::OTHER_VERSION),
    ];
    // The twins: nothing else was wrong.
    wrong.push((by_hand::WATCH.to_vec(), by_hand::GRANTED));
    wrong.push((by_hand::JOIN.to_vec(), by_hand::GRANTED));
    for (bytes, kind) in &wrong {
        for spare in [&[][..], &spare] {
            let client = by_hand::call(&path);
            by_hand::send(&client, bytes, spare);
            let wanted = usize::from(bytes == by_hand::JOIN);
            assert_eq!(by_hand::hear(&client), Some((*kind, wanted)), "{bytes:?}");
            if *kind == by_hand::GRANTED {
                // Served, and has nothing to say any more.
                by_hand::send(&client, by_hand::WATCH, spare);
            }
            assert_eq!(by_hand::hear(&client), None, "it hangs up");
        }
    }
    // An empty message is no message.
    let client = by_hand::call(&path);
    by_hand::send(&client, b"", &[]);
    assert_eq!(by_hand::hear(&client), None);
    wait_until("no descriptor is left", || descriptors(server.pid()) == before);
    assert_eq!(server.ask("standing"), "serving");
    attach(&name, &terms(2000)).unwrap();
}

#[test]
fn silent_clients_keep_nobody_waiting() {
    let scratch = Scratch::new("silent");
    let name = scratch.name("a");
    let mut server = Process::start(&name);
    server.ask("create");
    let before = descriptors(server.pid());
    let path = scratch.path("a");
    // More than are listened to at a time; those that hang up do so in any order.
    let mut silent: Vec<_> = (0..500).map(|_| by_hand::call(&path)).collect();
    attach(&name, &terms(5000)).unwrap();
    assert!(descriptors(server.pid()) < before + 100, "they are not kept");
    silent.truncate(450);
    silent.drain(..100);
    attach(&name, &terms(5000)).unwrap();
    // They are closed in the end, though they have not hung up.
    wait_until("no descriptor is left", || descriptors(server.pid()) == before);
    for client in &silent {
        assert_eq!(by_hand::hear(client), None);
    }
}

#[test]
fn a_flood_of_clients_leaves_descriptors_for_others() {
    let scratch = Scratch::new("flood");
    let name = scratch.name("a");
    let mut server = Process::start(&name);
    server.ask("create");
    let before = descriptors(server.pid());
    let (path, mut clients, mut refused) = (scratch.path("a"), Vec::new(), 0);
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(1 << 20);
    let most = usize::try_from(limit / 2).unwrap().min(2048);
    // As many as this process may have itself, at the same limit.
    let room = usize::try_from(limit).unwrap().saturating_sub(descriptors(std::process::id()) + 50);
    for _ in 0..(most + 100).min(room) {
        let client = by_hand::call(&path);
        by_hand::send(&client, by_hand::WATCH, &[]);
        match by_hand::hear(&client) {
            Some((by_hand::GRANTED, 0)) => clients.push(client),
            _ => refused += 1,
        }
    }
    println!("{} served, {refused} refused", clients.len());
    assert!(clients.len() <= most && refused >= 100, "{} served, {refused} refused", clients.len());
    let error = attach(&name, &terms(1000)).unwrap_err();
    assert!(matches!(error, HandoverError::Refused { .. }), "{error}");
    drop(clients);
    wait_until("no descriptor is left", || descriptors(server.pid()) == before);
    attach(&name, &terms(2000)).unwrap();
}

#[test]
fn servers_that_speak_nonsense_are_refused_and_leave_nothing() {
    let scratch = Scratch::new("liar");
    let region = small_region().unwrap();
    let id = region.id();
    let file = || region.file_for_peer().unwrap();
    let null = || OwnedFd::from(fs::File::open("/dev/null").unwrap());
    let plain = || OwnedFd::from(fs::File::create(scratch.path("file")).unwrap());
    let broken = |at: usize, byte: u8| {
        let mut bytes = by_hand::grant(id);
        bytes[at] = byte;
        bytes
    };
    let right = by_hand::grant(id);
    let cases = [
        ("two", right.clone(), vec![file(), file()], "with 2 descriptors"),
        ("none", right.clone(), vec![], "with 0 descriptors"),
        ("many", right.clone(), (0..16).map(|_| null()).collect(), "descriptors, and one was wanted"),
        ("magic", broken(0, b'X'), vec![file()], "its answer is none"),
        ("version", broken(8, 7), vec![file()], "it speaks version 7, this one 1"),
        ("kind", broken(12, 77), vec![file()], "its answer is none"),
        ("half", right[..20].to_vec(), vec![file()], "its answer is none"),
        ("long", [&right[..], &[0; 9]].concat(), vec![file()], "its answer is none"),
        ("other", by_hand::grant(!id), vec![file()], "was spoken of"),
        ("device", right.clone(), vec![null()], "not of a regular file"),
        ("plain", right.clone(), vec![plain()], "the file has seals"),
        ("mute", vec![], vec![], "has not answered"),
        // The twin: what is right is taken.
        ("right", right.clone(), vec![file()], &format!("{id:032x}")),
    ];
    for (name, bytes, rights, words) in cases {
        let mut client = Process::start(&scratch.name(name));
        assert_eq!(client.ask("standing"), "nothing");
        let before = descriptors(client.pid());
        let server = by_hand::serve(&scratch.path(name), 1, bytes, rights);
        let said = client.ask("attach");
        assert!(said.contains(words), "{name}: {said}");
        client.ask("leave");
        assert_eq!(descriptors(client.pid()), before, "{name}");
        client.end();
        server.join().unwrap();
    }
}

#[test]
fn a_forked_child_takes_nothing_along() {
    let scratch = Scratch::new("forked");
    let name = scratch.name("a");
    let (_, steward) = serving(&name);
    let other = scratch.name("b");
    let (_, post) = made(&other).unwrap();
    let (steward, post) = (std::sync::Mutex::new(Some(steward)), std::sync::Mutex::new(Some(post)));
    let status = forking::fork(|| {
        drop(steward.lock().unwrap().take());
        drop(post.lock().unwrap().take());
    });
    assert!(matches!(WaitStatus::exit_status(status), Some(0)), "{status:?}");
    assert!(is_there(&name) && is_there(&other));
    attach(&name, &terms(2000)).unwrap();
    assert_eq!(steward.lock().unwrap().as_ref().map(Steward::standing), Some(Standing::Serving));
    // The twin: here they do.
    drop((steward, post));
    assert!(!is_there(&name) && !is_there(&other));
}
