//! Courses in which calls are refused, transfers fail, devices are lost, and pumps are stopped.

use std::thread;
use std::time::Duration;

use transload::device::{CopyError, DeviceError};
use transload::pump::{PumpError, PumpStopper, Report};

use super::course::{Course, check};
use super::returned::Returned;
use super::subject::Subject;
use crate::device::Random;
use crate::faulty::Call;
use crate::watchdog::PATIENCE;

/// The calls that keep queues going.
const CALLS: [Call; 4] = [Call::Submit, Call::Fill, Call::Dispatch, Call::Fetch];

/// How many fills make two queues. Those are not tried again.
const MAKING: u64 = 14;

/// Each call is refused in turn, and each transfer fails in turn: all comes back all the same.
pub fn faults_lose_nothing(subject: &Subject) {
    let course = Course { messages: 60, work_items: 1, ..Course::small() };
    for nth in 0..25 {
        for call in CALLS {
            let making = if call == Call::Fill { MAKING } else { 0 };
            subject.faults.refuse(call, subject.faults.count(call) + making + nth);
            let findings = check(subject, course);
            assert!(findings.is_empty(), "{call:?} refused, the {nth}-th: {findings:?}");
            subject.faults.forget();
        }
    }
    let mut failures = 0;
    for nth in 0..120 {
        let failing = subject.faults.completions() + MAKING + nth;
        subject.faults.fail(failing);
        let findings = check(subject, course);
        assert!(findings.is_empty(), "completion {nth} failed: {findings:?}");
        failures += u32::from(subject.faults.completions() > failing);
        subject.faults.forget();
    }
    assert!(failures > 20, "no more than {failures} of the failures came to pass");
}

/// Transfers that fail are not tried again: messages get lost, and each is counted, or the pump ends with words.
pub fn what_is_given_up_is_counted(subject: &Subject) {
    let course = Course { messages: 60, retries: 0, ..Course::small() };
    let (mut dropped, mut unreturned, mut ended) = (0, 0, 0);
    for nth in 0..120 {
        subject.faults.fail(subject.faults.completions() + MAKING + nth);
        let (report, returned) = course.run(subject).unwrap();
        subject.faults.forget();
        counted(&report, &returned);
        match &report.error {
            None => assert_eq!(report.delivered + report.dropped, 60, "{nth}: {report:?}"),
            Some(PumpError::QueueFailed { reason, .. }) => {
                assert!(reason.contains("injected"), "{reason}");
                ended += 1;
            }
            Some(error) => panic!("{error}"),
        }
        dropped += u64::from(report.dropped > 0 && report.error.is_none());
        unreturned += u64::from(report.unreturned > 0 && report.error.is_none());
    }
    assert!(dropped > 0 && unreturned > 0 && ended > 0, "{dropped} {unreturned} {ended}");
}

/// Faults by chance, several in each course: all comes back if they are tried again often enough, and if they are not,
/// everything is counted.
pub fn faults_by_chance(subject: &Subject) {
    let mut random = Random(7);
    let mut ended = 0;
    for nth in 0..60 {
        let course = Course { messages: 150, ..Course::by_chance(&mut random) };
        let retries = if nth % 2 == 0 { 100 } else { u32::try_from(random.below(2)).unwrap() };
        let course = Course { retries, ..course };
        let one_in = 3 + random.below(if retries > 1 { 10 } else { 100 }) as u64;
        let completions = subject.faults.completions() + MAKING;
        (0..5000)
            .filter(|_| random.number().is_multiple_of(one_in))
            .for_each(|at| subject.faults.fail(completions + at));
        for call in CALLS {
            let calls = subject.faults.count(call) + MAKING;
            let refused = (0..2000).filter(|_| random.number().is_multiple_of(one_in * 2));
            refused.for_each(|at| subject.faults.refuse(call, calls + at));
        }
        if retries > 1 {
            let findings = check(subject, course);
            assert!(findings.is_empty(), "{course:?}: {findings:?}");
        } else {
            let (report, returned) = course.run(subject).unwrap();
            counted(&report, &returned);
            ended += u32::from(report.error.is_some());
        }
        subject.faults.forget();
    }
    assert!((1..30).contains(&ended), "{ended} of 30 ended with an error");
}

/// The pump is stopped or aborted at any moment: what has come back is whole, and everything is counted.
pub fn stopped_at_any_moment(subject: &Subject) {
    let mut random = Random(11);
    for nth in 0..60 {
        let course = Course { messages: u32::MAX, ..Course::by_chance(&mut random) };
        let wait = Duration::from_micros(random.below(3000) as u64);
        let stop = move |stopper: &PumpStopper| {
            thread::sleep(wait);
            match nth % 3 {
                0 => stopper.abort(),
                1 => stopper.stop(Duration::ZERO),
                _ => stopper.stop(PATIENCE),
            }
        };
        let (report, returned) = course.run_until(subject, stop).unwrap();
        assert!(report.error.is_none(), "{course:?}: {report:?}");
        assert_eq!(report.accepted, report.delivered + report.dropped, "{course:?}: {report:?}");
        assert_eq!(report.returned, returned.numbers.len() as u64, "{course:?}: {report:?}");
        let messages = u32::try_from(report.returned).unwrap();
        let findings = returned.findings(messages, subject.in_order && course.work_items == 1);
        assert!(findings.is_empty(), "{course:?}: {findings:?}");
        if nth % 3 == 2 {
            // There was time for everything.
            let rest = (report.dropped, report.unreturned, report.untaken);
            assert_eq!((report.returned, rest), (report.delivered, (0, 0, 0)), "{course:?}: {report:?}");
        }
    }
}

/// What holds however a pump over queues has ended.
fn counted(report: &Report, returned: &Returned) {
    assert_eq!(report.accepted, report.delivered + report.dropped, "{report:?}");
    assert_eq!(returned.spoilt, 0, "{report:?}");
    assert_eq!(report.returned, returned.numbers.len() as u64, "{report:?}");
    if report.error.is_none() {
        assert_eq!(report.delivered, report.returned + report.unreturned, "{report:?}");
    }
}

/// The device is lost in turn with each transfer: the pump ends, and what did not arrive is counted.
pub fn a_lost_device_ends_the_pump(make: impl Fn() -> Subject) {
    let mut losses = 0;
    for nth in MAKING..MAKING + 80 {
        let subject = make();
        subject.faults.lose(nth);
        let (report, returned) = Course { messages: 60, ..Course::small() }.run(&subject).unwrap();
        counted(&report, &returned);
        let is_lost = matches!(report.error, Some(PumpError::Device(DeviceError::Lost { .. })));
        assert_eq!(is_lost, subject.faults.completions() > nth, "{nth}: {report:?}");
        losses += u32::from(is_lost);
    }
    assert!(losses > 10, "no more than {losses} of the losses came to pass");
    let subject = make();
    subject.faults.fail(3);
    let refused = Course::small().open(&subject).err();
    let is_failed = matches!(refused, Some(PumpError::Device(DeviceError::Copy(CopyError::Failed { .. }))));
    assert!(is_failed, "{refused:?}");
}
