//! Regions that are handed over by a name: whoever does a part of that is killed at each of its system calls.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::Command;
use std::thread::{self, park};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use transload::shared::handover::{
    HandoverError, Name, Post, Steward, Terms, attach, create, create_or_attach,
};
use transload::shared::{SharedError, SharedRegion, SharedRegionBuilder, named_objects, unlink_named};

use crate::half_made::works;
use crate::scene::Fault;
use crate::trace::{Stop, Tracee, let_parent_trace, mark};
use crate::victim::Victim;

/// A wait of the steward's thread that is longer than this is one for nobody.
const LONG: Duration = Duration::from_millis(200);
/// Nothing takes a tenth of it.
const PATIENCE: Duration = Duration::from_secs(10);
/// The file of the region's socket, and what is added for the victim's sign.
const REGION: &str = "region";
const SIGN: &str = ".now";
/// No part has more system calls.
const MOST: usize = 2000;

/// What the victim does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handing {
    /// Makes a region under a name.
    Create,
    /// Gets one by its name.
    Attach,
    /// Gives up a name that nobody else has.
    Leave,
    /// Serves a region to somebody who comes and goes.
    Serve,
    /// Serves on, when whoever served has gone.
    ServeOn,
    /// Makes a region with a name in `/dev/shm`.
    CreateNamed,
    /// Makes one by the name of one that is dead.
    ReplaceNamed,
    /// Opens one by its name.
    OpenNamed,
}

const NAMES: [(&str, Handing); 8] = [
    ("create", Handing::Create),
    ("attach", Handing::Attach),
    ("leave", Handing::Leave),
    ("serve", Handing::Serve),
    ("serve-on", Handing::ServeOn),
    ("create-named", Handing::CreateNamed),
    ("replace-named", Handing::ReplaceNamed),
    ("open-named", Handing::OpenNamed),
];

fn builder() -> SharedRegionBuilder {
    SharedRegion::builder(4, 256).members(4)
}

fn make() -> Result<SharedRegion, SharedError> {
    builder().create()
}

fn terms() -> Terms {
    Terms::new().patience(PATIENCE)
}

impl Handing {
    /// Its name.
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(_, handing)| *handing == self).map_or("?", |(name, _)| name)
    }

    /// The part of this name.
    pub fn of(name: &str) -> Option<Handing> {
        NAMES.iter().find(|(other, _)| *other == name).map(|&(_, handing)| handing)
    }

    /// The victim's side.
    ///
    /// # Errors
    ///
    /// What went wrong.
    pub fn act(self, name: &str) -> Result<(), String> {
        if matches!(self, Handing::CreateNamed | Handing::ReplaceNamed | Handing::OpenNamed) {
            let_parent_trace().map_err(|error| error.to_string())?;
            mark();
            let got = match self {
                Handing::OpenNamed => SharedRegion::open_named(name),
                _ => builder().create_named(name, 0o600),
            };
            mark();
            return got.map(drop).map_err(|error| error.to_string());
        }
        let name: Name = name.parse().map_err(|error| format!("{error}"))?;
        let say = |error: HandoverError| error.to_string();
        match self {
            Handing::Create | Handing::Attach => {
                let_parent_trace().map_err(|error| error.to_string())?;
                mark();
                let got = match self {
                    Handing::Create => create(&name, &terms(), make),
                    _ => attach(&name, &terms()),
                };
                mark();
                got.map(drop).map_err(say)
            }
            Handing::Leave => {
                let (region, post) = create(&name, &terms(), make).map_err(say)?;
                let_parent_trace().map_err(|error| error.to_string())?;
                mark();
                drop(post);
                drop(region);
                mark();
                Ok(())
            }
            Handing::Serve => stand(&name, create(&name, &terms(), make).map_err(say)?.1),
            Handing::CreateNamed | Handing::ReplaceNamed | Handing::OpenNamed => unreachable!("done above"),
            Handing::ServeOn => stand(&name, attach(&name, &terms()).map_err(say)?.1),
        }
    }
}

/// Lets a thread do what a post demands, for ever. It is stepped from when there is a [`sign`] on.
fn stand(name: &Name, post: Post) -> Result<(), String> {
    let (mut is_free, sign) = (true, sign(name));
    let look = move || {
        if is_free && sign.exists() {
            is_free = false;
            let_parent_trace().unwrap();
            mark();
        }
    };
    let _steward = Steward::start(post, look).map_err(|error| error.to_string())?;
    loop {
        park();
    }
}

/// A file by which the victim is told to come to its mark.
fn sign(name: &Name) -> PathBuf {
    PathBuf::from(format!("{name}{SIGN}"))
}

/// What came out of all deaths.
#[derive(Debug, Default)]
pub struct Report {
    /// At how many points the victim was killed.
    pub points: usize,
    /// Each with its number.
    pub faults: Vec<(usize, Fault)>,
}

/// Kills the victim where each of its system calls begins and ends. `has_survivor`: somebody else is there who
/// has the region, and serves it on.
///
/// # Panics
///
/// If a victim does not go as it should.
pub fn kill_at_each_call(handing: Handing, victim: &Victim, has_survivor: bool) -> Report {
    let mut report = Report::default();
    for calls in 0..MOST {
        let stage = Stage::new();
        let (has_ended, judged) = match handing {
            Handing::Create | Handing::Leave => stage.alone(handing, victim, calls),
            Handing::Attach => stage.attach(victim, calls),
            Handing::Serve => stage.serve(victim, calls, has_survivor),
            Handing::ServeOn => stage.serve_on(victim, calls),
            Handing::CreateNamed | Handing::ReplaceNamed | Handing::OpenNamed => {
                named(handing, victim, calls)
            }
        };
        report.points += 1;
        if let Err(fault) = judged {
            report.faults.push((calls, fault));
        }
        if has_ended {
            return report;
        }
    }
    panic!("{} does not end", handing.name());
}

/// A folder for one death.
struct Stage {
    folder: TempDir,
}

impl Stage {
    fn new() -> Stage {
        Stage { folder: tempfile::tempdir().unwrap() }
    }

    fn name(&self) -> Name {
        self.folder.path().join(REGION).display().to_string().parse().unwrap()
    }

    fn command(&self, handing: Handing, victim: &Victim) -> Command {
        let mut command = victim.command();
        command.args(["handing", handing.name(), &self.name().to_string()]);
        command
    }

    /// Nobody else has a region: another one can be made, and is found.
    fn alone(&self, handing: Handing, victim: &Victim, calls: usize) -> (bool, Result<(), Fault>) {
        let mut tracee = Tracee::start(&mut self.command(handing, victim)).unwrap();
        let has_ended = run_to_mark(&mut tracee, calls);
        tracee.kill().unwrap();
        (has_ended, self.is_made_anew())
    }

    fn is_made_anew(&self) -> Result<(), Fault> {
        let made = create_or_attach(&self.name(), &terms(), make).map_err(|error| error.to_string())?;
        let (region, post, is_made) = made;
        if !is_made {
            return Err("somebody serves the region of the dead".to_owned());
        }
        let steward = Steward::start(post, || {}).map_err(|error| error.to_string())?;
        self.is_there(&region)?;
        drop((steward, region));
        self.is_tidy()
    }

    /// Somebody serves the region that the victim gets.
    fn attach(&self, victim: &Victim, calls: usize) -> (bool, Result<(), Fault>) {
        let (region, post) = create(&self.name(), &terms(), make).unwrap();
        let steward = Steward::start(post, || {}).unwrap();
        let mut tracee = Tracee::start(&mut self.command(Handing::Attach, victim)).unwrap();
        let has_ended = run_to_mark(&mut tracee, calls);
        tracee.kill().unwrap();
        let judged = self.is_there(&region).and_then(|()| {
            drop((steward, region));
            self.is_tidy()
        });
        (has_ended, judged)
    }

    /// The victim serves a client that comes and goes, and somebody else has the region as well.
    fn serve(&self, victim: &Victim, calls: usize, has_survivor: bool) -> (bool, Result<(), Fault>) {
        let mut survivor = None;
        let leads = || {
            let (region, post) = found(&self.name()).unwrap();
            let steward = has_survivor.then(|| Steward::start(post, || {}).unwrap());
            survivor = Some((region, steward));
            let visitor = attach(&self.name(), &terms()).unwrap();
            self.tell();
            // Whoever serves looks when somebody hangs up, if not before.
            drop(visitor);
        };
        let mut command = self.command(Handing::Serve, victim);
        let mut tracee = Tracee::start_second_thread(&mut command, leads).unwrap();
        let (region, steward) = survivor.unwrap();
        let name = self.name();
        let client = thread::spawn(move || {
            let (region, post) = attach(&name, &terms()).map_err(|error| error.to_string())?;
            drop(post);
            Ok::<_, Fault>(region.id())
        });
        let has_ended = run_to_silence(&mut tracee, calls, || client.is_finished());
        tracee.kill().unwrap();
        let served = client.join().unwrap();
        let judged = served.and_then(|id| {
            if id != region.id() {
                return Err("a client got another region".to_owned());
            }
            self.is_there(&region)?;
            drop((steward, region));
            self.is_tidy()
        });
        (has_ended, judged)
    }

    /// Whoever served goes, and the victim is about to serve on when it dies; then it is the survivor's turn.
    fn serve_on(&self, victim: &Victim, calls: usize) -> (bool, Result<(), Fault>) {
        let (region, post) = create(&self.name(), &terms(), make).unwrap();
        let server = Steward::start(post, || {}).unwrap();
        let (survivor, post) = attach(&self.name(), &terms()).unwrap();
        let mut command = self.command(Handing::ServeOn, victim);
        let mut tracee = Tracee::start_second_thread(&mut command, || self.tell()).unwrap();
        // Numbers of files are used again at once.
        let made_at = |file: fs::Metadata| (file.ctime(), file.ctime_nsec());
        let socket = || fs::metadata(self.folder.path().join(REGION)).ok().map(made_at);
        let before = socket();
        drop((server, region));
        let has_ended = run_to_silence(&mut tracee, calls, || socket().is_some() && socket() != before);
        tracee.kill().unwrap();
        let steward = Steward::start(post, || {}).unwrap();
        let judged = self.is_there(&survivor).and_then(|()| {
            drop((steward, survivor));
            self.is_tidy()
        });
        (has_ended, judged)
    }

    fn tell(&self) {
        File::create(sign(&self.name())).unwrap();
    }

    /// Whoever asks by the name gets this region, and it works.
    fn is_there(&self, region: &SharedRegion) -> Result<(), Fault> {
        let (same, _post) = attach(&self.name(), &terms()).map_err(|error| error.to_string())?;
        if same.id() == region.id() { works(&same) } else { Err("another region has the name".to_owned()) }
    }

    /// Once all have gone, in good order but for the victim, the name has gone too.
    fn is_tidy(&self) -> Result<(), Fault> {
        let files = fs::read_dir(self.folder.path()).map_err(|error| error.to_string())?;
        let names: Vec<_> = files.filter_map(Result::ok).map(|file| file.file_name()).collect();
        // The victim's sign may be there.
        let is_left = names.iter().any(|name| !name.to_string_lossy().ends_with(SIGN));
        if is_left { Err(format!("{names:?} are left")) } else { Ok(()) }
    }
}

/// A region with a name in `/dev/shm`: whatever the victim has left of it, the next one can be made.
fn named(handing: Handing, victim: &Victim, calls: usize) -> (bool, Result<(), Fault>) {
    let name = format!("crash-{}-{}-{calls}", std::process::id(), handing.name());
    let create = || builder().create_named(&name, 0o600);
    let before = (handing != Handing::CreateNamed).then(|| create().unwrap());
    // Of the dead there is the name only.
    let alive = before.filter(|_| handing == Handing::OpenNamed);
    let mut command = victim.command();
    let mut tracee = Tracee::start(command.args(["handing", handing.name(), &name])).unwrap();
    let has_ended = run_to_mark(&mut tracee, calls);
    tracee.kill().unwrap();
    let check = || {
        let region = match &alive {
            Some(region) => {
                if create().is_ok() {
                    return Err("a living region was replaced".to_owned());
                }
                region.clone()
            }
            None => create().map_err(|error| error.to_string())?,
        };
        let same = SharedRegion::open_named(&name).map_err(|error| error.to_string())?;
        if same.id() != region.id() {
            return Err("another region has the name".to_owned());
        }
        works(&same)?;
        unlink_named(&name).map_err(|error| error.to_string())?;
        let left = named_objects().map_err(|error| error.to_string())?;
        if left.iter().any(|object| object.name == name) {
            Err("the name is left".to_owned())
        } else {
            Ok(())
        }
    };
    let judged = check();
    if judged.is_err() {
        // Nothing is left of a failure; it says so itself.
        let _ = unlink_named(&name);
    }
    (has_ended, judged)
}

/// The region of a name that somebody is about to make.
fn found(name: &Name) -> Result<(SharedRegion, Post), HandoverError> {
    let end = Instant::now() + PATIENCE;
    loop {
        match attach(name, &terms()) {
            Err(HandoverError::NotThere { .. }) if Instant::now() < end => {
                thread::sleep(Duration::from_millis(1));
            }
            done => return done,
        }
    }
}

/// Lets the victim go so many halves of system calls; says whether it came to its mark.
fn run_to_mark(tracee: &mut Tracee, calls: usize) -> bool {
    (0..calls).any(|_| match tracee.run_to_call().unwrap() {
        Stop::Step => false,
        Stop::Mark => true,
        other => panic!("the victim does not come to its mark: {other:?}"),
    })
}

/// Lets the victim go so many halves of system calls; says whether it came to wait for nobody, once all is done.
fn run_to_silence(tracee: &mut Tracee, calls: usize, is_done: impl Fn() -> bool) -> bool {
    (0..calls).any(|_| {
        let (was_done, started) = (is_done(), Instant::now());
        let stop = tracee.run_to_call().unwrap();
        assert_eq!(stop, Stop::Step, "the victim goes on for ever");
        was_done && started.elapsed() > LONG
    })
}
