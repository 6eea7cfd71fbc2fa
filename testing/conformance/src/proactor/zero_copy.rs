//! Sends that the network reads from the caller's memory: who has it, and for how long.

use std::task::Poll;
use std::thread;

use transload::pool::{AcquireError, BufferPool};
use transload::proactor::{Capability, Returned, Returning, ZeroCopy};

use super::pattern::{Checker, Pattern};
use super::rig::{Kind, Rig, lease, look, pair, read_checked, reader};
use super::subject::Run;

fn can(rig: &Rig) -> bool {
    rig.proactor.capabilities().has(Capability::ZeroCopySend)
}

/// The choice changes how bytes go, and neither the bytes nor their order; the counts say what was done.
pub fn the_choice_changes_no_byte(run: &Run) {
    const SIZE: usize = 200_000;
    let rig = run.rig();
    let pool = rig.pool(2, SIZE);
    for zero_copy in [ZeroCopy::On, ZeroCopy::Auto, ZeroCopy::Off] {
        let (ours, peer) = pair(Kind::Tcp);
        let reader = reader(peer, Pattern(70), 6 * SIZE as u64);
        for turn in 0..6 {
            let bytes = lease(&pool, Pattern(70), turn * SIZE as u64, SIZE);
            let sent = rig.on(rig.handle.send_with(&ours, bytes, zero_copy));
            assert_eq!(sent.result, Ok(SIZE));
            let Returned { buffers, zero_copied, copied, .. } = rig.on(sent.returned());
            assert!(*buffers.into_lease().unwrap() == *Pattern(70).bytes(turn * SIZE as u64, SIZE));
            match zero_copy {
                ZeroCopy::Off => assert_eq!((zero_copied, copied), (0, 0)),
                // Without the right to pin them, the kernel refuses, and a copy does.
                ZeroCopy::On if can(&rig) && rig.proactor.statistics().zero_copy_refused == 0 => {
                    assert!(zero_copied + copied > 0, "it was to go without a copy");
                }
                _ if !can(&rig) => assert_eq!((zero_copied, copied), (0, 0)),
                _ => {}
            }
        }
        reader.join().unwrap();
    }
}

/// A pool of one, and a peer that does not read: the buffer stays away while the kernel may still read it, however
/// often one asks, and comes back when it has been read.
pub fn no_buffer_comes_back_before_its_notification(run: &Run) {
    for kind in [Kind::Tcp, Kind::Unix] {
        let rig = run.rig();
        let pool = rig.pool(1, MESSAGE);
        let (ours, mut peer) = pair(kind);
        let (mut sent_bytes, mut checker) = (0, Checker::new(Pattern(71)));
        // As many as the socket takes, and one that it does not, or whose buffer it keeps.
        while let Ok(mut bytes) = pool.try_acquire() {
            Pattern(71).fill(sent_bytes, &mut bytes);
            sent_bytes += MESSAGE as u64;
            let mut sending = rig.handle.send_with(&ours, bytes, ZeroCopy::On);
            if let Some(sent) = within_a_moment(&rig, &mut sending) {
                assert_eq!(sent.result, Ok(MESSAGE));
                is_kept_or_ours(&rig, &pool, sent.returned());
                continue;
            }
            // Not even sent: it is the kernel's.
            is_exhausted(&pool);
            let reading = thread::spawn(move || {
                read_checked(&mut peer, &mut checker, sent_bytes);
                (peer, checker)
            });
            let sent = rig.on(sending);
            assert_eq!(sent.result, Ok(MESSAGE));
            drop(rig.on(sent.returned()));
            (peer, checker) = reading.join().unwrap();
            assert_eq!(pool.available(), 1);
            break;
        }
        read_checked(&mut peer, &mut checker, sent_bytes);
        assert!(rig.until(|| pool.try_acquire().is_ok()), "it comes back when it has been read");
        assert!(rig.until(|| rig.handle.in_flight() == 0));
    }
}

const MESSAGE: usize = 64 << 10;

/// The outcome of a future, if it has one soon.
fn within_a_moment<F: Future + Unpin>(rig: &Rig, future: &mut F) -> Option<F::Output> {
    for _ in 0..20 {
        rig.turn();
        if let Poll::Ready(output) = look(future) {
            return Some(output);
        }
    }
    None
}

fn is_exhausted(pool: &BufferPool) {
    assert_eq!(pool.try_acquire().unwrap_err(), AcquireError::Exhausted { capacity: 1 });
}

/// A buffer that was sent is ours again, and may be written at once; or it is the kernel's, and nobody can have it.
fn is_kept_or_ours(rig: &Rig, pool: &BufferPool, mut returning: Returning) {
    match look(&mut returning) {
        Poll::Ready(returned) => returned.buffers.into_lease().unwrap().fill(0xAA),
        Poll::Pending => {
            assert!(can(rig), "a copy needs its source no longer");
            is_exhausted(pool);
            // Nobody waits for it: it goes home by itself, and not before its time.
            drop(returning);
            is_exhausted(pool);
            for _ in 0..20 {
                rig.turn();
                if let Ok(mut lease) = pool.try_acquire() {
                    lease.fill(0xAA);
                    return;
                }
            }
        }
    }
}

/// The loop-back device copies all the same: that is said, and after a few no more are tried.
pub fn copies_are_counted_and_end_the_attempts(run: &Run) {
    const SIZE: usize = 128 << 10;
    let rig = run.rig();
    let pool = rig.pool(2, SIZE);
    let (ours, peer) = pair(Kind::Tcp);
    let reader = reader(peer, Pattern(72), 20 * SIZE as u64);
    assert!(!ours.copies());
    let (mut copied, mut zero_copied, mut plain) = (0, 0, 0);
    for turn in 0..20 {
        let sent = rig.send(&ours, lease(&pool, Pattern(72), turn * SIZE as u64, SIZE));
        let returned = rig.on(sent.returned());
        copied += returned.copied;
        zero_copied += returned.zero_copied;
        plain += u32::from(returned.copied + returned.zero_copied == 0);
    }
    reader.join().unwrap();
    let statistics = rig.proactor.statistics();
    assert_eq!((statistics.copied, statistics.zero_copied), (copied.into(), zero_copied.into()));
    if !can(&rig) {
        assert_eq!((copied, zero_copied, plain), (0, 0, 20));
    } else if statistics.zero_copy_refused > 0 {
        assert!(ours.copies(), "what is refused is not tried again");
    } else {
        // As good as all: nothing can be gained here, and the numbers say so.
        assert!(copied >= 4 && zero_copied * 9 <= copied, "{copied} copied, {zero_copied} not");
        assert!(ours.copies() && plain >= 10, "it goes on trying: {plain} of 20 were plain sends");
    }
}

/// Sockets that know no such sends get copies.
pub fn unix_sockets_get_copies(run: &Run) {
    const SIZE: usize = 100_000;
    let rig = run.rig();
    let pool = rig.pool(4, SIZE);
    let (ours, peer) = pair(Kind::Unix);
    let reader = reader(peer, Pattern(73), 4 * SIZE as u64);
    let sends: Vec<_> = (0..4)
        .map(|turn| {
            let bytes = lease(&pool, Pattern(73), turn * SIZE as u64, SIZE);
            rig.handle.send_with(&ours, bytes, ZeroCopy::On)
        })
        .collect();
    for send in sends {
        let sent = rig.on(send);
        assert_eq!((sent.result, sent.bytes), (Ok(SIZE), SIZE));
        assert_eq!(rig.on(sent.returned()).zero_copied, 0);
    }
    reader.join().unwrap();
    assert_eq!(pool.available(), 4);
    assert_eq!(rig.proactor.statistics().zero_copied, 0);
    if can(&rig) {
        assert!(rig.proactor.statistics().zero_copy_refused > 0);
        assert!(ours.copies());
    }
}

/// Many small ones from one buffer each: no byte of another message, and no buffer is lost.
pub fn many_messages_without_a_copy(run: &Run) {
    const COUNT: u64 = 10_000;
    let rig = run.rig();
    let pool = rig.pool(32, 64);
    let (ours, peer) = pair(Kind::Tcp);
    let reader = reader(peer, Pattern(74), COUNT * 64);
    let mut sends = std::collections::VecDeque::new();
    for index in 0..COUNT {
        let mut bytes = rig.on(pool.acquire()).unwrap();
        Pattern(74).fill(index * 64, &mut bytes);
        sends.push_back(rig.handle.send_with(&ours, bytes, ZeroCopy::On));
        while sends.len() > 20 {
            assert_eq!(rig.on(sends.pop_front().unwrap()).result, Ok(64));
        }
    }
    for send in sends {
        assert_eq!(rig.on(send).result, Ok(64));
    }
    reader.join().unwrap();
    assert!(rig.until(|| pool.available() == 32));
}
