//! A process of its own that takes part: the test binary again, which obeys what it is told line by line.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use transload::shared::handover::{HandoverError, Name, Post, Standing, Steward, Terms};
use transload::shared::handover::{attach, create, create_or_attach, names};
use transload::shared::{SharedPool, SharedRegion};

use super::{WATCHDOG, small_region};

/// Set where the test binary is to obey.
const ROLE: &str = "HANDOVER_KIT_ROLE";

/// What stands before each answer, since the harness writes to the same stream.
const MARK: &str = "> ";

/// A process that obeys. It is killed at the end of the test, and ends by itself if the test does.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    answers: Receiver<String>,
}

impl Process {
    /// One that knows this name.
    pub(crate) fn start(name: &Name) -> Self {
        Self::of(Command::new(std::env::current_exe().unwrap()), name.to_string())
    }

    /// One of user 65534, which a copy of the binary must be there for.
    pub(crate) fn as_nobody(binary: &Path, name: &Name) -> Self {
        let mut command = Command::new(binary);
        command.uid(65534).gid(65534).current_dir("/");
        Self::of(command, name.to_string())
    }

    /// One that finds names in this folder.
    pub(crate) fn within(folder: &Path, name: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.env("TRANSLOAD_RUNTIME_DIR", folder);
        Self::of(command, name.to_owned())
    }

    fn of(mut command: Command, name: String) -> Self {
        let mut child = command
            .args(["--exact", "obey", "--nocapture"])
            .env(ROLE, name)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (sender, answers) = channel();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                // The harness ends no line before our first.
                if let Some((_, answer)) = line.split_once(MARK) {
                    let _ = sender.send(answer.to_owned());
                }
            }
        });
        Self { child, answers }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn say(&mut self, order: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{order}").unwrap();
    }

    pub(crate) fn hear(&self) -> String {
        self.answers.recv_timeout(WATCHDOG).expect("an answer")
    }

    /// Gives an order, and waits for the answer.
    pub(crate) fn ask(&mut self, order: &str) -> String {
        self.say(order);
        self.hear()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Stops it, and waits until all of it stands still.
    pub(crate) fn stop(&self) {
        self.signal(Signal::STOP);
        super::wait_until("a process that stands still", || {
            let tasks = std::fs::read_dir(format!("/proc/{}/task", self.pid())).unwrap();
            tasks.flatten().all(|task| {
                let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
                stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('T'))
            })
        });
    }

    /// Kills it, and waits until it is dead.
    pub(crate) fn kill(mut self) {
        self.signal(Signal::KILL);
        self.child.wait().unwrap();
    }

    /// Lets it end by itself.
    pub(crate) fn end(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What such a process has.
#[derive(Default)]
struct Part {
    region: Option<SharedRegion>,
    pool: Option<SharedPool>,
    post: Option<Post>,
    steward: Option<Steward>,
}

/// Obeys, if this process is there for that. To be called by the test `obey`.
pub(crate) fn obey() {
    let Some(name) = std::env::var_os(ROLE) else { return };
    let name: Name = name.to_str().unwrap().parse().unwrap();
    let mut part = Part::default();
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        let answer = part.obey(&name, &line).unwrap_or_else(|error| format!("error {error}"));
        println!("{MARK}{answer}");
    }
}

impl Part {
    fn obey(&mut self, name: &Name, line: &str) -> Result<String, HandoverError> {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |nth: usize| words[nth].parse::<u64>().unwrap();
        let terms = Terms::new().patience(Duration::from_secs(2));
        Ok(match words[0] {
            // Makes or gets the region, and takes part with a steward.
            "create" => self.takes(create(name, &terms, small_region)?),
            "attach" => self.takes(attach(name, &terms)?),
            "allow" => {
                let uid = number(2).try_into().unwrap();
                let terms = terms.allow_uid(uid);
                self.takes(match words[1] {
                    "create" => create(name, &terms, small_region)?,
                    _ => attach(name, &terms)?,
                })
            }
            "either" => {
                let (region, post, _) = create_or_attach(name, &terms, small_region)?;
                self.takes((region, post))
            }
            // Makes or gets it, and does nothing more.
            "make" => {
                let (region, post) = create(name, &terms, small_region)?;
                let answer = format!("{:032x}", region.id());
                (self.region, self.post) = (Some(region), Some(post));
                answer
            }
            "standing" => match self.steward.as_ref().map(Steward::standing) {
                Some(Standing::Serving) => "serving",
                Some(Standing::Watching) => "watching",
                Some(Standing::Seeking) => "seeking",
                Some(Standing::Superseded) => "superseded",
                _ => "nothing",
            }
            .to_owned(),
            "send" => {
                let ring = self.pool.as_ref().unwrap().ring();
                ring.try_send_copy(&number(1).to_le_bytes()).unwrap();
                "sent".to_owned()
            }
            "take" => {
                let mut consumer = self.pool.as_ref().unwrap().ring().consumer().unwrap();
                let mut taken = Vec::new();
                while let Ok(batch) = consumer.take(16) {
                    for message in batch.iter() {
                        let mut bytes = [0; 8];
                        batch.read(&message, &mut bytes).unwrap();
                        taken.push(u64::from_le_bytes(bytes).to_string());
                    }
                }
                taken.join(" ")
            }
            "members" => {
                let holders = self.region.as_ref().unwrap().holders();
                holders.iter().filter(|holder| holder.member != 0).count().to_string()
            }
            "names" => {
                let all = names()?;
                let told: Vec<_> = all.iter().map(|one| format!("{}={:?}", one.name, one.life)).collect();
                told.join("; ")
            }
            "leave" => {
                *self = Self::default();
                "left".to_owned()
            }
            other => panic!("no such order: {other}"),
        })
    }

    fn takes(&mut self, (region, post): (SharedRegion, Post)) -> String {
        let pool = SharedPool::join(&region, "kit").unwrap();
        let answer = format!("{:032x}", region.id());
        let look = pool.clone();
        self.steward = Some(
            Steward::start(post, move || {
                look.recover();
            })
            .unwrap(),
        );
        (self.region, self.pool) = (Some(region), Some(pool));
        answer
    }
}

/// A copy of this binary that everybody may run, beside the names of a test.
pub(crate) fn binary_for_all(folder: &Path) -> PathBuf {
    let copy = folder.join("binary");
    std::fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
    super::set_mode(&copy, 0o755);
    copy
}
