//! From options to a pump that is ready to run, and the sources that feed it.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::sync::Arc;
use std::sync::mpsc::{Sender, SyncSender, sync_channel};

use rustix::fs::{FileType, Stat, fstat, stat};
use transload::device::{self, Device, Kernel};
use transload::memory::{Policy, Slab, SlabBuilder};
#[cfg(target_os = "linux")]
use transload::pump::SharedFeed;
use transload::pump::{Intake, OnFull, Pump, PumpOptions, Report};
use transload::staging::{PinnedStagingBuffer, Producer};
use transload_core::Flag;

use super::args::{From, Lock, Pages, PumpArgs, Target};
use super::back::Back;
use super::check::By;
use super::digest::Digests;
use super::kernel::{self, KernelFile};
#[cfg(target_os = "linux")]
use super::region::SharedSource;
use super::report::RegionWords;
#[cfg(target_os = "linux")]
use super::source::Members;
use super::source::{
    self, Direct, DirectFile, Ended, Generate, Listener, Outlet, Read, SocketFile, Sockets, Stage,
};
use super::stop::Stop;
use super::tally::Tally;
use crate::failure::Failure;
use crate::framing::Framing;
use crate::io_backend::{Io, IoOptions, IoWords};
#[cfg(target_os = "linux")]
use crate::pattern::MembersCheck;
use crate::pattern::{Pattern, PatternCheck};
use crate::ring_memory;

/// The most slots of a region that processes share.
const MOST_SHARED: usize = transload_core::MAX_SHARED_BUFFERS;

/// Bytes read from a file at once.
const READ_BYTES: usize = 1 << 20;

/// A pump that is ready to run.
pub(super) struct Setup {
    pub(super) back: Back,
    pub(super) feed: Feed,
}

/// What will feed the pump.
pub(super) struct Feed {
    inlet: Inlet,
    pub(super) tally: Arc<Tally>,
}

/// Where messages will come in.
enum Inlet {
    /// Sources of this process offer them to an intake.
    Sources { sources: Sources, intake: Intake, unended: Arc<Flag>, digests: Option<Digests> },
    /// Others send them into the region that the pump takes from.
    #[cfg(target_os = "linux")]
    Region(SharedSource),
}

/// The sources of this process, before they run.
enum Sources {
    Generated(Pattern),
    Input(Box<dyn BufRead + Send>),
    Direct(DirectFile),
    Sockets(Listener),
}

/// The sources, running.
#[derive(Debug, Default)]
pub(super) struct Started {
    /// How many there are.
    pub(super) sources: usize,
    pub(super) io: Option<IoWords>,
    /// The address of those who listen.
    pub(super) listening: Option<String>,
    #[cfg(target_os = "linux")]
    pub(super) region: Option<SharedSource>,
    /// Removed when this is dropped, at the end.
    _file: Option<SocketFile>,
}

impl Started {
    /// Where messages are taken, for people and for programs.
    pub(super) fn address(&self) -> Option<String> {
        #[cfg(target_os = "linux")]
        if let Some(region) = &self.region {
            return Some(region.announcement());
        }
        self.listening.clone()
    }

    /// The shared region, once the pump has ended.
    pub(super) fn region_words(&self, report: &Report) -> Option<RegionWords> {
        #[cfg(target_os = "linux")]
        return self.region.as_ref().map(|region| region.words(report));
        #[cfg(not(target_os = "linux"))]
        None
    }
}

impl Setup {
    pub(super) fn new(args: &PumpArgs, verify: bool) -> Result<Self, Failure> {
        let framing = args.framing();
        check_options(args)?;
        let slot_bytes = framing
            .slot_bytes(args.message_size)
            .filter(|slot_bytes| slot_bytes.checked_mul(args.capacity).is_some_and(|all| isize::try_from(all).is_ok()))
            .ok_or_else(|| {
                Failure::usage(format!(
                    "{} messages of {} bytes are more than memory can have: use a smaller --capacity or --message-size",
                    args.capacity, args.message_size
                ))
            })?;
        let unended = Arc::new(Flag::new());
        #[cfg(target_os = "linux")]
        if let From::Shared(name) = &args.from {
            let (device, kernel) = open_device(args)?;
            let (source, consumer) = SharedSource::open(args, name, slot_bytes)?;
            let shared = SharedFeed::new(consumer).at_most(args.messages.unwrap_or(u64::MAX));
            let pump = Pump::open(&*device, shared, options(args))?;
            let by = verify.then(|| By::Members(MembersCheck::new(), framing));
            let back = Back::new(args, &*device, pump, kernel, by, &unended)?;
            return Ok(Self::of(back, Inlet::Region(source)));
        }
        let sources = Sources::open(args)?;
        let digests = (verify && args.from != From::Gen).then(Digests::default);
        let (device, kernel) = open_device(args)?;
        let (producer, pump) = open_pump(args, slot_bytes, &*device)?;
        let by = verify.then(|| match &sources {
            Sources::Generated(pattern) => By::Pattern(PatternCheck::new(*pattern)),
            _ => By::Digest(digests.clone().unwrap_or_default()),
        });
        let intake = Intake::new(producer, args.on_full, &pump)?;
        let inlet = Inlet::Sources { sources, intake, unended: unended.clone(), digests };
        Ok(Self::of(Back::new(args, &*device, pump, kernel, by, &unended)?, inlet))
    }

    fn of(back: Back, inlet: Inlet) -> Self {
        Self { back, feed: Feed { inlet, tally: Arc::default() } }
    }
}

impl Feed {
    /// Starts the sources, each on a thread that tells how it ended.
    pub(super) fn start(
        self,
        args: &PumpArgs,
        stop: &Arc<Stop>,
        ended: &Sender<Ended>,
    ) -> Result<Started, Failure> {
        let (sources, intake, unended, digests) = match self.inlet {
            Inlet::Sources { sources, intake, unended, digests } => (sources, intake, unended, digests),
            #[cfg(target_os = "linux")]
            Inlet::Region(source) => {
                let members = Members {
                    leavers: source.leavers(),
                    stop: stop.clone(),
                    connections: args.connections,
                    is_limited: args.messages.is_some(),
                    tally: self.tally,
                };
                source::start("transload-left".to_owned(), ended.clone(), || members.run())?;
                return Ok(Started { sources: 1, region: Some(source), ..Started::default() });
            }
        };
        let outlet = Outlet { intake, stop: stop.clone() };
        if let Sources::Generated(pattern) = sources {
            return generate(args, &outlet, pattern, ended);
        }
        let stage = Stage {
            outlet,
            framing: args.framing(),
            message_size: args.message_size,
            left: Cell::new(args.messages),
            digests,
            // Behind the last line of one connection there may be others.
            unended: match args.from {
                From::Listen(_) if args.connections != Some(1) => Arc::default(),
                _ => unended,
            },
            tally: self.tally,
        };
        let io = IoOptions { io: args.io, buffers: args.pool_buffers, lock: args.lock.into() };
        match sources {
            Sources::Generated(_) => Ok(Started::default()),
            Sources::Input(input) => {
                let name = match &args.from {
                    From::File(path) => path.display().to_string(),
                    _ => "the standard input".to_owned(),
                };
                let read = Read { stage, input, name };
                source::start("transload-read".to_owned(), ended.clone(), || read.run())?;
                Ok(Started { sources: 1, ..Started::default() })
            }
            Sources::Direct(file) => {
                let direct = Direct { file, stage, io };
                let io = start_io("transload-read", ended, |ready| direct.run(ready))?;
                Ok(Started { sources: 1, io: Some(io), ..Started::default() })
            }
            Sources::Sockets(Listener { socket, bound, file }) => {
                let sockets = Sockets { listener: socket, stage, io, connections: args.connections };
                let io = start_io("transload-net", ended, |ready| sockets.run(ready))?;
                Ok(Started {
                    sources: 1,
                    io: Some(io),
                    listening: Some(bound),
                    _file: file,
                    ..Started::default()
                })
            }
        }
    }
}

fn generate(
    args: &PumpArgs,
    outlet: &Outlet,
    pattern: Pattern,
    ended: &Sender<Ended>,
) -> Result<Started, Failure> {
    let producers = u64::from(args.producers);
    for producer in 0..producers {
        let messages = args.messages.map(|all| all / producers + u64::from(producer < all % producers));
        let generate = Generate { outlet: outlet.clone(), pattern, producer, messages };
        source::start(format!("transload-gen-{producer}"), ended.clone(), || generate.run())?;
    }
    Ok(Started { sources: args.producers.into(), ..Started::default() })
}

/// Starts a source whose proactor is made on its own thread, and waits until it is there.
fn start_io(
    name: &str,
    ended: &Sender<Ended>,
    source: impl FnOnce(SyncSender<Result<IoWords, Failure>>) -> Ended + Send + 'static,
) -> Result<IoWords, Failure> {
    let (ready, told) = sync_channel(1);
    source::start(name.to_owned(), ended.clone(), || source(ready))?;
    told.recv().unwrap_or_else(|_| Err(Failure::new("source", "a source's thread ended by a panic")))
}

impl Sources {
    /// Opens the input first of all: if it is not there, nothing else needs to be tried.
    fn open(args: &PumpArgs) -> Result<Self, Failure> {
        match &args.from {
            From::Gen => {
                Pattern::new(args.message_size, args.producers).map(Self::Generated).ok_or_else(|| {
                    Failure::usage(format!(
                        "messages of {} bytes cannot tell {} producers apart: use a larger --message-size",
                        args.message_size, args.producers
                    ))
                })
            }
            From::Standard => Ok(Self::Input(Box::new(BufReader::with_capacity(READ_BYTES, io::stdin())))),
            From::File(path) if args.direct => DirectFile::open(path).map(Self::Direct),
            From::File(path) => {
                let file = File::open(path).map_err(|error| {
                    Failure::new("source", format!("cannot open {}: {error}", path.display()))
                        .fix("name a file that is there and that you may read")
                })?;
                Ok(Self::Input(Box::new(BufReader::with_capacity(READ_BYTES, file))))
            }
            From::Listen(address) => Listener::bind(address).map(Self::Sockets),
            #[cfg(target_os = "linux")]
            From::Shared(_) => unreachable!("no source of this process"),
        }
    }
}

/// Options that do not go together.
fn check_options(args: &PumpArgs) -> Result<(), Failure> {
    let generated = args.from == From::Gen;
    if generated && args.framing.is_some() {
        return Err(Failure::usage(
            "--framing cuts what a source gives: use it with a --from that is not gen",
        ));
    }
    let listens = matches!(args.from, From::Listen(_));
    let shares = args.shares();
    if args.connections.is_some() && !listens && !shares {
        return Err(Failure::usage(
            "--connections counts who connects: use it with --from tcp:HOST:PORT, unix:PATH or shm:NAME",
        ));
    }
    if shares && args.on_full != OnFull::Block {
        return Err(Failure::usage("whoever sends into a shared region waits for room: leave --on-full out"));
    }
    if shares && args.capacity > MOST_SHARED {
        return Err(Failure::usage(format!(
            "a shared region has at most {MOST_SHARED} slots: use a smaller --capacity than {}",
            args.capacity
        )));
    }
    if !shares && !args.allow_uid.is_empty() {
        return Err(Failure::usage("--allow-uid is for a shared region: use it with --from shm:NAME"));
    }
    if shares && args.verify && args.framing() == Framing::Lines {
        return Err(Failure::usage(
            "--verify cannot check lines that other processes send: use another --framing",
        ));
    }
    if args.direct && !matches!(args.from, From::File(_)) {
        return Err(Failure::usage("--direct reads a file: use it with --from FILE"));
    }
    if args.io != Io::Auto && !listens && !args.direct {
        return Err(Failure::usage(
            "--io is for sockets and direct files: use it with --from tcp:HOST:PORT, unix:PATH or --direct",
        ));
    }
    if args.kernel.is_some() && args.verify {
        return Err(Failure::usage(
            "--verify compares the messages, and with --kernel it is outputs that come back: leave one of them out",
        ));
    }
    if args.kernel.is_some() && u32::try_from(args.message_size).is_err() {
        return Err(Failure::usage(
            "kernels count bytes in 32 bits: with --kernel, use a smaller --message-size",
        ));
    }
    if args.output_bytes.is_some() && args.kernel.is_none() {
        return Err(Failure::usage(
            "--output-bytes is the room for what a kernel makes: use it with --kernel",
        ));
    }
    if overwrites(args) {
        return Err(Failure::usage("--read-back would overwrite the file that --from reads: name another"));
    }
    Ok(())
}

/// Whether the input is a file that what is read back would go to, by whatever name: both may be links, or opened by
/// the shell. Streams and devices are no files in this sense.
fn overwrites(args: &PumpArgs) -> bool {
    let file = |stat: rustix::io::Result<Stat>| {
        let stat = stat.ok()?;
        FileType::from_raw_mode(stat.st_mode).is_file().then_some((stat.st_dev, stat.st_ino))
    };
    let from = match &args.from {
        From::Gen | From::Listen(_) => None,
        #[cfg(target_os = "linux")]
        From::Shared(_) => None,
        From::Standard => file(fstat(io::stdin())),
        From::File(path) => file(stat(path)),
    };
    let to = match &args.read_back {
        None => None,
        Some(Target::Standard) => file(fstat(io::stdout())),
        Some(Target::File(path)) => file(stat(path)),
    };
    from.is_some() && from == to
}

/// The device, and the kernel that is to run there: if that does not build, nothing else needs to be tried.
fn open_device(args: &PumpArgs) -> Result<(Box<dyn Device>, Option<Kernel>), Failure> {
    let source = args.kernel.as_ref().map(KernelFile::read).transpose()?;
    let device = device::open(&args.to)?;
    let kernel = source.map(|source| device.build(&source)).transpose().map_err(kernel::not_built)?;
    Ok((device, kernel))
}

fn open_pump(args: &PumpArgs, slot_bytes: usize, device: &dyn Device) -> Result<(Producer, Pump), Failure> {
    let ring = PinnedStagingBuffer::builder(args.capacity, slot_bytes).sample_latency(true);
    let ring = match device_memory(args, slot_bytes, device) {
        Some(slab) => ring.slab(slab),
        None => ring.memory(|slab| memory(args, slab)),
    };
    let ring = ring.build()?;
    let (producer, consumer) = ring.split();
    Ok((producer, Pump::open(device, consumer, options(args))?))
}

fn options(args: &PumpArgs) -> PumpOptions {
    PumpOptions {
        batch_bytes: args.batch_bytes,
        batch_delay: args.batch_delay,
        in_flight: args.in_flight.into(),
        require_pinned: args.require_pinned,
        ..PumpOptions::default()
    }
}

/// Memory of the driver's own, unless somebody asked for memory of a certain kind.
fn device_memory(args: &PumpArgs, slot_bytes: usize, device: &dyn Device) -> Option<Slab> {
    let any_kind = args.pages == Pages::Default && args.numa_node.is_none() && args.lock != Lock::Require;
    any_kind.then(|| ring_memory::of_driver(device, args.capacity, slot_bytes)).flatten()
}

fn memory(args: &PumpArgs, slab: SlabBuilder) -> SlabBuilder {
    let pages = Policy::from(args.pages_policy);
    let slab = match args.pages {
        Pages::Default => slab,
        Pages::Transparent => slab.transparent_pages(pages),
        Pages::TwoMebibytes => slab.pages_2m(pages),
        Pages::OneGibibyte => slab.pages_1g(pages),
    };
    let slab = slab.lock(args.lock.into());
    match args.numa_node {
        Some(node) => slab.numa_node(node),
        None => slab,
    }
}
