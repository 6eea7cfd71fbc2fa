//! A region that processes share, as this pump has it: made, or taken over from one that has died.

use std::thread;
use std::time::{Duration, Instant};

use transload::memory::Policy;
use transload::pump::Report;
use transload::shared::handover::{Name, Steward, Terms, create_or_attach};
use transload::shared::{ConsumerError, SharedConsumer, SharedPool, SharedRegion, SharedRegionBuilder};

use super::args::{Pages, PumpArgs};
use super::report::RegionWords;
use crate::failure::Failure;

/// How many processes may take part at a time.
const MEMBERS: usize = 256;

/// How long the role of a consumer that was killed may stay taken: until the kernel has put its process away.
const AFTERLIFE: Duration = Duration::from_secs(1);
/// How far apart looks at it are.
const TURN: Duration = Duration::from_millis(5);

/// The region, and this process's part in it. It leaves when this is dropped.
#[derive(Debug)]
pub(super) struct SharedSource {
    // Dropped first: it has a handle of the pool.
    steward: Steward,
    pool: SharedPool,
    name: Name,
    created: bool,
    /// The process that was the consumer when it died.
    taken_over_from: Option<u32>,
    leavers: Leavers,
}

/// Counts the members that leave. It has no part in the region: whoever has this may outlive the one who has.
#[derive(Clone, Debug)]
pub(super) struct Leavers {
    region: SharedRegion,
    /// How many had left before.
    before: u64,
}

impl Leavers {
    fn of(region: &SharedRegion) -> Self {
        Self { region: region.clone(), before: region.statistics().left }
    }

    /// How many members have left since.
    pub(super) fn count(&self) -> u64 {
        self.region.statistics().left.saturating_sub(self.before)
    }
}

impl SharedSource {
    /// Makes the region or gets it, serves it, and becomes its consumer.
    pub(super) fn open(
        args: &PumpArgs,
        name: &Name,
        buffer_size: usize,
    ) -> Result<(Self, SharedConsumer), Failure> {
        let terms = args.allow_uid.iter().fold(Terms::new(), |terms, &uid| terms.allow_uid(uid));
        let layout = args.framing().layout().code();
        let make = || memory(args, buffer_size).members(MEMBERS).user_word(layout).create();
        let (region, post, created) = create_or_attach(name, &terms, make)?;
        if region.buffer_size() != buffer_size || region.user_word() != layout {
            return Err(mismatch(args, name, buffer_size, &region));
        }
        // Before our own entry may take the place of the one that it names.
        let taken_over_from = if created { None } else { dead_consumer(&region)? };
        let pool = SharedPool::join(&region, "transload pump")?;
        let looking = pool.clone();
        let steward = Steward::start(post, move || {
            looking.recover();
        })?;
        let consumer = consumer(&pool)?;
        pool.recover();
        let leavers = Leavers::of(&region);
        Ok((Self { steward, pool, name: name.clone(), created, taken_over_from, leavers }, consumer))
    }

    /// Counts those who leave from now on.
    pub(super) fn leavers(&self) -> Leavers {
        self.leavers.clone()
    }

    /// For people, and for programs that look for this line.
    pub(super) fn announcement(&self) -> String {
        match (self.created, self.taken_over_from) {
            (true, _) => format!("shm:{}", self.name),
            (false, Some(pid)) => format!("shm:{}, taken over from process {pid}, which has died", self.name),
            (false, None) => format!("shm:{}, which was there", self.name),
        }
    }

    pub(super) fn words(&self, report: &Report) -> RegionWords {
        tracing::debug!(standing = ?self.steward.standing(), "leaves the region");
        let statistics = self.pool.statistics();
        RegionWords {
            name: self.name.to_string(),
            id: format!("{:032x}", self.pool.region().id()),
            created: self.created,
            taken_over_from: self.taken_over_from,
            members: statistics.joined,
            redelivered: report.redelivered,
            pending: statistics.pending,
            reclaimed: statistics.reclaimed,
            quarantined: statistics.quarantined,
        }
    }
}

/// The process that was the consumer when it died. The kernel may let go of the lock of one that was just killed a little
/// later.
///
/// Fails if there is one that goes on: before this process becomes a member, whose leaving others would count.
fn dead_consumer(region: &SharedRegion) -> Result<Option<u32>, Failure> {
    let started = Instant::now();
    loop {
        let Some(taker) = region.taker() else { return Ok(None) };
        if !taker.alive {
            return Ok(Some(taker.pid));
        }
        if started.elapsed() >= AFTERLIFE {
            return Err(
                ConsumerError::InUse { member: taker.member, pid: taker.pid, name: taker.name }.into()
            );
        }
        thread::sleep(TURN);
    }
}

/// The role, which may be given up at this moment.
fn consumer(pool: &SharedPool) -> Result<SharedConsumer, Failure> {
    let mut again = true;
    loop {
        match pool.ring().consumer() {
            Err(ConsumerError::InUse { .. }) if again => {
                again = false;
                thread::sleep(TURN);
            }
            done => return Ok(done?),
        }
    }
}

/// What the buffers are to be like.
fn memory(args: &PumpArgs, buffer_size: usize) -> SharedRegionBuilder {
    let region = SharedRegion::builder(args.capacity, buffer_size);
    let pages = Policy::from(args.pages_policy);
    let region = match args.pages {
        Pages::Default => region,
        Pages::Transparent => region.transparent_pages(pages),
        Pages::TwoMebibytes => region.pages_2m(pages),
        Pages::OneGibibyte => region.pages_1g(pages),
    };
    let region = region.lock(args.lock.into());
    match args.numa_node {
        Some(node) => region.numa_node(node),
        None => region,
    }
}

fn mismatch(args: &PumpArgs, name: &Name, buffer_size: usize, region: &SharedRegion) -> Failure {
    let (there, layout) = (region.buffer_size(), region.user_word());
    Failure::usage(format!(
        "shm:{name} is there already, with buffers of {there} bytes and layout {layout}; --message-size {} with this \
         --framing needs {buffer_size} bytes and layout {}: use the options that it was made with",
        args.message_size,
        args.framing().layout().code()
    ))
}
