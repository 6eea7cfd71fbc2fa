//! A kernel runs over queues that were made by hand: each message comes out once, and nothing else changes.

use std::time::Duration;

use transload::device::{
    Device, DeviceError, Dispatch, Kernel, Refused, StreamOptions, Ticket, Transfer, Upload,
};

use super::example::Example;
use super::rig::{Rig, all_of, next};
use super::subject::{Gated, Run};
use super::two_queues::Start;
use crate::watchdog;

/// Transfers in flight: those that put messages into a queue, and a dispatch.
const IN_FLIGHT: usize = 8;

fn options(start: Start) -> StreamOptions {
    StreamOptions { queue_bytes: start.queue_bytes(), in_flight: IN_FLIGHT }
}

/// Builds `echo`, and says what is wrong with how it runs.
fn all_comes(run: &Run, start: Start, work_items: u32) {
    let device = run.device();
    let echo = device.build(&run.kernel(Example::Echo)).unwrap();
    let findings = findings(&*device, &echo, start, work_items);
    assert!(findings.is_empty(), "{start:?}, {work_items} work items: {findings:?}");
}

/// What is wrong with how a kernel brings all messages from one queue to the other, in as many dispatches as it takes:
/// nothing, for `echo`. Here so that broken kernels can be shown to be found out.
pub fn findings(device: &dyn Device, kernel: &Kernel, start: Start, work_items: u32) -> Vec<&'static str> {
    let mut stream = device.open_stream(&options(start)).unwrap();
    let mut queues = start.make(device, &mut *stream);
    for _ in 0..=start.messages {
        let findings = queues.run(device, &mut *stream, kernel, work_items);
        if !findings.is_empty() || queues.is_taken() {
            return findings;
        }
        queues.empty_outbound(&mut *stream);
    }
    vec!["messages were left that there was room for"]
}

/// Queues of all sizes, full, and at positions that wrap, in the queue and at 2^32; more work items than messages.
pub fn messages_go_from_queue_to_queue(run: &Run) {
    for message_size in [4, 24, 924] {
        for slots in [[1, 1], [8, 8], [16, 4], [4, 64]] {
            for position in [0, 5, u32::MAX - 2, u32::MAX] {
                let messages = u32::try_from(slots[0]).unwrap();
                let start = Start { message_size, slots, position, messages, ..Start::small() };
                all_comes(run, start, 100);
            }
        }
    }
}

/// Fewer work items than messages: each brings one at least. Marked slots are stepped over.
pub fn few_work_items(run: &Run) {
    for work_items in [1, 2, 5] {
        for marked in [false, true] {
            let start = Start { position: u32::MAX - 3, messages: 8, marked, ..Start::small() };
            all_comes(run, start, work_items);
        }
    }
}

/// No message is given that was not there.
pub fn an_empty_queue_gives_nothing(run: &Run) {
    for work_items in [1, 8, 1000] {
        for waiting in [0, 7, 8] {
            all_comes(run, Start { messages: 0, waiting, ..Start::small() }, work_items);
        }
    }
}

/// What has no room stays where it is, until there is some; what waits is not written over.
pub fn a_full_queue_loses_nothing(run: &Run) {
    for waiting in [8, 7, 3] {
        for position in [0, u32::MAX - 9] {
            let start = Start { position, messages: 8, waiting, ..Start::small() };
            all_comes(run, start, 1);
            all_comes(run, start, 100);
        }
    }
}

/// The dispatch comes back, and the reason.
fn refused(result: Result<Ticket, Refused<Dispatch>>, sent: Dispatch) -> DeviceError {
    let Refused { transfer, error } = result.expect_err("it must be refused");
    assert_eq!(transfer, sent);
    error
}

/// What cannot be dispatched is refused and changes nothing, and the stream goes on.
pub fn dispatches_that_cannot_be(run: &Run) {
    let (device, other) = (run.device(), run.device());
    let [echo, checksum] =
        [Example::Echo, Example::Checksum].map(|example| device.build(&run.kernel(example)).unwrap());
    let start = Start::small();
    let mut stream = device.open_stream(&options(start)).unwrap();
    let mut queues = start.make(&*device, &mut *stream);
    let before = all_of(&*device, &mut *stream);
    let good = queues.dispatch(8);

    let none = Dispatch { work_items: 0, ..good };
    let error = refused(stream.dispatch(&echo, none), none);
    assert!(matches!(error, DeviceError::ZeroOption { what: "work_items" }), "{error}");
    for offset in [1, 2, good.inbound + 3] {
        for odd in [Dispatch { inbound: offset, ..good }, Dispatch { outbound: offset, ..good }] {
            let error = refused(stream.dispatch(&echo, odd), odd);
            let is_told =
                matches!(error, DeviceError::Misaligned { offset: told, multiple: 4 } if told == offset);
            assert!(is_told, "{error}");
        }
    }
    for offset in [start.queue_bytes(), start.queue_bytes().next_multiple_of(4), 1 << 40, usize::MAX - 3] {
        for outside in [Dispatch { inbound: offset, ..good }, Dispatch { outbound: offset, ..good }] {
            let error = refused(stream.dispatch(&echo, outside), outside);
            let is_told = matches!(error, DeviceError::OutOfQueue { offset: told, .. } if told == offset);
            assert!(is_told, "{error}");
        }
    }
    // A function of this process is of no device.
    if run.name() != "host" {
        let foreign = other.build(&run.kernel(Example::Echo)).unwrap();
        let error = refused(stream.dispatch(&foreign, good), good);
        assert!(matches!(error, DeviceError::OtherKernel { .. }), "{error}");
    }
    // PTX does not say what a function is for.
    if run.name() != "cuda" {
        let error = refused(stream.dispatch(&checksum, good), good);
        assert!(matches!(&error, DeviceError::OtherKernel { entry, .. } if entry == "fnv1a"), "{error}");
    }
    assert_eq!(stream.in_flight(), 0);
    assert!(all_of(&*device, &mut *stream) == before);

    for _ in 0..IN_FLIGHT {
        stream.dispatch(&echo, good).unwrap();
    }
    let error = refused(stream.dispatch(&echo, good), good);
    assert!(matches!(error, DeviceError::Busy { limit: IN_FLIGHT }), "{error}");
    (0..IN_FLIGHT).for_each(|_| next(&mut *stream).result.unwrap());
    let after = all_of(&*device, &mut *stream);
    let findings = queues.findings(&before, &after, 8);
    assert!(findings.is_empty() && queues.is_taken(), "{findings:?}");
}

/// Behind a closed gate nothing ends; then the messages are there that were submitted before the dispatch, in the same
/// flight.
pub fn a_dispatch_takes_its_turn(run: &Run) {
    let start = Start { position: u32::MAX - 1, ..Start::small() };
    let Gated { device, mut stream, mut gate } = run.gated(start.queue_bytes(), IN_FLIGHT);
    let echo = device.build(&run.kernel(Example::Echo)).unwrap();
    let mut queues = start.make_empty(&*device, &mut *stream);
    let before = all_of(&*device, &mut *stream);
    gate.close();
    let in_flight = queues.send(&mut *stream, start.messages, false) + 1;
    assert_eq!(in_flight, 4, "messages up to the wrap and behind it, the tail, and the dispatch");
    stream.dispatch(&echo, queues.dispatch(8)).unwrap();
    assert!(stream.wait(Duration::from_millis(20)).is_none(), "a transfer has ended behind a closed gate");
    gate.open();
    for nth in 1..=in_flight {
        let done = next(&mut *stream);
        assert_eq!(done.result, Ok(()));
        assert_eq!(matches!(done.transfer, Transfer::Dispatch(_)), nth == in_flight);
    }
    // The messages came in between, and are not of the kernel's doing.
    let after = all_of(&*device, &mut *stream);
    let mut sent = before;
    queues.note_sent(&mut sent);
    let findings = queues.findings(&sent, &after, 8);
    assert!(findings.is_empty() && queues.is_taken(), "{findings:?}");
}

/// A stream is dropped with a dispatch in flight, and the gate opens a little later, or never: the drop ends, and what was
/// in flight with it comes back or is kept.
pub fn dropped_before_the_dispatch_is_done(run: &Run) {
    let start = Start::small();
    for opens in [true, false] {
        let Gated { device, mut stream, mut gate } = run.gated(start.queue_bytes(), IN_FLIGHT);
        let echo = device.build(&run.kernel(Example::Echo)).unwrap();
        let queues = start.make(&*device, &mut *stream);
        let mut rig = Rig::new(&*device, 8, 8);
        let (upload, _) = rig.upload(8, 0);
        gate.close();
        stream.dispatch(&echo, queues.dispatch(8)).unwrap();
        stream.submit(Upload::new(&rig.region, upload.into_payload(), 0)).unwrap();
        if opens {
            let opener = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(100));
                gate.open();
                gate
            });
            drop((stream, echo));
            assert!(watchdog::until(|| rig.is_free(8)), "the slots come back");
            drop(opener.join().unwrap());
        } else {
            drop((stream, echo, device));
            let quarantined = rig.producer.statistics().quarantined;
            assert!(quarantined == 8 || rig.producer.is_full(), "nobody uses what may still be read");
            gate.open();
        }
    }
}
