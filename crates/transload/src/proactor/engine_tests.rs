//! What the engine makes of completions that no kernel gives on demand.

use std::future::Future;
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use rustix::io::Errno;

use super::backend::Event;
use super::engine::Engine;
use super::error::IoError;
use super::file::File;
use super::operation::Pinning;
use super::pools::register;
use super::scripted::{Asked, engine};
use super::socket::Socket;
use super::streams::Received;
use crate::memory::{Policy, Slab};
use crate::pool::{AcquireError, BufferPool};
use crate::region::{Access, Region, Registration};

const NOW: Option<Duration> = Some(Duration::ZERO);

fn slab(buffer_count: usize, buffer_size: usize) -> Slab {
    Slab::builder(buffer_count, buffer_size).lock(Policy::Never).build().unwrap()
}

fn region(engine: &mut Engine, buffer_count: usize, buffer_size: usize) -> Region {
    let slab = slab(buffer_count, buffer_size);
    register(&mut *engine.backend, &engine.shared, &slab, Access::READ_WRITE, Pinning::Preferred).unwrap()
}

fn pool(engine: &mut Engine, buffer_count: usize, buffer_size: usize) -> BufferPool {
    BufferPool::new(&region(engine, buffer_count, buffer_size)).unwrap()
}

fn socket() -> Socket {
    Socket::from(UnixStream::pair().unwrap().0)
}

fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

fn ready<F: Future + Unpin>(mut future: F) -> F::Output {
    match poll(&mut future) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("not ready"),
    }
}

#[test]
fn a_chain_that_breaks_goes_on_in_order() {
    let (mut engine, handle, director) = engine();
    let (pool, socket) = (pool(&mut engine, 3, 100), socket());
    let sends = [(); 3].map(|()| handle.send(&socket, pool.try_acquire().unwrap()));
    engine.turn(NOW).unwrap();
    let chain = director.asked();
    let [
        Asked::Send { linked: true, .. },
        Asked::Send { linked: true, .. },
        Asked::Send { linked: false, .. },
    ] = chain[..]
    else {
        panic!("no chain of three: {chain:?}");
    };
    // The first of the chain is short, so the kernel gives the others up.
    director.completes(chain[0].key(), Event::Done(Ok(40)), false);
    for asked in &chain[1..] {
        director.completes(asked.key(), Event::Done(Err(Errno::CANCELED)), false);
    }
    engine.turn(NOW).unwrap();
    let rest = director.asked();
    assert_eq!(
        rest,
        [
            Asked::Send { key: chain[0].key(), bytes: 60, zero_copy: false, linked: true },
            Asked::Send { key: chain[1].key(), bytes: 100, zero_copy: false, linked: true },
            Asked::Send { key: chain[2].key(), bytes: 100, zero_copy: false, linked: false },
        ]
    );
    for asked in rest {
        let Asked::Send { key, bytes, .. } = asked else { panic!("not a send") };
        director.completes(key, Event::Done(Ok(bytes)), false);
    }
    engine.turn(NOW).unwrap();
    for send in sends {
        assert_eq!(ready(send).result, Ok(100));
    }
    assert_eq!(handle.statistics().short_sends, 1);
}

#[test]
fn an_error_before_a_notification_is_the_outcome_and_keeps_the_memory() {
    let (mut engine, handle, director) = engine();
    let (pool, socket) = (pool(&mut engine, 1, 4096), socket());
    let send = handle.send(&socket, pool.try_acquire().unwrap());
    engine.turn(NOW).unwrap();
    let [Asked::Send { key, zero_copy: true, .. }] = director.asked()[..] else {
        panic!("no zero-copy send")
    };
    director.completes(key, Event::Done(Err(Errno::CONNRESET)), true);
    engine.turn(NOW).unwrap();
    let ended = ready(send);
    assert_eq!(ended.result, Err(IoError::os("send", Errno::CONNRESET)));
    let mut returning = ended.returned();
    assert!(poll(&mut returning).is_pending());
    assert!(matches!(pool.try_acquire(), Err(AcquireError::Exhausted { .. })));
    director.completes(key, Event::Notified { copied: false }, false);
    engine.turn(NOW).unwrap();
    assert!(ready(returning).buffers.into_lease().is_some());
    assert!(pool.try_acquire().is_ok());
}

#[test]
fn a_refused_zero_copy_send_is_done_with_a_copy() {
    for refusal in [Errno::NOMEM, Errno::OPNOTSUPP, Errno::INVAL] {
        let (mut engine, handle, director) = engine();
        let (pool, socket) = (pool(&mut engine, 1, 4096), socket());
        let send = handle.send(&socket, pool.try_acquire().unwrap());
        engine.turn(NOW).unwrap();
        let key = director.asked()[0].key();
        director.completes(key, Event::Done(Err(refusal)), true);
        engine.turn(NOW).unwrap();
        assert_eq!(director.asked(), [Asked::Send { key, bytes: 4096, zero_copy: false, linked: false }]);
        director.completes(key, Event::Done(Ok(4096)), false);
        engine.turn(NOW).unwrap();
        let ended = ready(send);
        assert_eq!(ended.result, Ok(4096));
        let mut returning = ended.returned();
        assert!(poll(&mut returning).is_pending(), "the first attempt's notification is still to come");
        director.completes(key, Event::Notified { copied: false }, false);
        engine.turn(NOW).unwrap();
        let returned = ready(returning);
        assert_eq!((returned.zero_copied, returned.copied), (0, 0));
        let statistics = handle.statistics();
        assert_eq!((statistics.zero_copied, statistics.copied, statistics.zero_copy_refused), (0, 0, 1));
        assert!(socket.copies());
    }
}

#[test]
fn what_is_dropped_keeps_its_memory_until_the_last_completion() {
    let (mut engine, handle, director) = engine();
    let (pool, socket) = (pool(&mut engine, 1, 4096), socket());
    let send = handle.send(&socket, pool.try_acquire().unwrap());
    engine.turn(NOW).unwrap();
    let key = director.asked()[0].key();
    drop(send);
    engine.turn(NOW).unwrap();
    assert_eq!(director.asked(), [Asked::Cancel(key)]);
    director.completes(key, Event::Done(Ok(1000)), true);
    engine.turn(NOW).unwrap();
    assert_eq!(director.asked(), [], "a part that was sent is not followed by the rest");
    assert!(pool.try_acquire().is_err());
    director.completes(key, Event::Notified { copied: true }, false);
    engine.turn(NOW).unwrap();
    assert!(pool.try_acquire().is_ok());
    assert_eq!(handle.in_flight(), 0);
}

#[test]
fn a_stream_that_nobody_empties_is_held_and_goes_on_when_emptied() {
    let (mut engine, handle, director) = engine();
    let region = region(&mut engine, 8, 64);
    let receive_pool = engine.pools.make(&mut *engine.backend, &engine.shared, &region).unwrap();
    let mut receive = handle.receive(&socket(), &receive_pool);
    engine.turn(NOW).unwrap();
    let key = director.asked()[0].key();
    // Eight buffers: two deliveries are the most that are kept.
    for _ in 0..2 {
        director.completes(key, Event::Data(receive_pool.pool().try_acquire().unwrap()), true);
    }
    engine.turn(NOW).unwrap();
    assert_eq!(director.asked(), [], "somebody may take them now");
    engine.turn(NOW).unwrap();
    assert_eq!(director.asked(), [Asked::Cancel(key)]);
    // One comes late, before the end.
    director.completes(key, Event::Data(receive_pool.pool().try_acquire().unwrap()), true);
    director.completes(key, Event::Done(Err(Errno::CANCELED)), false);
    engine.turn(NOW).unwrap();
    assert_eq!(director.asked(), []);
    for _ in 0..3 {
        let Received::Data(_) = ready(Box::pin(receive.delivery())).unwrap().unwrap() else {
            panic!("the end")
        };
    }
    engine.turn(NOW).unwrap();
    assert_eq!(director.asked(), [Asked::Receive(key)]);
    assert_eq!(handle.statistics().paused, 1);
}

#[test]
fn starved_receives_go_on_when_a_buffer_comes_back_and_only_then() {
    let (mut engine, handle, director) = engine();
    let region = region(&mut engine, 1, 64);
    let receive_pool = engine.pools.make(&mut *engine.backend, &engine.shared, &region).unwrap();
    let held = receive_pool.pool().try_acquire().unwrap();
    let mut receive = handle.receive(&socket(), &receive_pool);
    engine.turn(NOW).unwrap();
    let key = director.asked()[0].key();
    director.completes(key, Event::Starved, false);
    for _ in 0..3 {
        engine.turn(NOW).unwrap();
        assert_eq!(director.asked(), []);
    }
    std::thread::spawn(move || drop(held)).join().unwrap();
    engine.turn(NOW).unwrap();
    assert_eq!(director.asked(), [Asked::Receive(key)]);
    director.completes(key, Event::Done(Ok(0)), false);
    engine.turn(NOW).unwrap();
    assert!(matches!(ready(Box::pin(receive.delivery())), Some(Ok(Received::End))));
    assert!(ready(Box::pin(receive.delivery())).is_none());
    let statistics = handle.statistics();
    assert_eq!((statistics.starved, statistics.resumed), (1, 1));
}

#[test]
fn what_the_kernel_keeps_is_quarantined() {
    let (mut engine, handle, director) = engine();
    let (pool, socket) = (pool(&mut engine, 1, 64), socket());
    let receive = handle.receive_into(&socket, pool.try_acquire().unwrap());
    engine.turn(NOW).unwrap();
    assert_eq!(director.asked().len(), 1);
    // The back end never completes it.
    assert_eq!(engine.shut_down(std::time::Instant::now()), 1);
    let ended = ready(receive);
    assert!(matches!(ended.result, Err(IoError::ShutDown { .. })));
    assert!(ended.buffers.into_lease().is_none(), "the memory does not come back");
    assert!(pool.try_acquire().is_err(), "and nobody else gets it");
    assert_eq!(handle.statistics().quarantined, 1);
    let refused = ready(handle.receive_into(&socket, Vec::new()));
    assert!(matches!(refused.result, Err(IoError::ShutDown { .. })));
}

#[test]
fn a_sequence_ends_at_the_first_failure() {
    let (mut engine, handle, director) = engine();
    let (pool, socket) = (pool(&mut engine, 3, 64), socket());
    let mut sequence = handle.sequence();
    let [first, second, third] =
        [(); 3].map(|()| sequence.receive_into(&socket, pool.try_acquire().unwrap()));
    engine.turn(NOW).unwrap();
    assert_eq!(director.asked(), [], "nothing begins before it is started");
    sequence.start();
    engine.turn(NOW).unwrap();
    director.completes(director.asked()[0].key(), Event::Done(Ok(64)), false);
    engine.turn(NOW).unwrap();
    engine.turn(NOW).unwrap();
    director.completes(director.asked()[0].key(), Event::Done(Err(Errno::IO)), false);
    engine.turn(NOW).unwrap();
    assert_eq!(ready(first).result, Ok(64));
    assert_eq!(ready(second).result, Err(IoError::os("receive", Errno::IO)));
    let third = ready(third);
    assert!(matches!(third.result, Err(IoError::Cancelled { .. })));
    assert!(third.buffers.into_lease().is_some());
}

#[test]
fn after_a_shut_down_nothing_piles_up() {
    let (mut engine, handle, _) = engine();
    assert_eq!(engine.shut_down(std::time::Instant::now()), 0);
    for _ in 0..10 {
        assert!(matches!(ready(handle.nop()), Err(IoError::ShutDown { .. })));
    }
    assert_eq!(handle.shared.lock().commands.len(), 0, "nobody takes them any more");
}

#[test]
fn what_is_quarantined_goes_by_its_name() {
    let (mut engine, handle, director) = engine();
    let nobody_reads = handle.readable(&socket());
    engine.turn(NOW).unwrap();
    assert_eq!(director.asked().len(), 1);
    assert_eq!(engine.shut_down(std::time::Instant::now()), 1);
    assert_eq!(ready(nobody_reads), Err(IoError::ShutDown { operation: "wait for bytes" }));
}

#[test]
fn a_waker_that_panics_costs_no_other_its_call() {
    struct Panics;
    impl std::task::Wake for Panics {
        fn wake(self: std::sync::Arc<Self>) {
            panic!("as a test wants it");
        }
    }
    struct Counts(transload_core::Counter);
    impl std::task::Wake for Counts {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.add(1);
        }
    }
    let (mut engine, handle, director) = engine();
    let counts = std::sync::Arc::new(Counts(transload_core::Counter::new()));
    let mut nops = [(); 3].map(|()| handle.nop());
    for (nop, waker) in nops.iter_mut().zip([
        Waker::from(counts.clone()),
        Waker::from(std::sync::Arc::new(Panics)),
        Waker::from(counts.clone()),
    ]) {
        assert!(Pin::new(nop).poll(&mut Context::from_waker(&waker)).is_pending());
    }
    engine.turn(NOW).unwrap();
    for asked in director.asked() {
        director.completes(asked.key(), Event::Done(Ok(0)), false);
    }
    let turn = std::panic::AssertUnwindSafe(|| engine.turn(NOW));
    assert!(std::panic::catch_unwind(turn).is_err());
    engine.turn(NOW).unwrap();
    assert_eq!(counts.0.value(), 2);
}

#[test]
fn an_engine_that_is_not_shut_down_gives_no_memory_up() {
    let (mut engine, handle, director) = engine();
    // Memory of somebody else's: a region of the proactor's own would keep the table.
    let region = Region::new(slab(1, 64), Access::READ_WRITE, Registration::Pinned, Box::new(()));
    let (pool, socket) = (BufferPool::new(&region).unwrap(), socket());
    let receive = handle.receive_into(&socket, pool.try_acquire().unwrap());
    engine.turn(NOW).unwrap();
    assert_eq!(director.asked().len(), 1);
    // As when a waker panics in the middle of a shut-down: the kernel has the memory still.
    drop(engine);
    drop((receive, handle, director));
    assert!(matches!(pool.try_acquire(), Err(AcquireError::Exhausted { .. })));
}

#[test]
fn a_stream_that_fails_for_now_while_it_is_held_stays_held() {
    let (mut engine, handle, director) = engine();
    let mut accept = handle.accept(&socket());
    engine.turn(NOW).unwrap();
    let key = director.asked()[0].key();
    for _ in 0..64 {
        director.completes(key, Event::Accepted(UnixStream::pair().unwrap().0.into()), true);
    }
    engine.turn(NOW).unwrap();
    engine.turn(NOW).unwrap();
    assert_eq!(director.asked(), [Asked::Cancel(key)], "held: nobody takes the connections");
    director.completes(key, Event::Done(Err(Errno::CONNABORTED)), false);
    engine.turn(NOW).unwrap();
    assert_eq!(director.asked(), []);
    accept.cancel();
    engine.turn(NOW).unwrap();
    for _ in 0..64 {
        assert!(matches!(ready(Box::pin(accept.connection())), Some(Ok(_))));
    }
    assert!(matches!(ready(Box::pin(accept.connection())), Some(Err(IoError::Cancelled { .. }))));
}

#[test]
fn a_close_ends_when_what_it_waits_for_ends_without_the_kernel() {
    let (mut engine, handle, director) = engine();
    let socket = socket();
    let receive = handle.readable(&socket);
    engine.turn(NOW).unwrap();
    let key = director.asked()[0].key();
    let mut close = handle.close(socket.clone());
    engine.turn(NOW).unwrap();
    assert_eq!(director.asked(), [Asked::Cancel(key)]);
    // It comes behind the close, which waits for it, and has not begun, so nothing of it is in the kernel.
    let mut sequence = handle.sequence();
    let waits = sequence.send(&socket, Vec::new(), super::operation::ZeroCopy::Off);
    director.completes(key, Event::Done(Err(Errno::CANCELED)), false);
    engine.turn(NOW).unwrap();
    assert!(matches!(ready(receive), Err(IoError::Cancelled { .. })));
    engine.turn(None).unwrap();
    assert!(director.would_sleep() && poll(&mut close).is_pending());
    drop((sequence, waits));
    engine.turn(None).unwrap();
    assert!(!director.would_sleep(), "nobody would wake it");
    assert_eq!(ready(close), Ok(()));
}

#[test]
fn what_is_put_behind_a_cancelled_operation_is_cancelled_too() {
    for forgets_the_first in [false, true] {
        let (mut engine, handle, director) = engine();
        let (pool, socket) = (pool(&mut engine, 2, 64), socket());
        let mut sequence = handle.sequence();
        let mut first = Some(sequence.receive_into(&socket, pool.try_acquire().unwrap()));
        if forgets_the_first {
            first = None;
        } else if let Some(first) = &first {
            first.cancel();
        }
        engine.turn(NOW).unwrap();
        let second = sequence.receive_into(&socket, pool.try_acquire().unwrap());
        let third = sequence.fdatasync(&File::from(std::fs::File::open("/dev/null").unwrap()));
        sequence.start();
        engine.turn(NOW).unwrap();
        assert_eq!(ready(second).result, Err(IoError::Cancelled { operation: "receive" }));
        assert_eq!(ready(third), Err(IoError::Cancelled { operation: "fsync" }));
        assert_eq!(director.asked(), []);
        drop(first);
        let statistics = handle.statistics();
        assert_eq!(statistics.submitted, statistics.finished);
    }
}

#[test]
fn memory_is_used_only_for_what_it_was_registered_for() {
    let (mut engine, handle, director) = engine();
    let lease = |engine: &mut Engine, access: Access| {
        let region =
            register(&mut *engine.backend, &engine.shared, &slab(1, 64), access, Pinning::Required).unwrap();
        BufferPool::new(&region).unwrap().try_acquire().unwrap()
    };
    let (readable, writable) = (lease(&mut engine, Access::READ), lease(&mut engine, Access::WRITE));
    let socket = socket();
    let send = handle.send(&socket, writable);
    let receive = handle.receive_into(&socket, readable);
    engine.turn(NOW).unwrap();
    assert_eq!(director.asked(), [], "neither gets to the back end");
    let wrong = |operation, wanted, actual| Err(IoError::WrongAccess { operation, wanted, actual });
    let refused = ready(send);
    assert_eq!(refused.result, wrong("send", Access::READ, Access::WRITE));
    assert!(ready(refused.returned()).buffers.into_lease().is_some());
    let refused = ready(receive);
    assert_eq!(refused.result, wrong("receive", Access::WRITE, Access::READ));
    assert!(refused.buffers.into_lease().is_some());
}
