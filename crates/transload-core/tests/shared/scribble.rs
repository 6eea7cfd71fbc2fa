//! Memory that somebody scribbles over, between any two operations: no panic, no endless loop, and no member ever gets a
//! buffer that it has.

use super::kit::{Member, Memory, Notes};
use transload_core::{
    ClaimCursor, FullBarrier, Poisoned, SharedCount, SharedGrant, SharedNoGrant, SharedReader,
    SharedSendError, SharedTakeError, SharedTaken, Sleeper,
};

const BUFFERS: usize = 5;
const CELLS: usize = 4;
const MEMBERS: u16 = 3;
const SEEDS: u64 = 60;
const STEPS: usize = 8000;

/// Marsaglia's xorshift: the same at each run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, most: usize) -> usize {
        usize::try_from(self.roll() % most as u64).unwrap()
    }
}

/// One process, and what it has.
struct Process {
    member: Member,
    reader: SharedReader,
    notes: Notes,
    cursor: ClaimCursor,
    grants: Vec<SharedGrant>,
    batches: Vec<SharedTaken>,
}

/// How often what was found, to see that the test goes everywhere.
#[derive(Debug, Default)]
struct Found {
    claims: u32,
    sends: u32,
    messages: u32,
    full: u32,
    contended: u32,
    blocked: u32,
    poisoned: u32,
}

impl Process {
    fn new(memory: &Memory, number: u16) -> Self {
        let member = memory.member(number);
        Self {
            reader: member.reader(),
            member,
            notes: memory.notes(),
            cursor: ClaimCursor::new(number.into()),
            grants: Vec::new(),
            batches: Vec::new(),
        }
    }

    /// Each buffer that is in this member's hands, once.
    fn assert_once(&self) {
        let messages = self.batches.iter().flat_map(|taken| {
            (0..taken.count()).filter_map(|nth| self.member.message(&self.notes, taken, nth))
        });
        let mut had: Vec<_> = messages.map(|message| message.index).collect();
        had.extend(self.grants.iter().map(SharedGrant::index));
        let count = had.len();
        had.sort_unstable();
        had.dedup();
        assert_eq!(had.len(), count, "a buffer is in one member's hands twice");
        assert!(had.iter().all(|&index| (index as usize) < BUFFERS));
    }

    /// Does something.
    fn act(&mut self, dice: &mut Dice, memory: &Memory, found: &mut Found) -> Result<(), Poisoned> {
        match dice.below(12) {
            0..=2 => match self.member.claim(&self.cursor) {
                Ok(grant) => {
                    found.claims += 1;
                    self.grants.push(grant);
                }
                Err(SharedNoGrant::Poisoned(why)) => return Err(why),
                Err(_) => {}
            },
            3..=5 => {
                let Some(grant) = self.grants.pop() else { return Ok(()) };
                match self.member.send(grant, 7) {
                    Ok(_) => found.sends += 1,
                    Err(refused) => {
                        match refused.error {
                            SharedSendError::Poisoned(why) => return Err(why),
                            SharedSendError::Full => found.full += 1,
                            SharedSendError::Contended => found.contended += 1,
                        }
                        self.grants.push(refused.grant);
                    }
                }
            }
            6 | 7 => match self.member.take(&mut self.reader, &self.notes, 1 + dice.below(4)) {
                Ok(taken) => {
                    found.messages += u32::try_from(taken.count()).unwrap();
                    self.batches.push(taken);
                }
                Err(SharedTakeError::Poisoned(why)) => return Err(why),
                Err(SharedTakeError::Blocked { member }) => {
                    assert!((1..=MEMBERS).contains(&member), "blocked by nobody");
                    found.blocked += 1;
                }
                Err(SharedTakeError::Empty) => {}
            },
            8 | 9 => {
                let Some(mut taken) = self.batches.pop() else { return Ok(()) };
                match dice.below(4) {
                    0 => {
                        let kept = self.member.keep(&self.notes, &mut taken)?;
                        self.grants.extend(kept.map(|(grant, _)| grant));
                        self.batches.push(taken);
                    }
                    1 => {
                        self.member.lend_taken(&self.notes, &taken, dice.below(2) == 0)?;
                        self.batches.push(taken);
                    }
                    _ => drop(self.member.finish(&self.notes, taken)?),
                }
            }
            10 => {
                let Some(grant) = self.grants.pop() else { return Ok(()) };
                if dice.below(3) == 0 {
                    self.member.lend(&grant)?;
                    self.grants.push(grant);
                } else {
                    let _ = self.member.release(grant)?;
                }
            }
            _ => {
                let parts = memory.parts();
                let _ = parts.recover(u16::try_from(dice.below(6)).unwrap(), &FullBarrier);
                let _ = (parts.pending(), parts.holding(u32::try_from(dice.below(7)).unwrap()));
                parts.sleeper(Sleeper::Room).announce(&FullBarrier);
                self.reader = self.member.reader();
                let _ = self.member.is_ready(&self.reader)?;
            }
        }
        Ok(())
    }
}

/// Writes something somewhere.
fn scribble(dice: &mut Dice, memory: &Memory) {
    let all = [&memory.slots, &memory.cells, &memory.control, &memory.members];
    let any = |dice: &mut Dice| {
        let words = all[dice.below(all.len())];
        words[dice.below(words.len())].load()
    };
    let which = dice.below(8);
    let words = all[if which < 6 { which % 2 } else { which - 4 }];
    // The tail and the head are what matters among the control words.
    let place = if which == 6 { 16 * dice.below(2) } else { dice.below(words.len()) };
    let word = &words[place];
    let value = match dice.below(5) {
        0 => dice.roll(),
        1 => any(dice),
        2 => 0,
        3 => word.load().wrapping_add(1),
        _ => word.load() ^ 1 << dice.below(64),
    };
    word.store(value);
}

#[test]
fn nothing_that_somebody_scribbles_gives_a_buffer_twice() {
    let mut found = Found::default();
    let mut spoiled = 0;
    for seed in 1..=SEEDS {
        let memory = Memory::next_to_wrap(BUFFERS, CELLS, MEMBERS.into());
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut processes: Vec<_> = (1..=MEMBERS).map(|number| Process::new(&memory, number)).collect();
        for step in 0..STEPS {
            // Seldom in some runs, so that they get far; at each step in others.
            if step % usize::try_from(1 + seed % 30).unwrap() == 0 {
                scribble(&mut dice, &memory);
            }
            let which = dice.below(processes.len());
            let process = &mut processes[which];
            let outcome = process.act(&mut dice, &memory, &mut found);
            let check = process.member.check();
            // A take that has found messages before it tells them first.
            assert!(outcome.is_ok() || check.is_err(), "poison stays");
            if check.is_err() {
                found.poisoned += 1;
                let number = process.member.number();
                let _ = memory.recover(number);
                *process = Process::new(&memory, number);
            }
            process.assert_once();
        }
        spoiled += u64::from(memory.parts().count(SharedCount::Spoiled) != 0);
    }
    let Found { claims, sends, messages, full, contended, blocked, poisoned } = found;
    for count in [claims, sends, messages, full, contended, blocked, poisoned] {
        assert!(count > 100, "{found:?}");
    }
    assert!(spoiled > SEEDS / 2);
}
