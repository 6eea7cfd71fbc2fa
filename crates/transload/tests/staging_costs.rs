//! What a message costs besides time: no allocation, no system call where nobody sleeps.
//!
//! Allocations are counted for each thread by the allocator of `counting`. System calls are not counted but forbidden:
//! the threads of a child process enter a seccomp filter that ends the process at the first one.
#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::similar_names,
    clippy::print_stdout,
    reason = "a test may panic and says when it cannot run; ping and pong"
)]

mod counting;
mod staging_kit;

use std::fs::File;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use counting::allocations;
use staging_kit::{LIMIT, block_on, ring, within_limit};
use transload::staging::{BatchSize, Consumer, DequeueError, PinnedStagingBuffer, Producer};
use transload_core::Flag;

const SIZE: usize = 24;

/// Sends by every way that does not wait; spins while there is no room.
fn send(producer: &Producer, messages: usize) {
    let bytes = [7; 5 * SIZE];
    let mut sent = 0;
    while sent < messages {
        sent += match sent % 5 {
            0 => usize::from(producer.try_enqueue(&bytes[..SIZE]).is_ok()),
            1 => producer.try_enqueue_batch(&bytes).unwrap_or(0),
            2 => match producer.try_reserve() {
                Ok(mut slot) => {
                    slot.fill(7);
                    slot.commit();
                    1
                }
                Err(_) => 0,
            },
            3 => match producer.try_reserve_batch(3) {
                Ok(mut slots) => {
                    let (first, second) = slots.as_mut_slices();
                    first.fill(7);
                    second.fill(7);
                    slots.commit_prefix(1);
                    1
                }
                Err(_) => 0,
            },
            _ => {
                drop(producer.try_reserve());
                let statistics = producer.statistics();
                std::hint::black_box((producer.len(), producer.is_full(), statistics.claimed));
                usize::from(producer.try_enqueue(&bytes[..SIZE]).is_ok())
            }
        };
        std::hint::spin_loop();
    }
}

/// Takes by every way that does not wait, until the ring is closed and drained.
fn receive(consumer: &mut Consumer, bytes: &mut [u8]) -> usize {
    let (mut received, mut turn) = (0, 0u32);
    let mut kept = None;
    loop {
        turn += 1;
        let outcome = match turn % 4 {
            0 => consumer.dequeue_batch(bytes, bytes.len() / SIZE),
            1 => consumer.take_contiguous(BatchSize::Balanced.messages()).map(|batch| batch.messages()),
            2 if turn.is_multiple_of(64) => Ok(usize::try_from(consumer.clear()).unwrap()),
            _ => consumer.take(BatchSize::LowLatency.messages()).map(|batch| {
                let count = batch.iter().filter(|message| message == &[7; SIZE]).count();
                kept = Some(batch);
                count
            }),
        };
        match outcome {
            Ok(count) => received += count,
            Err(DequeueError::Closed) => return received,
            Err(_) => {
                kept = None;
                std::hint::spin_loop();
            }
        }
    }
}

#[test]
fn no_call_allocates_after_construction() {
    const EACH: usize = 20_000;
    let (producer, mut consumer) = PinnedStagingBuffer::builder(256, SIZE)
        .sample_latency(true)
        .build()
        .expect("a small ring can be made")
        .split();
    let start = Arc::new(Barrier::new(4));
    let threads: Vec<_> = (0..3)
        .map(|_| {
            let (producer, start) = (producer.clone(), start.clone());
            thread::spawn(move || {
                start.wait();
                allocations(|| send(&producer, EACH))
            })
        })
        .collect();
    drop(producer);
    let mut bytes = vec![0; 64 * SIZE];
    let received = within_limit(move || {
        start.wait();
        let mut received = 0;
        let allocated = allocations(|| received = receive(&mut consumer, &mut bytes));
        assert_eq!(allocated, 0, "by the consumer");
        let statistics = consumer.statistics();
        assert_eq!(statistics.delivered + statistics.cleared, received as u64);
        assert_eq!(statistics.wake_ups, 0);
        received
    });
    for thread in threads {
        assert_eq!(within_limit(|| thread.join().unwrap()), 0, "by a producer");
    }
    assert!(received >= 3 * EACH);
}

#[test]
fn giving_a_batch_back_on_another_thread_allocates_nothing() {
    let (producer, mut consumer) = ring(8, SIZE);
    producer.try_enqueue(&[7; SIZE]).unwrap();
    let batch = consumer.take(1).unwrap();
    let thread = thread::spawn(move || allocations(|| drop(batch)));
    assert_eq!(within_limit(|| thread.join().unwrap()), 0);
}

#[test]
fn waiting_on_a_thread_allocates_at_most_once() {
    let (producer, mut consumer) = ring(2, SIZE);
    let nap = Duration::from_millis(1);
    let allocated = allocations(|| {
        for _ in 0..5 {
            assert_eq!(consumer.wait_timeout(nap), Ok(false));
        }
        producer.try_enqueue_batch(&[7; 2 * SIZE]).unwrap();
        for _ in 0..5 {
            assert!(producer.enqueue_timeout(&[7; SIZE], nap).is_err());
        }
    });
    // What a thread needs to sleep is made at its first sleep and kept.
    assert!(allocated <= 1, "{allocated}");
}

#[test]
fn the_counting_allocator_counts() {
    assert_eq!(
        allocations(|| drop(std::hint::black_box(vec![1u8]))),
        2,
        "one call to get it, one to give it back"
    );
    let (producer, _consumer) = ring(2, SIZE);
    producer.try_enqueue_batch(&[7; 2 * SIZE]).unwrap();
    producer.close();
    assert!(allocations(|| assert!(block_on(producer.enqueue_async(&[7; SIZE])).is_err())) > 0);
}

#[test]
fn a_busy_ping_pong_wakes_nobody() {
    const ROUNDS: u32 = 500;
    let (to_pong, mut at_pong) = ring(2, SIZE);
    let (to_ping, mut at_ping) = ring(2, SIZE);
    let pass = |producer: &Producer, consumer: &mut Consumer| {
        let mut bytes = [0; SIZE];
        while consumer.dequeue_batch(&mut bytes, 1) == Ok(0) {
            thread::yield_now();
        }
        producer.try_enqueue(&bytes).unwrap();
    };
    to_pong.try_enqueue(&[7; SIZE]).unwrap();
    let pong = thread::spawn(move || {
        (0..ROUNDS).for_each(|_| pass(&to_ping, &mut at_pong));
        (to_ping.statistics().wake_ups, at_pong.statistics().delivered, at_pong)
    });
    let ping = thread::spawn(move || {
        (0..ROUNDS).for_each(|_| pass(&to_pong, &mut at_ping));
        (to_pong.statistics().wake_ups, at_ping.statistics().delivered, at_ping)
    });
    let (one, two) = (within_limit(|| ping.join().unwrap()), within_limit(|| pong.join().unwrap()));
    assert_eq!((one.0, two.0), (0, 0));
    assert_eq!((one.1, two.1), (u64::from(ROUNDS), u64::from(ROUNDS)));
}

/// Says that a test cannot run here. The name is the test's own path; one line a test.
fn skip(name: &str, why: &str) {
    let line = format!("SKIPPED {name}: {why}\n");
    print!("{line}");
    if let Some(path) = std::env::var_os("TRANSLOAD_SKIPS") {
        let mut file = File::options().create(true).append(true).open(path).unwrap();
        file.write_all(line.as_bytes()).unwrap();
    }
}

/// From now on each system call of this thread but the one that ends it ends the process with SIGSYS. The strict mode
/// of seccomp would end the thread only, which then looks like one that hangs.
fn forbid_system_calls() -> bool {
    let statement =
        |code: u32, k: u32| libc::sock_filter { code: u16::try_from(code).unwrap(), jt: 0, jf: 0, k };
    let exit = u32::try_from(libc::SYS_exit).unwrap();
    let mut program = [
        // The number of the call is the first word.
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0),
        libc::sock_filter { jf: 1, ..statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, exit) },
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_KILL_PROCESS),
    ];
    let program = libc::sock_fprog { len: 4, filter: program.as_mut_ptr() };
    // SAFETY: sets a flag of this thread; the arguments are those that the call demands.
    if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
        return false;
    }
    // SAFETY: the program is complete and outlives the call, which copies it.
    unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) == 0 }
}

/// How the child says that the filter was refused, and that every thread came through: not as a runner does that found
/// no test of this name.
const CANNOT: i32 = 77;
const CAME_THROUGH: i32 = 42;

/// Runs each work on a thread that may make no system call, and ends this process, which says whether they all came
/// through. Never returns.
fn end_after(works: Vec<Box<dyn FnOnce() + Send>>) -> ! {
    let exit = |code| {
        // SAFETY: ends this process, whose threads own nothing that outlives it.
        unsafe { libc::_exit(code) }
    };
    let done: Vec<_> = works
        .into_iter()
        .map(|work| {
            let done = Arc::new(Flag::new());
            let raised = done.clone();
            thread::spawn(move || {
                if !forbid_system_calls() {
                    exit(CANNOT);
                }
                work();
                raised.raise();
                // SAFETY: ends this thread alone, with the one call that is allowed; its stack is never used again.
                unsafe { libc::syscall(libc::SYS_exit, 0) };
            });
            done
        })
        .collect();
    let end = Instant::now() + LIMIT;
    while !done.iter().all(|done| done.is_raised()) {
        if Instant::now() > end {
            exit(3);
        }
        thread::sleep(Duration::from_millis(1));
    }
    exit(CAME_THROUGH)
}

const CHILD: &str = "TRANSLOAD_TEST_NO_SYSTEM_CALLS";

/// Runs the test of this name once more, in a process of its own; nothing in that process.
fn in_a_child(name: &str) -> Option<ExitStatus> {
    if std::env::var_os(CHILD).is_some() {
        return None;
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    if output.status.code() == Some(CANNOT) {
        skip(&format!("staging_costs::{name}"), "seccomp filters are not allowed here");
    }
    Some(output.status)
}

fn could_run(status: ExitStatus) -> bool {
    status.code() != Some(CANNOT)
}

#[test]
fn no_call_makes_a_system_call_where_nobody_sleeps() {
    if let Some(status) = in_a_child("no_call_makes_a_system_call_where_nobody_sleeps") {
        assert!(!could_run(status) || status.code() == Some(CAME_THROUGH), "{status}");
        return;
    }
    let (producer, mut consumer) = ring(1024, SIZE);
    let mut works: Vec<Box<dyn FnOnce() + Send>> = Vec::new();
    let producers: Vec<Producer> = (0..2).map(|_| producer.clone()).collect();
    drop(producer);
    for producer in producers {
        works.push(Box::new(move || {
            send(&producer, 200_000);
            // The last one closes the ring, which wakes nobody either.
            drop(producer);
        }));
    }
    let mut bytes = vec![0; 64 * SIZE];
    works.push(Box::new(move || {
        assert!(receive(&mut consumer, &mut bytes) >= 400_000);
        // What it owns is unmapped when it goes, and that is a system call.
        let _never_dropped = std::mem::ManuallyDrop::new((consumer, bytes));
    }));
    end_after(works);
}

/// Twin: a consumer that sleeps does make system calls, and the harness sees it.
#[test]
fn a_sleeping_consumer_is_caught_making_a_system_call() {
    if let Some(status) = in_a_child("a_sleeping_consumer_is_caught_making_a_system_call") {
        assert!(!could_run(status) || status.signal() == Some(libc::SIGSYS), "{status}");
        return;
    }
    let (producer, mut consumer) = ring(4, SIZE);
    end_after(vec![Box::new(move || {
        let _ = consumer.wait_timeout(Duration::from_millis(1));
        let _never_dropped = std::mem::ManuallyDrop::new((producer, consumer));
    })]);
}

/// Twin: to wake one that sleeps is a system call of the producer.
#[test]
fn a_producer_is_caught_waking_a_sleeping_consumer() {
    if let Some(status) = in_a_child("a_producer_is_caught_waking_a_sleeping_consumer") {
        assert!(!could_run(status) || status.signal() == Some(libc::SIGSYS), "{status}");
        return;
    }
    let (producer, mut consumer) = ring(4, SIZE);
    thread::spawn(move || {
        while consumer.wait().is_ok() {
            consumer.clear();
        }
    });
    end_after(vec![Box::new(move || {
        // At one of these messages the other thread will be asleep.
        loop {
            if producer.is_empty() {
                producer.try_enqueue(&[7; SIZE]).unwrap();
            }
            (0..100_000).for_each(|_| std::hint::spin_loop());
        }
    })]);
}
