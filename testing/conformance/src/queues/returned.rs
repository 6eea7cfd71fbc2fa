//! What comes back, and what is wrong with it.

use transload::pump::Report;

use super::subject::TURN;

/// What came back, by the numbers of the messages.
#[derive(Debug, Default)]
pub struct Returned {
    /// In the order in which they came.
    pub numbers: Vec<u32>,
    /// How many had other bytes than they should.
    pub spoilt: usize,
}

impl Returned {
    pub(super) fn note(&mut self, bytes: &[u8]) {
        let turned = bytes.iter().map(|byte| byte ^ TURN).collect::<Vec<_>>();
        let number = turned.first_chunk().map_or(u32::MAX, |number| u32::from_le_bytes(*number));
        if turned == message(number, bytes.len()) {
            self.numbers.push(number);
        } else {
            self.spoilt += 1;
        }
    }

    /// What is wrong if all of so many were to come, in any order, or in order.
    pub fn findings(&self, messages: u32, in_order: bool) -> Vec<&'static str> {
        let mut findings = Vec::new();
        let mut sorted = self.numbers.clone();
        sorted.sort_unstable();
        if self.spoilt > 0 {
            findings.push("a message came back with other bytes");
        }
        if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
            findings.push("a message came back twice");
        }
        sorted.dedup();
        if sorted.len() < messages as usize {
            findings.push("a message did not come back");
        }
        if in_order && !self.numbers.is_sorted() {
            findings.push("messages came back in another order");
        }
        findings
    }
}

/// A message of a number: that, and bytes that follow from it. The first is of zeros.
pub(super) fn message(number: u32, size: usize) -> Vec<u8> {
    let rest = (4..size).map(|at| (number as usize * 7 + number as usize * at).to_le_bytes()[0]);
    number.to_le_bytes().into_iter().chain(rest).collect()
}

/// What a report says that nobody wants to read of a pump that had no faults.
pub(super) fn unbalanced(report: &Report, messages: u64) -> Vec<&'static str> {
    let mut findings = Vec::new();
    if report.error.is_some() {
        findings.push("the pump ended with an error");
    }
    if report.accepted != report.delivered + report.dropped {
        findings.push("delivered and dropped are not what was accepted");
    }
    if (report.delivered, report.dropped) != (messages, 0) {
        findings.push("a message was not delivered");
    }
    if (report.returned, report.unreturned, report.untaken) != (messages, 0, 0) {
        findings.push("what was returned is counted wrongly");
    }
    findings
}
