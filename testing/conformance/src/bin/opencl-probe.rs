//! Says which OpenCL devices there are, or why there are none, and moves some bytes through each: a process of its own,
//! so that tests can give it another environment. With `together` it feeds the first two from one slab at once.

#![expect(clippy::print_stdout, reason = "what it says is what it is for")]

use transload::device::{Driver, StreamOptions, opencl::OpenCl};
use transload_conformance::device::{Rig, bring, finish, together};
use transload_conformance::opencl::gated_on;

fn main() {
    if std::env::args().nth(1).is_some_and(|what| what == "together") {
        return fed_together();
    }
    let devices = match OpenCl.probe() {
        Ok(devices) => devices,
        Err(error) => return println!("absent: {error}"),
    };
    for info in devices {
        let device = OpenCl.open(info.index).expect("a device that was probed opens");
        assert_eq!(device.info(), &info);
        let mut rig = Rig::new(&*device, 8, 100);
        let mut stream =
            device.open_stream(&StreamOptions { queue_bytes: 800, in_flight: 1 }).expect("a stream");
        let (upload, bytes) = rig.upload(8, 0);
        stream.submit(upload).expect("it is free");
        finish(&mut *stream);
        assert!(bring(&*device, &mut *stream, 0..800) == bytes, "what landed is not what was sent");
        println!("opencl:{} {:?} {}", info.index, info.kind, info.name);
    }
    let beyond = OpenCl.open(usize::MAX).expect_err("there are not so many");
    println!("{beyond}");
}

/// Says what is wrong with how the first two devices treat one slab.
fn fed_together() {
    let options = StreamOptions { queue_bytes: together::QUEUE_BYTES, in_flight: together::IN_FLIGHT };
    let mut pair = [0, 1].map(|index| gated_on(index, &options).expect("two devices"));
    let indices = pair.each_ref().map(|gated| gated.device.info().index);
    println!("opencl:{} and opencl:{}: {:?}", indices[0], indices[1], together::findings(&mut pair));
}
