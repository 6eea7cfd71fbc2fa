//! The way that an operation takes, instruction by instruction, and how to come to a place on it fast.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use transload_core::SharedWord;

use crate::half_made;
use crate::operation::Operation;
use crate::scene::Scene;
use crate::trace::{Stop, Tracee, place_children_alike};
use crate::victim::Victim;

/// No operation has more steps than that.
const MOST: usize = 100_000;
/// How often a victim may begin anew that has lost its way.
const TRIES: usize = 5;

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
    /// Just before and just after each store to shared memory and each system call.
    events: BTreeSet<usize>,
}

/// Sees at which steps something happens that others can see.
struct Watch {
    words: Vec<u64>,
    /// The header of the region that the victim makes, if it makes one.
    header: Vec<u8>,
    made: Option<File>,
    is_call: HashMap<u64, bool>,
}

impl Path {
    /// Steps a victim through the whole operation.
    ///
    /// # Errors
    ///
    /// The kernel's; or the operation does not end.
    pub fn record(operation: Operation, victim: &Victim) -> io::Result<Path> {
        place_children_alike()?;
        let mut scene = Scene::new(operation);
        let mut tracee = scene.start(victim);
        let mut addresses = vec![tracee.address()?];
        let mut events = BTreeSet::new();
        let mut watch =
            Watch { words: Vec::new(), header: vec![0; 256], made: None, is_call: HashMap::new() };
        watch.has_stored(&scene);
        let mut disturbed_at = None;
        let mut is_to_disturb = scene.is_to_disturb();
        while addresses.len() < MOST {
            let at = addresses.len() - 1;
            let is_call = watch.is_call(&tracee, addresses[at])?;
            if is_call {
                events.extend([at, at + 1]);
            }
            match tracee.step()? {
                Stop::Step => {
                    addresses.push(tracee.address()?);
                    if watch.has_stored(&scene) || watch.has_written_header()? {
                        events.extend([at, at + 1]);
                    }
                    if is_call && operation == Operation::Create && watch.made.is_none() {
                        watch.made = half_made::files(tracee.pid(), &scene)?.pop();
                    }
                }
                Stop::Mark => {
                    // The call that it stops in may have counted as a step.
                    addresses.pop_if(|&mut last| Ok(last) == tracee.address().map_err(drop));
                    let free = free(&addresses, disturbed_at);
                    return Ok(Path { addresses, free, disturbed_at, events });
                }
                other => {
                    return Err(io::Error::other(format!("the victim does not come to its mark: {other:?}")));
                }
            }
            if is_to_disturb && scene.disturb() {
                is_to_disturb = false;
                disturbed_at = Some(addresses.len() - 1);
                watch.has_stored(&scene);
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

    /// Those just before and just after each store to shared memory and each system call, and the last.
    pub fn events(&self) -> impl Iterator<Item = usize> {
        let end = self.addresses.len();
        self.events.iter().copied().filter(move |&at| at < end).chain([end])
    }

    /// Whether the operation has returned after so many steps.
    pub fn has_ended(&self, point: usize) -> bool {
        point == self.addresses.len()
    }

    /// A scene with a victim that has gone so many steps.
    ///
    /// # Panics
    ///
    /// If it goes another way than the one that was recorded, several times over. Once it may: the time of day, which it
    /// reads without a system call, may be about to change.
    pub fn bring(&self, operation: Operation, victim: &Victim, point: usize) -> (Scene, Tracee) {
        let mut last = None;
        for _ in 0..TRIES {
            let mut scene = Scene::new(operation);
            let mut tracee = scene.start(victim);
            match self.walk(&mut scene, &mut tracee, point) {
                Ok(()) => return (scene, tracee),
                Err(error) => last = Some(error),
            }
        }
        panic!("{}: {last:?}", operation.name());
    }

    /// Lets a victim that stands at its mark go so many steps.
    fn walk(&self, scene: &mut Scene, tracee: &mut Tracee, point: usize) -> io::Result<()> {
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

impl Watch {
    /// Whether words have changed since the last call.
    fn has_stored(&mut self, scene: &Scene) -> bool {
        let words = scene.view().metadata();
        if words.iter().map(SharedWord::load).eq(self.words.iter().copied()) {
            return false;
        }
        self.words = words.iter().map(SharedWord::load).collect();
        true
    }

    /// Whether the header of the region that the victim makes has changed since the last call.
    fn has_written_header(&mut self) -> io::Result<bool> {
        let Some(file) = &self.made else { return Ok(false) };
        let mut header = vec![0; self.header.len()];
        // None of it is there before the file has its length.
        file.read_at(&mut header, 0)?;
        let before = std::mem::replace(&mut self.header, header);
        Ok(before != self.header)
    }

    /// Whether the instruction at an address is a system call.
    fn is_call(&mut self, tracee: &Tracee, address: u64) -> io::Result<bool> {
        const SYSCALL: libc::c_long = 0x050f;
        if let Some(&is_call) = self.is_call.get(&address) {
            return Ok(is_call);
        }
        let is_call = tracee.peek(address)? & 0xffff == SYSCALL;
        self.is_call.insert(address, is_call);
        Ok(is_call)
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
