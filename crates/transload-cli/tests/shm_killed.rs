//! The whole job between processes, while they are killed: what was published arrives, and all slots are free at the end.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io::Write as _;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use common::listening::{Listening, until_it_listens};
use common::{Running, arg, count, opencl_or_skip, pump, transload, wait_until};
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;
use transload_core::Flag;

const SENDERS: usize = 4;
/// How often two of them are killed and replaced.
const ROUNDS: usize = 50;
/// So many rounds lie between two deaths of the pump, which dies five times.
const PUMP_LIVES: usize = ROUNDS / 5 - 1;

struct Job {
    folder: TempDir,
    to: &'static str,
    pumps: usize,
    senders: usize,
}

/// One who sends, for as long as it is fed with lines.
struct Sender {
    running: Running,
    /// By which number its messages are marked.
    life: usize,
    enough: Arc<Flag>,
    /// Gives the number of lines that it was fed with, the last of them perhaps cut off by its death.
    feeding: JoinHandle<u64>,
}

impl Job {
    fn new(to: &'static str) -> Self {
        Self { folder: tempfile::tempdir().unwrap(), to, pumps: 0, senders: 0 }
    }

    fn path(&self, name: &str) -> String {
        arg(self.folder.path().join(name))
    }

    fn address(&self) -> String {
        format!("shm:{}", self.path("region"))
    }

    fn pump(&mut self) -> Listening {
        self.pumps += 1;
        let copy = self.path(&format!("copy.{}", self.pumps));
        let run = pump(&["--from", &self.address(), "--to", self.to, "--json", "--framing", "lines"]);
        until_it_listens(run.args(["--message-size", "28", "--capacity", "256", "--read-back", &copy]))
    }

    fn sender(&mut self) -> Sender {
        self.senders += 1;
        let life = self.senders;
        let send = ["send", "--to", &self.address(), "--from", "-", "--framing", "lines", "--json"];
        let mut running = transload(send).open_input().start();
        let mut input = running.child.stdin.take().unwrap();
        let enough = Arc::new(Flag::new());
        let stop = enough.clone();
        let feeding = thread::spawn(move || {
            let mut number = 0;
            while !stop.is_raised() {
                let mut lines = String::new();
                for number in number..number + 100 {
                    writeln!(lines, "{life} {number}").unwrap();
                }
                if input.write_all(lines.as_bytes()).is_err() {
                    break;
                }
                number += 100;
            }
            number
        });
        Sender { running, life, enough, feeding }
    }

    /// What the region says of itself.
    fn show(&self) -> Value {
        let name = self.path("region");
        serde_json::from_slice(&transload(["shm", "show", &name, "--json"]).done().code(0).stdout).unwrap()
    }

    /// How often each message has arrived, with each sender's in order in each copy.
    fn arrived(&self) -> HashMap<(usize, u64), u64> {
        let mut arrived = HashMap::new();
        for nth in 1..=self.pumps {
            let mut last = HashMap::new();
            let copy = String::from_utf8(fs::read(self.path(&format!("copy.{nth}"))).unwrap()).unwrap();
            // A pump that was killed may have been in the middle of a line, which comes again.
            let whole = copy.rfind('\n').map_or("", |end| &copy[..=end]);
            for line in whole.lines() {
                let (life, number) = line.split_once(' ').unwrap();
                let (life, number): (usize, u64) = (life.parse().unwrap(), number.parse().unwrap());
                let before = last.insert(life, number);
                assert!(before.is_none_or(|before| before < number), "copy {nth}: {line} after {before:?}");
                *arrived.entry((life, number)).or_default() += 1;
            }
        }
        arrived
    }
}

/// Not evenly spread, and different at each run.
fn random(below: usize) -> usize {
    let some = RandomState::new().hash_one(0);
    usize::try_from(some % below as u64).unwrap()
}

#[allow(clippy::print_stdout, reason = "the runner shows it")]
fn tell(figures: &str) {
    println!("{figures}");
}

fn kill(running: Running) {
    running.signal(Signal::KILL);
    assert!(running.done().status.code().is_none(), "killed");
}

fn kills(to: &'static str, kills_pump: bool) {
    let mut job = Job::new(to);
    let mut pump = job.pump();
    let mut senders: Vec<Sender> = (0..SENDERS).map(|_| job.sender()).collect();
    let mut whole = Vec::new();
    for round in 0..ROUNDS {
        thread::sleep(Duration::from_millis(random(40) as u64));
        for _ in 0..2 {
            let killed = senders.swap_remove(random(SENDERS));
            kill(killed.running);
            killed.feeding.join().unwrap();
            senders.push(job.sender());
        }
        if kills_pump && round % (PUMP_LIVES + 1) == PUMP_LIVES {
            // If all that have the region die, it is gone: somebody has to be there who keeps it.
            wait_until("a sender", || job.show()["members"].as_array().unwrap().len() > 1);
            kill(pump.running);
            thread::sleep(Duration::from_millis(random(40) as u64));
            pump = job.pump();
            assert!(pump.address.contains("taken over"), "{}", pump.address);
        }
    }
    for Sender { running, life, enough, feeding } in senders {
        enough.raise();
        let lines = feeding.join().unwrap();
        let document: Value = serde_json::from_slice(&running.done().code(0).stdout).unwrap();
        assert_eq!(count(&document, "messages"), lines, "{document}");
        whole.push((life, lines));
    }
    wait_until("an empty ring", || job.show()["counts"]["pending"] == 0);
    let region = job.show();
    pump.running.signal(Signal::TERM);
    let document = pump.done().code(0).json();
    assert_eq!((count(&document, "dropped"), &document["error"]), (0, &Value::Null));

    let arrived = job.arrived();
    let counts = &region["counts"];
    let (published, redelivered) = (count(counts, "published"), count(counts, "redelivered"));
    assert_eq!(arrived.len() as u64, published, "each message that was published, and no other: {region}");
    let again: u64 = arrived.values().map(|times| times - 1).sum();
    assert!(again <= redelivered, "{again} came again, {redelivered} were counted");
    assert!(kills_pump || again == 0);
    for life in 1..=job.senders {
        let count = arrived.keys().filter(|(of, _)| *of == life).count() as u64;
        assert!((0..count).all(|number| arrived.contains_key(&(life, number))), "{life} has gaps");
    }
    for (life, lines) in whole {
        assert!(lines == 0 || arrived.contains_key(&(life, lines - 1)), "{life} has sent {lines}");
    }
    let slots = count(&region["region"], "slots");
    assert_eq!((count(counts, "free"), count(counts, "quarantined")), (slots, 0), "{region}");
    assert_eq!(fs::read_dir(job.folder.path()).unwrap().count(), job.pumps, "nothing else is left");
    tell(&format!(
        "{to}: {} senders, {} pumps, {published} messages, {redelivered} redelivered, {again} of them twice, {} reclaimed",
        job.senders, job.pumps, counts["reclaimed"]
    ));
}

#[test]
fn what_was_published_arrives_though_senders_and_the_pump_are_killed() {
    kills("host", true);
}

#[test]
fn what_was_published_arrives_on_a_device_though_senders_are_killed() {
    if opencl_or_skip("shm_killed::what_was_published_arrives_on_a_device_though_senders_are_killed") {
        kills("opencl", false);
    }
}
