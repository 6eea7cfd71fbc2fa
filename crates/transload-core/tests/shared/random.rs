//! Random operations of three members against the shadow. Some of them die, are recovered soon or late, and come again.

use super::kit::{LAST_LAP, Member, Memory, Notes};
use super::shadow::{Buffer, Find, Shadow, Stage};
use proptest::prelude::*;
use std::rc::Rc;
use transload_core::{
    ClaimCursor, SharedCount, SharedGrant, SharedNoGrant, SharedReader, SharedSendError, SharedTakeError,
    SharedTaken,
};

const MEMBERS: u16 = 3;

#[derive(Clone, Copy, Debug)]
enum Act {
    Claim,
    Send,
    Release,
    Lend(bool),
    Quarantine,
    Consume,
    Take(usize),
    Finish(usize),
    FinishInQuarantine,
    Keep,
    LendTaken(bool),
    PutBack,
    Die,
    Recover,
}

fn acts() -> impl Strategy<Value = Vec<(u16, Act)>> {
    let act = prop_oneof![
        10 => Just(Act::Claim),
        10 => Just(Act::Send),
        4 => Just(Act::Release),
        2 => any::<bool>().prop_map(Act::Lend),
        1 => Just(Act::Quarantine),
        6 => Just(Act::Consume),
        10 => (1_usize..5).prop_map(Act::Take),
        8 => (0_usize..4).prop_map(Act::Finish),
        1 => Just(Act::FinishInQuarantine),
        3 => Just(Act::Keep),
        1 => any::<bool>().prop_map(Act::LendTaken),
        1 => Just(Act::PutBack),
        3 => Just(Act::Die),
        4 => Just(Act::Recover),
    ];
    prop::collection::vec((1..=MEMBERS, act), 1..200)
}

/// One process.
struct Process {
    member: Member,
    /// Of the last time that it became the consumer.
    notes: Rc<Notes>,
    cursor: ClaimCursor,
    grants: Vec<SharedGrant>,
    batches: Vec<(Rc<Notes>, SharedTaken)>,
    alive: bool,
}

struct World {
    memory: Memory,
    shadow: Shadow,
    processes: Vec<Process>,
    /// Who has the consumer's part, its reader, and where it is.
    consumer: Option<(u16, SharedReader, u64)>,
    payloads: Vec<u32>,
    sent: u32,
    recoveries: u64,
}

impl World {
    fn new(buffers: usize, room: usize) -> Self {
        let memory = Memory::next_to_wrap(buffers, room, MEMBERS.into());
        let processes = (1..=MEMBERS).map(|number| Process::new(&memory, number)).collect();
        let shadow = Shadow::new(buffers, room, LAST_LAP * room as u64);
        let payloads = vec![0; buffers];
        Self { memory, shadow, processes, consumer: None, payloads, sent: 0, recoveries: 0 }
    }

    #[expect(clippy::too_many_lines, reason = "an arm for each operation")]
    fn act(&mut self, number: u16, act: Act) {
        let Self { memory, shadow, processes, consumer, payloads, .. } = self;
        let process = &mut processes[usize::from(number) - 1];
        if !process.alive {
            if let Act::Recover = act {
                assert_eq!(memory.recover(number), shadow.recover(number));
                self.recoveries += 1;
                *process = Process::new(memory, number);
            }
            return;
        }
        match act {
            Act::Claim => match process.member.claim(&process.cursor) {
                Ok(grant) => {
                    let buffer = &mut shadow.buffers[grant.index() as usize];
                    assert_eq!(*buffer, Buffer::Free);
                    *buffer = Buffer::Held { by: number, lent: false };
                    process.grants.push(grant);
                }
                Err(why) => assert_eq!((why, shadow.can_claim()), (SharedNoGrant::Exhausted, false)),
            },
            Act::Send => {
                let Some(grant) = process.grants.pop() else { return };
                let buffer = grant.index() as usize;
                self.sent += 1;
                match process.member.send(grant, self.sent) {
                    Ok(_) => {
                        assert!(shadow.can_send());
                        payloads[buffer] = self.sent;
                        shadow.send(buffer, self.sent);
                    }
                    Err(refused) => {
                        assert_eq!((refused.error, shadow.can_send()), (SharedSendError::Full, false));
                        process.grants.push(refused.grant);
                    }
                }
            }
            Act::Release | Act::Quarantine => {
                if process.grants.is_empty() {
                    return;
                }
                let grant = process.grants.remove(0);
                let buffer = grant.index() as usize;
                if let Act::Release = act {
                    let _ = process.member.release(grant).unwrap();
                    shadow.free(buffer);
                } else if shadow.buffers.iter().filter(|&&state| state == Buffer::Quarantined).count() < 2 {
                    process.member.quarantine(grant).unwrap();
                    shadow.retire(buffer);
                } else {
                    process.grants.push(grant);
                }
            }
            Act::Lend(lent) => {
                let Some(grant) = process.grants.last() else { return };
                let member = &process.member;
                if lent { member.lend(grant) } else { member.take_back(grant) }.unwrap();
                shadow.buffers[grant.index() as usize] = Buffer::Held { by: number, lent };
            }
            // The part is given up with batches in hand, too.
            Act::Consume => {
                process.notes = Rc::new(memory.notes());
                *consumer = Some((number, process.member.reader(), shadow.first));
            }
            Act::Take(max) => {
                let Some((_, reader, next)) = consumer.as_mut().filter(|consumer| consumer.0 == number)
                else {
                    return;
                };
                let taken = process.member.take(reader, &process.notes, max);
                match (taken, shadow.take(number, next, max)) {
                    (Ok(taken), Find::Run(first, run)) => {
                        assert_eq!((taken.first(), taken.count()), (first, run.len()));
                        for (nth, (index, value, redelivered)) in run.into_iter().enumerate() {
                            let message = process.member.message(&process.notes, &taken, nth).unwrap();
                            assert_eq!((message.index, message.len_bytes), (index, value));
                            assert_eq!(message.redelivered, redelivered);
                            assert_eq!(payloads[index as usize], value, "its own bytes");
                        }
                        process.batches.push((process.notes.clone(), taken));
                    }
                    (Err(SharedTakeError::Empty), Find::Empty) => {}
                    (Err(SharedTakeError::Blocked { member }), Find::Blocked(by)) => assert_eq!(member, by),
                    (actual, expected) => panic!("{actual:?} instead of {expected:?}"),
                }
            }
            Act::Finish(nth) => {
                if nth < process.batches.len() {
                    let (notes, taken) = process.batches.remove(nth);
                    for position in taken.first()..taken.first() + taken.count() as u64 {
                        let buffer = shadow.done(position);
                        shadow.free(buffer);
                    }
                    let _ = process.member.finish(&notes, taken).unwrap();
                }
            }
            Act::FinishInQuarantine => {
                if process.batches.last().is_some_and(|(_, taken)| taken.count() == 1) {
                    let (notes, taken) = process.batches.pop().unwrap();
                    let buffer = shadow.done(taken.first());
                    shadow.retire(buffer);
                    let _ = process.member.finish_in_quarantine(&notes, taken).unwrap();
                }
            }
            Act::Keep => {
                let Some((notes, taken)) = process.batches.last_mut() else { return };
                let position = taken.first();
                let Some((grant, _)) = process.member.keep(notes, taken).unwrap() else { return };
                let Stage::Taken { by, lent } = shadow.message(position).stage else { panic!("not taken") };
                assert_eq!((by, shadow.done(position)), (number, grant.index() as usize));
                shadow.buffers[grant.index() as usize] = Buffer::Held { by, lent };
                process.grants.push(grant);
            }
            Act::LendTaken(lent) => {
                let Some((notes, taken)) = process.batches.last() else { return };
                process.member.lend_taken(notes, taken, lent).unwrap();
                for position in taken.first()..taken.first() + taken.count() as u64 {
                    shadow.message(position).stage = Stage::Taken { by: number, lent };
                }
            }
            Act::PutBack => {
                let Some((notes, taken)) = process.batches.pop() else { return };
                for position in taken.first()..taken.first() + taken.count() as u64 {
                    shadow.put_back(position);
                }
                process.member.put_back(&notes, taken).unwrap();
            }
            Act::Die => {
                process.alive = false;
                if consumer.as_ref().is_some_and(|consumer| consumer.0 == number) {
                    *consumer = None;
                }
            }
            Act::Recover => {}
        }
    }

    /// All die and are recovered, and one of them takes what is left.
    fn end(mut self) {
        for number in 1..=MEMBERS {
            self.act(number, Act::Die);
            self.act(number, Act::Recover);
        }
        self.act(1, Act::Consume);
        while !self.shadow.ring.is_empty() {
            self.act(1, Act::Take(3));
            self.act(1, Act::Finish(0));
        }
        let parts = self.memory.parts();
        for (buffer, state) in self.shadow.buffers.iter().enumerate() {
            let holding = parts.holding(u32::try_from(buffer).unwrap());
            assert_eq!(holding.is_none(), *state == Buffer::Free, "buffer {buffer}: {holding:?}, {state:?}");
        }
        let counts = [
            (SharedCount::Redelivered, self.shadow.redelivered),
            (SharedCount::Spoiled, 0),
            (SharedCount::Recoveries, self.recoveries),
            (SharedCount::Reclaimed, self.shadow.recovered.freed),
            (SharedCount::Quarantined, self.shadow.retired),
        ];
        for (count, expected) in counts {
            assert_eq!(parts.count(count), expected, "{count:?}");
        }
        assert_eq!(parts.pending(), 0);
    }
}

impl Process {
    fn new(memory: &Memory, number: u16) -> Self {
        Self {
            member: memory.member(number),
            notes: Rc::new(memory.notes()),
            cursor: ClaimCursor::new(number.into()),
            grants: Vec::new(),
            batches: Vec::new(),
            alive: true,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn members_that_come_and_die_agree_with_the_shadow(
        buffers in 1_usize..8,
        room in prop::sample::select(vec![1_usize, 2, 4]),
        acts in acts(),
    ) {
        let mut world = World::new(buffers, room);
        for (number, act) in acts {
            world.act(number, act);
        }
        world.end();
    }
}
