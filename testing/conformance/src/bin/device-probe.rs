//! Says which devices a back end has, or why there are none, and sends a batch to each: a process of its own, so that tests can
//! give it another environment. With `keep` it ends with all of it alive; with `fork` it tries all of it in a child; with
//! `together` it feeds the first two devices of OpenCL from one slab at once.

#![expect(clippy::print_stdout, reason = "what it says is what it is for")]

use std::sync::Mutex;
use std::time::{Duration, Instant};

use transload::device::{Device, Driver, Stream, StreamOptions, drivers};
use transload::memory::Slab;
use transload::region::{Access, Region};
use transload_conformance::device::{Rig, bring, finish, together};
use transload_conformance::opencl::gated_on;

const OPTIONS: StreamOptions = StreamOptions { queue_bytes: 800, in_flight: 2 };

/// What is never dropped.
static KEPT: Mutex<Vec<All>> = Mutex::new(Vec::new());

#[derive(Debug)]
struct All {
    stream: Box<dyn Stream>,
    rig: Rig,
    region: Region,
    device: Box<dyn Device>,
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (name, what) = (arguments.next().expect("the name of a back end"), arguments.next());
    if what.as_deref() == Some("together") {
        return fed_together();
    }
    let driver = drivers().find(|driver| driver.backend().name() == name).expect("a back end of that name");
    let devices = match driver.probe() {
        Ok(devices) => devices,
        Err(error) => return println!("absent: {error}"),
    };
    for info in devices {
        let device = driver.open(info.index).expect("a device that was probed opens");
        assert_eq!(device.info(), &info);
        let mut rig = Rig::new(&*device, 8, 100);
        let mut stream = device.open_stream(&OPTIONS).expect("a stream");
        let (upload, bytes) = rig.upload(8, 0);
        stream.submit(upload).expect("it is free");
        finish(&mut *stream);
        assert!(bring(&*device, &mut *stream, 0..800) == bytes, "what landed is not what was sent");
        println!("{name}:{} {:?} {}", info.index, info.kind, info.name);
        let slab = device.allocate_slab(8, 100).expect("a slab");
        let region = device.register(&slab, Access::READ_WRITE).expect("a region");
        let mut all = All { stream, rig, region, device };
        all.stream.submit(all.rig.upload(4, 0).0).expect("it is free");
        match what.as_deref() {
            Some("keep") => KEPT.lock().expect("nobody panics").push(all),
            Some("fork") => forked(driver, all),
            _ => finish(&mut *all.stream),
        }
    }
    let beyond = driver.open(usize::MAX).expect_err("there are not so many");
    println!("{beyond}");
}

/// The parent goes on as before; the child is told why it cannot, at once.
fn forked(driver: &dyn Driver, mut all: All) {
    // SAFETY: the child uses what it has, and ends by `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: sets a timer that ends this process.
        unsafe { libc::alarm(20) };
        let told = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| in_child(driver, all)));
        // SAFETY: ends this process without running what belongs to the parent.
        unsafe { libc::_exit(i32::from(told.is_err())) };
    }
    let mut status = 0;
    // SAFETY: the child is ours; the place of a number.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "the child was told what it should be");
    finish(&mut *all.stream);
    all.stream.submit(all.rig.upload(8, 0).0).expect("it is free");
    finish(&mut *all.stream);
    println!("the child was told");
}

fn in_child(driver: &dyn Driver, mut all: All) {
    let is_told = |error: &dyn std::fmt::Display| assert!(error.to_string().contains("forked"), "{error}");
    is_told(&driver.probe().expect_err("a child"));
    is_told(&driver.open(0).expect_err("a child"));
    is_told(&all.device.open_stream(&OPTIONS).expect_err("a child"));
    is_told(&all.device.allocate_slab(1, 1).expect_err("a child"));
    let slab = Slab::new(1, 1).expect("memory");
    is_told(&all.device.register(&slab, Access::READ).expect_err("a child"));
    let started = Instant::now();
    assert!(all.stream.poll().is_none());
    assert!(all.stream.wait(Duration::from_secs(30)).is_none());
    let fill = transload::device::Fill { range: 0..4, word: 0 };
    is_told(&all.stream.fill(fill).expect_err("a child").error);
    drop(all.region);
    drop(all.stream);
    drop(all.device);
    assert!(started.elapsed() < Duration::from_secs(10), "nothing was waited for");
}

/// Says what is wrong with how the first two devices of OpenCL treat one slab.
fn fed_together() {
    let options = StreamOptions { queue_bytes: together::QUEUE_BYTES, in_flight: together::IN_FLIGHT };
    let mut pair = [0, 1].map(|index| gated_on(index, &options).expect("two devices"));
    let indices = pair.each_ref().map(|gated| gated.device.info().index);
    println!("opencl:{} and opencl:{}: {:?}", indices[0], indices[1], together::findings(&mut pair));
}
