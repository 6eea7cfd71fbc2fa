//! What feeds a connection.

use std::collections::VecDeque;
use std::sync::Arc;

use transload::pool::Lease;
use transload::proactor::{File, Incoming, Pending, Transferred};

use super::cutter::{Cut, Cutter, Then};
use super::generator::Generator;
use super::lane::Lane;
use super::mailbox::{Letter, Mailbox};
use super::report::StoppedBy;
use crate::failure::Failure;

/// Reads of a file under way at once.
const READS: usize = 8;

/// Sends generated messages until there are enough, or it is time to stop: behind the message that was begun, since half
/// of one would make the peer a bad one.
pub(super) async fn generated(mut lane: Lane, mut generator: Generator) {
    loop {
        let lease =
            if generator.is_within_message() { lane.lease_at_any_time().await } else { lane.lease().await };
        let Some(mut lease) = lease else { break };
        let (bytes, messages) = generator.fill(&mut lease);
        if bytes == 0 {
            break;
        }
        lease.resize(bytes);
        lane.send(lease, messages);
    }
    lane.finish().await;
}

/// Sends a file from an offset on: read ahead into the leases that are sent then, without a copy between.
pub(super) async fn file(mut lane: Lane, file: File, name: String, mut offset: u64, mut cutter: Cutter) {
    let common = lane.common.clone();
    let (handle, pool, stop) = (&common.handle, &common.pool, &common.stop);
    // So that reads leave buffers for sends, and one buffer alone does for both in turn.
    let most = (pool.capacity() as usize / 2).clamp(1, READS);
    let mut reads: VecDeque<Pending<Transferred<Incoming>>> = VecDeque::new();
    let mut is_at_end = false;
    loop {
        while !is_at_end && !stop.has_come() && reads.len() < most {
            // Waits only where no read holds a buffer that it would wait for.
            let lease = if reads.is_empty() { lane.lease().await } else { pool.try_acquire().ok() };
            let Some(lease) = lease else { break };
            let bytes = lease.len() as u64;
            reads.push_back(handle.read_at(&file, lease, offset));
            offset += bytes;
        }
        if reads.is_empty() && !is_at_end && stop.has_come() && !lane.is_broken() && cutter.wants_rest_only()
        {
            // Half a message would make the peer a bad one.
            let Some(lease) = lane.lease_at_any_time().await else { break };
            let bytes = lease.len() as u64;
            reads.push_back(handle.read_at(&file, lease, offset));
            offset += bytes;
        }
        let Some(read) = reads.pop_front() else { break };
        let done = lane.beside(read).await;
        match (done.result, done.buffers.into_lease()) {
            (Ok(bytes), Some(mut lease)) => {
                if bytes < lease.len() {
                    // Reads behind the end find something only if the file grows, and not what follows this.
                    is_at_end = true;
                    reads.clear();
                }
                lease.resize(bytes);
                if !send(&mut lane, &mut cutter, lease) {
                    break;
                }
            }
            (Err(error), _) => {
                stop.fail(unreadable(&name, error));
                break;
            }
            (Ok(_), None) => break,
        }
        if is_at_end {
            end(&lane, &cutter);
        }
    }
    // What was read beyond what is wanted goes back.
    drop(reads);
    lane.finish().await;
}

/// Sends what a thread reads, as it comes.
pub(super) async fn letters(mut lane: Lane, mailbox: Arc<Mailbox>, name: String, mut cutter: Cutter) {
    let common = lane.common.clone();
    loop {
        let letter = {
            let next = std::pin::pin!(mailbox.next(&common.stop));
            lane.beside(next).await
        };
        match letter {
            Some(Letter::Bytes(lease)) if lane.is_broken() => drop(lease),
            Some(Letter::Bytes(lease)) => {
                if !send(&mut lane, &mut cutter, lease) {
                    break;
                }
            }
            Some(Letter::End) => {
                end(&lane, &cutter);
                break;
            }
            Some(Letter::Failed(error)) => {
                common.stop.fail(unreadable(&name, error));
                break;
            }
            None => break,
        }
    }
    lane.finish().await;
}

/// Sends what goes out of a lease; says whether more is wanted.
fn send(lane: &mut Lane, cutter: &mut Cutter, mut lease: Lease) -> bool {
    let Cut { bytes, messages, then } = cutter.follow(&lease);
    lease.resize(bytes);
    lane.send(lease, messages);
    match then {
        Then::More => !lane.is_broken(),
        Then::Enough => {
            lane.common.stop.now(StoppedBy::Messages);
            false
        }
        Then::Wrong(failure) => {
            lane.common.stop.fail(failure);
            false
        }
    }
}

/// The input has come to its end.
fn end(lane: &Lane, cutter: &Cutter) {
    match cutter.end() {
        // A last line without an end is a message, and its bytes have gone out.
        Ok(more) => lane.common.messages.set(lane.common.messages.get() + more),
        Err(failure) => lane.common.stop.fail(failure),
    }
}

fn unreadable(name: &str, error: impl std::fmt::Display) -> Failure {
    Failure::new("source", format!("cannot read {name}: {error}"))
        .fix("name a file or a stream that can be read to its end")
}
