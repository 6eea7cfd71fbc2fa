//! Courses in which nothing fails.

use transload::device::{Device, DeviceError, StreamOptions};
use transload::pump::{DeviceQueues, Pump, PumpError, PumpOptions};
use transload::staging::PinnedStagingBuffer;

use super::course::{Course, check};
use super::subject::Subject;
use crate::device::Random;

/// All messages come back, of several sizes, through queues of several, with the kernel side by side and alone.
pub fn everything_comes_back(subject: &Subject) {
    for message_size in [4, 24, 924, 4096] {
        for (inbound, outbound, work_items) in [(8, 8, 1), (1, 1, 1), (16, 4, 3), (2, 64, 64), (64, 32, 100)]
        {
            let small = Course::small();
            let course = Course { message_size, inbound, outbound, work_items, messages: 500, ..small };
            let findings = check(subject, course);
            assert!(findings.is_empty(), "{course:?}: {findings:?}");
        }
    }
}

/// The same, with sizes by chance.
pub fn sizes_by_chance(subject: &Subject) {
    let mut random = Random(5);
    for _ in 0..30 {
        let course = Course::by_chance(&mut random);
        let findings = check(subject, course);
        assert!(findings.is_empty(), "{course:?}: {findings:?}");
    }
}

/// Positions of 32 bits wrap on the way.
pub fn positions_wrap(subject: &Subject) {
    for before in [0, 1, 7, 50] {
        let course = Course { start: u32::MAX - before, work_items: 1, ..Course::small() };
        let findings = check(subject, course);
        assert!(findings.is_empty(), "{course:?}: {findings:?}");
    }
}

/// A stream of somebody's own, that takes few transfers at once: nobody starves.
pub fn few_transfers_at_once(subject: &Subject) {
    for in_flight in [1, 2, 3, 5] {
        let course = Course { in_flight: Some(in_flight), work_items: 1, ..Course::small() };
        let findings = check(subject, course);
        assert!(findings.is_empty(), "{course:?}: {findings:?}");
    }
    let options = StreamOptions { queue_bytes: 600, in_flight: 4 };
    let stream = subject.device.open_stream(&options).unwrap();
    let (_, feed) = PinnedStagingBuffer::new(16, 8).unwrap().split();
    let queues = DeviceQueues::new().on(stream).inbound(feed, 16);
    let refused = Pump::open_queues(&subject.device, queues, PumpOptions::default()).err();
    let is_short = matches!(
        refused,
        Some(PumpError::Device(DeviceError::OutOfQueue { offset: 0, len_bytes: 640, available: 600 }))
    );
    assert!(is_short, "{refused:?}");
}
