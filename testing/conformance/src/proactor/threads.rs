//! A proactor on a thread of its own, and handles on many.

use std::cell::RefCell;
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::Duration;

use transload::pool::BufferPool;
use transload::proactor::{IoError, Pending, Proactor, ProactorError};
use transload::region::{Access, RegisterError};

use super::pattern::{Checker, Pattern};
use super::rig::{Kind, lease, pair, read_checked, slab, wait_for, writer};
use super::subject::Run;

/// Its operations are awaited elsewhere.
pub fn a_thread_of_its_own(run: &Run) {
    const TOTAL: u64 = 500_000;
    let proactor = run.builder().spawn().unwrap();
    let handle = proactor.handle();
    let (ours, peer) = pair(Kind::Tcp);
    let peer = writer(peer, Pattern(120), TOTAL);
    wait_for(async {
        let region = handle.register_slab(&slab(4, 1000), Access::READ_WRITE).await.unwrap();
        let received = handle.register_slab(&slab(16, 3000), Access::WRITE).await.unwrap();
        let (pool, received) =
            (BufferPool::new(&region).unwrap(), handle.receive_pool(&received).await.unwrap());
        let (mut receive, mut checker) = (handle.receive(&ours, &received), Checker::new(Pattern(120)));
        while checker.seen() < TOTAL {
            match receive.delivery().await {
                Some(Ok(transload::proactor::Received::Data(lease))) => checker.feed(&lease),
                other => panic!("{other:?}"),
            }
        }
        let sent = handle.send(&ours, lease(&pool, Pattern(121), 0, 1000)).await;
        assert_eq!(sent.result, Ok(1000));
        drop(sent.returned().await);
        handle.timeout(Duration::from_millis(5)).await.unwrap();
    });
    read_checked(&mut peer.join().unwrap(), &mut Checker::new(Pattern(121)), 1000);
    let ended = proactor.shut_down(Duration::from_secs(10)).expect("its thread has not panicked");
    assert_eq!(ended.quarantined, 0);
    assert!(matches!(wait_for(handle.nop()), Err(IoError::ShutDown { .. })));
    drop(run.builder().spawn().unwrap());
}

/// Eight threads submit, each on a socket of its own and all to one proactor.
pub fn eight_threads_submit(run: &Run) {
    const EACH: u64 = 300;
    let proactor = run.builder().spawn().unwrap();
    let handle = proactor.handle();
    let region = wait_for(handle.register_slab(&slab(64, 1000), Access::READ_WRITE)).unwrap();
    let pool = BufferPool::new(&region).unwrap();
    thread::scope(|scope| {
        for index in 0..8 {
            let (handle, pool) = (&handle, &pool);
            scope.spawn(move || {
                let (ours, mut peer) = pair(if index % 2 == 0 { Kind::Tcp } else { Kind::Unix });
                let mut checker = Checker::new(Pattern(index));
                for turn in 0..EACH {
                    let mut bytes = wait_for(pool.acquire()).unwrap();
                    Pattern(index).fill(turn * 1000, &mut bytes);
                    let send = handle.send(&ours, bytes);
                    let nop = handle.nop();
                    assert_eq!(wait_for(send).result, Ok(1000));
                    wait_for(nop).unwrap();
                    read_checked(&mut peer, &mut checker, (turn + 1) * 1000);
                }
            });
        }
    });
    assert_eq!(proactor.shut_down(Duration::from_secs(10)).map(|ended| ended.quarantined), Some(0));
    assert_eq!(pool.available(), 64);
    let statistics = handle.statistics();
    assert_eq!(statistics.submitted, statistics.finished);
    assert_eq!(statistics.sent_bytes, 8 * EACH * 1000);
}

/// Ten thousand times there and back, each waking the other: none is lost.
pub fn no_wake_is_lost(run: &Run) {
    const ROUNDS: usize = 10_000;
    let proactor = run.builder().spawn().unwrap();
    let handle = proactor.handle();
    let region = wait_for(handle.register_slab(&slab(1, 8), Access::READ_WRITE)).unwrap();
    let pool = BufferPool::new(&region).unwrap();
    let (ours, mut peer) = pair(Kind::Unix);
    let echo = thread::spawn(move || {
        let mut message = [0; 8];
        for _ in 0..ROUNDS {
            peer.read_exact(&mut message).unwrap();
            peer.write_all(&message).unwrap();
        }
    });
    for round in 0..ROUNDS {
        let mut message = pool.try_acquire().unwrap();
        message.copy_from_slice(&round.to_ne_bytes());
        let sent = wait_for(handle.send(&ours, message));
        assert_eq!(sent.result, Ok(8));
        let mut back = wait_for(sent.returned()).buffers.into_lease().unwrap();
        back.fill(0);
        let received = wait_for(handle.receive_into(&ours, back));
        assert_eq!(received.result, Ok(8));
        assert_eq!(*received.buffers.into_lease().unwrap(), round.to_ne_bytes());
    }
    echo.join().unwrap();
}

/// Futures go from thread to thread, and are dropped there.
pub fn futures_travel(run: &Run) {
    let proactor = run.builder().spawn().unwrap();
    let handle = proactor.handle();
    let (sender, receiver) = channel::<Pending<Result<(), IoError>>>();
    let elsewhere = thread::spawn(move || {
        for (index, future) in receiver.iter().enumerate() {
            if index % 3 == 0 {
                drop(future);
            } else {
                wait_for(future).unwrap();
            }
        }
    });
    for _ in 0..1000 {
        sender.send(handle.nop()).unwrap();
    }
    drop(sender);
    elsewhere.join().unwrap();
    assert_eq!(proactor.shut_down(Duration::from_secs(10)).map(|ended| ended.quarantined), Some(0));
    assert_eq!(handle.in_flight(), 0);
}

thread_local! {
    static PROACTOR: RefCell<Option<Proactor>> = const { RefCell::new(None) };
    static ANSWERS: RefCell<Vec<(bool, bool, bool)>> = const { RefCell::new(Vec::new()) };
}

/// A waker that calls the proactor which wakes it.
struct CallsBack;

impl Wake for CallsBack {
    fn wake(self: Arc<Self>) {
        PROACTOR.with_borrow(|proactor| {
            let proactor = proactor.as_ref().unwrap();
            let deadlock = proactor.poll(Some(Duration::ZERO)).unwrap_err();
            let memory = slab(1, 64);
            let region = proactor.register_slab(&memory, Access::WRITE);
            let other = crate::host::subject();
            let device = (other.open)().unwrap();
            let pool = proactor.receive_pool(&device.register(&memory, Access::WRITE).unwrap());
            ANSWERS.with_borrow_mut(|answers| {
                answers.push((
                    deadlock.raw_os_error() == Some(libc::EDEADLK),
                    matches!(region, Err(RegisterError::Refused { .. })),
                    matches!(pool, Err(ProactorError::Pool { .. })),
                ));
            });
            // What is submitted from there is done all the same.
            drop(proactor.handle().nop());
        });
    }
}

/// It gets errors, and no panic.
pub fn a_waker_that_calls_back_gets_errors(run: &Run) {
    PROACTOR.set(Some(run.builder().build().unwrap()));
    let waker = Waker::from(Arc::new(CallsBack));
    let handle = PROACTOR.with_borrow(|proactor| proactor.as_ref().unwrap().handle());
    let mut nop = Box::pin(handle.nop());
    assert!(std::future::Future::poll(nop.as_mut(), &mut Context::from_waker(&waker)).is_pending());
    for _ in 0..20 {
        PROACTOR.with_borrow(|proactor| {
            proactor.as_ref().unwrap().poll(Some(Duration::from_millis(1))).unwrap();
        });
    }
    assert_eq!(ANSWERS.take(), [(true, true, true)]);
    assert_eq!(wait_for(nop), Ok(()));
    assert_eq!(handle.in_flight(), 0);
    drop(PROACTOR.take());
}
