//! Says which CUDA devices there are, and sends a batch to each: a process of its own, so that tests can give it another
//! environment.

#![expect(clippy::print_stdout, reason = "what it says is what it is for")]

use transload::device::{Driver, StreamOptions, cuda::Cuda};
use transload_conformance::device::{Rig, bring, finish};

fn main() {
    let devices = match Cuda.probe() {
        Ok(devices) => devices,
        Err(error) => return println!("absent: {error}"),
    };
    for info in devices {
        let device = Cuda.open(info.index).expect("a device that was probed opens");
        assert_eq!(device.info(), &info);
        let mut rig = Rig::new(&*device, 8, 100);
        let mut stream =
            device.open_stream(&StreamOptions { queue_bytes: 800, in_flight: 1 }).expect("a stream");
        let (upload, bytes) = rig.upload(8, 0);
        stream.submit(upload).expect("it is free");
        finish(&mut *stream);
        assert!(bring(&*device, &mut *stream, 0..800) == bytes, "what landed is not what was sent");
        println!("cuda:{} {:?} {}", info.index, info.kind, info.name);
    }
    let beyond = Cuda.open(usize::MAX).expect_err("there are not so many");
    println!("{beyond}");
}
