//! Work that goes on for long needs no more memory than at its beginning.

use transload::device::{Device, StreamOptions};

use super::alone::{is_alone, run_alone};
use super::rig::{Rig, next};
use super::subject::Run;

const SUBMITS: usize = 100_000;

/// What a process may gain between a fifth of the submits and all of them: 52 bytes for each, far less than an event has.
pub const MOST_BYTES: usize = 4 << 20;

/// A hundred thousand uploads, four in flight, and each brought to its end. Alone, as other tests of the process would be
/// measured with it.
pub fn a_hundred_thousand_submits_take_no_memory(run: &Run) {
    if !is_alone() {
        let (status, said) = run_alone(run);
        assert!(status.success() && said.contains("1 passed"), "{said}");
        return;
    }
    let gained = gained(&*run.device(), || {});
    assert!(gained < MOST_BYTES, "{gained} bytes more after {SUBMITS} submits than after a fifth of them");
}

/// How much memory the process gains by most of the submits, with something else done at each. Here so that a device which
/// keeps something can be shown to be found out.
pub fn gained(device: &dyn Device, mut at_each: impl FnMut()) -> usize {
    let mut stream = device.open_stream(&StreamOptions { queue_bytes: 4096, in_flight: 4 }).unwrap();
    let mut rig = Rig::new(device, 64, 64);
    let mut at_first = 0;
    for number in 0..SUBMITS {
        if number == SUBMITS / 5 {
            at_first = resident_bytes();
        }
        if stream.in_flight() == 4 {
            drop(next(&mut *stream).expect_upload());
        }
        stream.submit(rig.upload(1 + number % 8, number % 3000).0).unwrap();
        at_each();
    }
    while stream.in_flight() > 0 {
        drop(next(&mut *stream).expect_upload());
    }
    resident_bytes().saturating_sub(at_first)
}

/// The memory of this process that is in use.
fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = statm.split_whitespace().nth(1).unwrap().parse().unwrap();
    pages * rustix::param::page_size()
}
