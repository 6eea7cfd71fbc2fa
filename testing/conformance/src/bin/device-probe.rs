//! Says which devices a back end has, or why there are none, and moves some bytes through each: a process of its own, so that
//! tests can give it another environment.

#![expect(clippy::print_stdout, reason = "what it says is what it is for")]

use transload::device::{StreamOptions, drivers};
use transload_conformance::device::{Rig, bring, finish};

fn main() {
    let name = std::env::args().nth(1).expect("the name of a back end");
    let driver = drivers().find(|driver| driver.backend().name() == name).expect("a back end of that name");
    let devices = match driver.probe() {
        Ok(devices) => devices,
        Err(error) => return println!("absent: {error}"),
    };
    for info in devices {
        let device = driver.open(info.index).expect("a device that was probed opens");
        assert_eq!(device.info(), &info);
        let mut rig = Rig::new(&*device, 8, 100);
        let mut stream =
            device.open_stream(&StreamOptions { queue_bytes: 800, in_flight: 1 }).expect("a stream");
        let (upload, bytes) = rig.upload(8, 0);
        stream.submit(upload).expect("it is free");
        finish(&mut *stream);
        assert!(bring(&*device, &mut *stream, 0..800) == bytes, "what landed is not what was sent");
        println!("{name}:{} {:?} {}", info.index, info.kind, info.name);
    }
    let beyond = driver.open(usize::MAX).expect_err("there are not so many");
    println!("{beyond}");
}
