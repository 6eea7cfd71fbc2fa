//! The way that an operation takes, instruction by instruction, and how to come to a place on it fast.

use std::collections::HashSet;
use std::io;

use crate::operation::Operation;
use crate::scene::Scene;
use crate::trace::{Stop, Tracee, place_children_alike};

/// No operation has more steps than that.
const MOST: usize = 100_000;

/// The addresses of the instructions that an operation executes, recorded once. All runs take the same way: they begin in
/// the same state, and memory lies at the same addresses.
///
/// A step costs much more than an instruction. So a victim that is to stop at a place runs freely to an instruction that is
/// not executed before on the way, and is stepped from there on only.
#[derive(Debug)]
pub struct Path {
    /// Where the instruction is that follows so many steps.
    addresses: Vec<u64>,
    /// For so many steps, how many of them can be run freely.
    free: Vec<usize>,
    /// After how many steps others disturb the operation.
    disturbed_at: Option<usize>,
}

impl Path {
    /// Steps a victim through the whole operation.
    ///
    /// # Errors
    ///
    /// The kernel's; or the operation does not end.
    pub fn record(operation: Operation, victim: &str) -> io::Result<Path> {
        place_children_alike()?;
        let mut scene = Scene::new(operation);
        let mut tracee = scene.start(victim);
        let mut addresses = vec![tracee.address()?];
        let mut disturbed_at = None;
        let mut is_to_disturb = scene.is_to_disturb();
        while addresses.len() < MOST {
            match tracee.step()? {
                Stop::Step => addresses.push(tracee.address()?),
                Stop::Mark => {
                    let free = free(&addresses, disturbed_at);
                    return Ok(Path { addresses, free, disturbed_at });
                }
                other => {
                    return Err(io::Error::other(format!("the victim does not come to its mark: {other:?}")));
                }
            }
            if is_to_disturb && scene.disturb() {
                is_to_disturb = false;
                disturbed_at = Some(addresses.len() - 1);
            }
        }
        Err(io::Error::other("an operation without an end"))
    }

    /// The numbers of steps after which the victim stands at another instruction: one that repeats itself counts once.
    /// After the last one the operation has returned.
    pub fn points(&self) -> impl Iterator<Item = usize> {
        let is_other = |&at: &usize| at == 0 || self.addresses[at] != self.addresses[at - 1];
        (0..self.addresses.len()).filter(is_other).chain([self.addresses.len()])
    }

    /// Whether the operation has returned after so many steps.
    pub fn has_ended(&self, point: usize) -> bool {
        point == self.addresses.len()
    }

    /// Lets a victim that stands at its mark go so many steps.
    ///
    /// # Errors
    ///
    /// The kernel's; or the victim goes another way than the one that was recorded.
    pub fn walk(&self, scene: &mut Scene, tracee: &mut Tracee, point: usize) -> io::Result<()> {
        let mut from = 0;
        if let Some(at) = self.disturbed_at.filter(|&at| at <= point) {
            self.go(tracee, from, at)?;
            if !scene.disturb() {
                return Err(io::Error::other("the victim is not where others disturbed it"));
            }
            from = at;
        }
        if !self.has_ended(point) {
            return self.go(tracee, from, point);
        }
        match tracee.run_on()? {
            Stop::Mark => Ok(()),
            other => Err(io::Error::other(format!("the victim does not come to its mark: {other:?}"))),
        }
    }

    fn go(&self, tracee: &mut Tracee, from: usize, to: usize) -> io::Result<()> {
        let free = self.free[to];
        if free > from {
            tracee.run_to(self.addresses[free])?;
        }
        for at in free.max(from)..to {
            if tracee.step()? != Stop::Step {
                return Err(io::Error::other(format!("the victim stopped by itself after {at} steps")));
            }
        }
        let (actual, expected) = (tracee.address()?, self.addresses[to]);
        if actual == expected {
            return Ok(());
        }
        Err(io::Error::other(format!("after {to} steps the victim is at {actual:x}, not at {expected:x}")))
    }
}

/// The last place up to each at which an instruction comes for the first time, since the beginning or the disturbance.
fn free(addresses: &[u64], disturbed_at: Option<usize>) -> Vec<usize> {
    let mut seen = HashSet::new();
    let mut last = 0;
    let mut free = Vec::with_capacity(addresses.len());
    for (at, &address) in addresses.iter().enumerate() {
        if seen.insert(address) {
            last = at;
        }
        free.push(last);
        if disturbed_at == Some(at) {
            seen = HashSet::from([address]);
            last = at;
        }
    }
    free
}
