//! What the calls cost when nobody else is there: one process, one thread, everything in cache. By the time that the
//! thread spends on a processor.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde::Serialize;
use transload::shared::SharedPool;

use super::content::Plain;
use super::drive::Outcome;
use super::end::SMALL;
use super::folder::Folder;
use super::iceoryx::{Iceoryx, Side};
use super::link::Link;
use super::ours::{Ours, region};
use super::report::Row;
use super::way::Way;
use crate::adapter::Role;
use crate::io::cpu::thread_time;
use crate::message::tag;

const SLOTS: usize = 16;
const CHUNK: u64 = 256;

/// One operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Alone {
    /// A buffer acquired and given back.
    Lease,
    /// iceoryx2: a sample loaned and given back.
    Loan,
    /// A message of 64 B sent, taken, read and done.
    Message(Way),
}

impl Alone {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Lease,
        Self::Loan,
        Self::Message(Way::Copy),
        Self::Message(Way::InPlace),
        Self::Message(Way::Iceoryx),
    ];

    /// In the report.
    pub fn name(self) -> String {
        match self {
            Self::Lease => "transload, acquire and release".to_owned(),
            Self::Loan => "iceoryx2, loan and drop".to_owned(),
            Self::Message(way) => format!("{}, send, receive and drop 64 B", way.name()),
        }
    }

    pub(super) fn row(self) -> Row {
        let role = match self {
            Self::Lease => Role::Ours,
            Self::Loan => Role::Rival,
            Self::Message(way) => way.role(),
        };
        Row::new(self.name(), role)
    }

    /// Runs it for so long.
    pub(super) fn run(self, span: Duration) -> Result<Outcome> {
        match self {
            Self::Lease => {
                let pool = SharedPool::join(&region(SLOTS, SMALL * 8)?, "alone")?;
                timed(span, |_| {
                    black_box(pool.try_acquire()?);
                    Ok(())
                })
            }
            Self::Loan => {
                let folder = Folder::create()?;
                let mut link = Iceoryx::<SMALL>::open(folder.names(), Side::Alone, Way::Iceoryx, SLOTS, 1)?;
                timed(span, |_| link.loan_and_drop())
            }
            Self::Message(way @ (Way::Iceoryx | Way::IceoryxAhead | Way::IceoryxPolling)) => {
                let folder = Folder::create()?;
                let link = Iceoryx::<SMALL>::open(folder.names(), Side::Alone, way, SLOTS, 1)?;
                messages(span, link)
            }
            Self::Message(way) => {
                let region = region(SLOTS, SMALL * 8)?;
                messages(span, Ours::<SMALL>::join(&region, &region, way, 1)?)
            }
        }
    }
}

fn messages(span: Duration, mut link: impl Link<SMALL>) -> Result<Outcome> {
    timed(span, |sequence| {
        let expected = tag(0, sequence);
        ensure!(link.send::<Plain>(black_box(expected))?, "no room for the only message");
        let arrived = link.receive::<Plain>(|seen| {
            ensure!(seen.is_whole && seen.tag == expected, "another message arrived");
            Ok(())
        })?;
        ensure!(arrived == 1, "{arrived} messages arrived where one was sent");
        Ok(())
    })
}

fn timed(span: Duration, mut operation: impl FnMut(u64) -> Result<()>) -> Result<Outcome> {
    for sequence in 0..CHUNK {
        operation(sequence)?;
    }
    let (begun, before, mut count) = (Instant::now(), thread_time(), 0);
    while begun.elapsed() < span {
        for sequence in count..count + CHUNK {
            operation(sequence)?;
        }
        count += CHUNK;
    }
    Ok(Outcome { count, elapsed: thread_time().saturating_sub(before) })
}
