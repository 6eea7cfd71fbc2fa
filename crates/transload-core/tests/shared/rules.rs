//! Each rule once.

use super::kit::{LAST_LAP, LAST_TAG, Member, Memory, Notes};
use transload_core::{
    ClaimCursor, FullBarrier, Holding, Poisoned, Recovered, SharedCount, SharedGrant, SharedMessage,
    SharedNoGrant, SharedReader, SharedSendError, SharedTakeError, SharedTaken, Sleeper, SlotState,
};

/// Where the head is among the control words.
const HEAD: usize = 16;
const FREED: fn(u64) -> Recovered = |freed| Recovered { freed, ..Recovered::default() };

fn claim(member: &Member) -> SharedGrant {
    member.claim(&ClaimCursor::new(0)).unwrap()
}

fn send(member: &Member, len: u32) -> u32 {
    let grant = claim(member);
    let index = grant.index();
    member.send(grant, len).unwrap();
    index
}

/// A consumer, as one process has it.
struct Consumer {
    member: Member,
    reader: SharedReader,
    notes: Notes,
}

impl Consumer {
    fn new(memory: &Memory, number: u16) -> Self {
        let member = memory.member(number);
        let reader = member.reader();
        Self { member, reader, notes: memory.notes() }
    }

    fn take(&mut self, max: usize) -> Result<SharedTaken, SharedTakeError> {
        self.member.take(&mut self.reader, &self.notes, max)
    }

    fn message(&self, taken: &SharedTaken, nth: usize) -> Option<SharedMessage> {
        self.member.message(&self.notes, taken, nth)
    }

    /// The lengths of all messages that can be taken, which are then done; and whether they were taken before.
    fn drain(&mut self) -> Vec<(u32, bool)> {
        let mut drained = Vec::new();
        while let Ok(taken) = self.take(usize::MAX) {
            for nth in 0..taken.count() {
                let message = self.message(&taken, nth).unwrap();
                drained.push((message.len_bytes, message.redelivered));
            }
            self.finish(taken);
        }
        drained
    }

    fn finish(&self, taken: SharedTaken) {
        let _ = self.member.finish(&self.notes, taken).unwrap();
    }
}

fn assert_free(memory: &Memory) {
    let parts = memory.parts();
    for index in 0..u32::try_from(parts.buffers()).unwrap() {
        assert_eq!(parts.holding(index), None, "buffer {index}");
    }
    assert_eq!(parts.pending(), 0);
}

#[test]
fn a_message_goes_round() {
    let memory = Memory::new(2, 2, 2);
    let producer = memory.member(1);
    let mut consumer = Consumer::new(&memory, 2);
    let parts = memory.parts();
    let held = |member, state| Some(Holding { member, state });

    assert_eq!(consumer.take(8).unwrap_err(), SharedTakeError::Empty);
    assert_eq!(consumer.member.is_ready(&consumer.reader), Ok(false));
    let grant = claim(&producer);
    let index = grant.index();
    assert_eq!(parts.holding(index), held(1, SlotState::Owned));
    producer.lend(&grant).unwrap();
    assert_eq!(parts.holding(index), held(1, SlotState::Lent));
    producer.take_back(&grant).unwrap();
    producer.send(grant, 100).unwrap();
    assert_eq!((parts.holding(index), parts.pending()), (held(1, SlotState::Sent), 1));

    assert_eq!(consumer.member.is_ready(&consumer.reader), Ok(true));
    let taken = consumer.take(8).unwrap();
    assert_eq!((taken.first(), taken.count(), parts.pending()), (0, 1, 1));
    let message = SharedMessage { index, len_bytes: 100, redelivered: false };
    assert_eq!((consumer.message(&taken, 0), consumer.message(&taken, 1)), (Some(message), None));
    assert_eq!(parts.holding(index), held(2, SlotState::Owned));
    consumer.finish(taken);
    assert_free(&memory);
}

#[test]
fn exhausted_and_full_are_said_and_end() {
    let memory = Memory::next_to_wrap(3, 2, 1);
    let mut consumer = Consumer::new(&memory, 1);
    let cursor = ClaimCursor::new(7);
    let grants: Vec<_> = (0..3).map(|_| consumer.member.claim(&cursor).unwrap()).collect();
    for _ in 0..2 {
        // The second time without a look.
        assert_eq!(consumer.member.claim(&cursor).unwrap_err(), SharedNoGrant::Exhausted);
    }
    for (nth, grant) in grants.into_iter().enumerate() {
        if nth < 2 {
            consumer.member.send(grant, 1).unwrap();
        } else {
            let refused = consumer.member.send(grant, 1).unwrap_err();
            assert_eq!(refused.error, SharedSendError::Full);
            consumer.member.release(refused.grant).unwrap();
        }
    }
    let grant = consumer.member.claim(&cursor).unwrap();
    let taken = consumer.take(1).unwrap();
    // Taken is not done.
    let refused = consumer.member.send(grant, 1).unwrap_err();
    assert_eq!(refused.error, SharedSendError::Full);
    consumer.finish(taken);
    consumer.member.send(refused.grant, 2).unwrap();
    assert_eq!(consumer.drain(), [(1, false), (2, false)]);
    assert_free(&memory);
}

#[test]
fn laps_tags_and_positions_wrap() {
    for (lap, tag) in [(LAST_LAP, LAST_TAG), (u64::MAX >> 1, LAST_TAG - 1), (u64::MAX, 0)] {
        let memory = Memory::new(2, 2, 2);
        memory.parts().start_at(lap, tag);
        let producer = memory.member(1);
        let mut consumer = Consumer::new(&memory, 2);
        for len in 0..20 {
            let grants = [claim(&producer), claim(&producer)];
            for grant in grants {
                producer.send(grant, len).unwrap();
            }
            let refused = producer.claim(&ClaimCursor::new(1)).unwrap_err();
            assert_eq!(refused, SharedNoGrant::Exhausted);
            assert_eq!((consumer.drain(), memory.parts().pending()), (vec![(len, false); 2], 0));
        }
        assert_free(&memory);
    }
}

#[test]
fn what_the_dead_had_is_free_again() {
    let memory = Memory::next_to_wrap(4, 4, 2);
    let dead = memory.member(1);
    let _held = claim(&dead);
    let sent = send(&dead, 9);
    let lent = claim(&dead);
    dead.lend(&lent).unwrap();
    let live = memory.member(2);
    let kept = claim(&live);
    assert_eq!(memory.recover(1), Recovered { freed: 1, put_back: 0, quarantined: 1 });
    assert_eq!(memory.recover(1), Recovered::default(), "once");
    let parts = memory.parts();
    assert_eq!(parts.holding(sent).unwrap().state, SlotState::Sent, "a whole message outlives its sender");
    assert_eq!(parts.holding(lent.index()).unwrap().state, SlotState::Quarantined);
    live.release(kept).unwrap();
    let counts = [SharedCount::Recoveries, SharedCount::Reclaimed, SharedCount::Quarantined];
    assert_eq!(counts.map(|count| parts.count(count)), [2, 1, 1]);
    assert_eq!(Consumer::new(&memory, 2).drain(), [(9, false)]);
}

#[test]
fn what_a_recovery_frees_is_found_by_whoever_had_found_nothing() {
    let memory = Memory::new(1, 1, 2);
    let (dead, live) = (memory.member(1), memory.member(2));
    let _held = claim(&dead);
    let cursor = ClaimCursor::new(0);
    assert_eq!(live.claim(&cursor).unwrap_err(), SharedNoGrant::Exhausted);
    assert_eq!(memory.recover(1), FREED(1));
    assert_eq!(live.claim(&cursor).unwrap().index(), 0);
}

#[test]
fn what_a_dead_consumer_had_is_delivered_once_more() {
    let memory = Memory::next_to_wrap(4, 4, 3);
    let producer = memory.member(1);
    for len in 1..=4 {
        send(&producer, len);
    }
    let mut dead = Consumer::new(&memory, 2);
    let (first, second, third) = (dead.take(1).unwrap(), dead.take(1).unwrap(), dead.take(1).unwrap());
    dead.finish(second);
    let mut next = Consumer::new(&memory, 3);
    assert_eq!(next.take(8).unwrap_err(), SharedTakeError::Blocked { member: 2 });
    // The second is done: only its buffer was given back, its place is not free before the first is done.
    assert_eq!(producer.send(claim(&producer), 5).unwrap_err().error, SharedSendError::Full);
    assert_eq!(memory.recover(1), FREED(1));
    assert_eq!(memory.recover(2), Recovered { put_back: 2, ..Recovered::default() });
    assert_eq!(next.drain(), [(1, true), (3, true), (4, false)]);
    assert_eq!(memory.parts().count(SharedCount::Redelivered), 2);
    assert_free(&memory);
    drop((first, third));
}

#[test]
fn a_message_can_outlive_several_consumers() {
    let memory = Memory::next_to_wrap(2, 2, 3);
    send(&memory.member(1), 7);
    for number in [2, 3, 2, 3] {
        let taken = Consumer::new(&memory, number).take(2).unwrap();
        assert_eq!(taken.count(), 1);
        assert_eq!(memory.recover(number), Recovered { put_back: 1, ..Recovered::default() });
    }
    assert_eq!(Consumer::new(&memory, 2).drain(), [(7, true)]);
    assert_eq!(memory.parts().count(SharedCount::Redelivered), 4);
    assert_free(&memory);
}

#[test]
fn a_message_that_was_lent_is_delivered_and_its_buffer_quarantined() {
    let memory = Memory::new(2, 2, 2);
    send(&memory.member(1), 5);
    let dead = {
        let mut dead = Consumer::new(&memory, 2);
        let taken = dead.take(1).unwrap();
        dead.member.lend_taken(&dead.notes, &taken, true).unwrap();
        (dead, taken)
    };
    assert_eq!(memory.recover(2), Recovered { put_back: 1, ..Recovered::default() });
    drop(dead);
    let mut next = Consumer::new(&memory, 2);
    let mut taken = next.take(1).unwrap();
    let message = next.message(&taken, 0).unwrap();
    assert_eq!((message.len_bytes, message.redelivered), (5, true));
    // Kept, sent and taken once more: the taint stays.
    let (grant, _) = next.member.keep(&next.notes, &mut taken).unwrap().unwrap();
    assert_eq!((taken.count(), next.member.keep(&next.notes, &mut taken).unwrap().is_none()), (0, true));
    next.member.send(grant, 6).unwrap();
    assert_eq!(next.drain(), [(6, false)]);
    let holding = memory.parts().holding(message.index).unwrap();
    assert_eq!(holding, Holding { member: 0, state: SlotState::Quarantined });
    assert_eq!(memory.parts().count(SharedCount::Quarantined), 1);
    let left = claim(&next.member);
    assert_ne!(left.index(), message.index);
    assert_eq!(next.member.claim(&ClaimCursor::new(0)).unwrap_err(), SharedNoGrant::Exhausted);
}

#[test]
fn a_quarantined_buffer_never_comes_back() {
    let memory = Memory::new(3, 2, 2);
    let mut consumer = Consumer::new(&memory, 1);
    send(&consumer.member, 1);
    let taken = consumer.take(1).unwrap();
    let _ = consumer.member.finish_in_quarantine(&consumer.notes, taken).unwrap();
    consumer.member.quarantine(claim(&consumer.member)).unwrap();
    assert_eq!(memory.recover(1), Recovered::default());
    assert_eq!(memory.parts().count(SharedCount::Quarantined), 2);
    let _left = claim(&memory.member(2));
    assert_eq!(memory.member(2).claim(&ClaimCursor::new(0)).unwrap_err(), SharedNoGrant::Exhausted);
    assert_eq!(memory.parts().pending(), 0);
}

#[test]
fn what_was_kept_is_not_delivered_again() {
    let memory = Memory::new(2, 2, 2);
    let producer = memory.member(1);
    send(&producer, 1);
    send(&producer, 2);
    let mut dead = Consumer::new(&memory, 2);
    let mut taken = dead.take(2).unwrap();
    let kept = dead.member.keep(&dead.notes, &mut taken).unwrap().unwrap().0;
    assert_eq!((kept.index(), taken.first(), taken.count()), (0, 1, 1));
    assert_eq!(memory.recover(2), Recovered { freed: 1, put_back: 1, quarantined: 0 });
    assert_eq!(Consumer::new(&memory, 2).drain(), [(2, true)]);
    assert_free(&memory);
}

#[test]
fn a_head_that_lags_costs_no_message() {
    for laps in [0, 1, 2, 5] {
        for extra in 0..=4 {
            let memory = Memory::next_to_wrap(4, 4, 1);
            let mut consumer = Consumer::new(&memory, 1);
            let head = memory.control[HEAD].load();
            for _ in 0..=laps * 4 {
                send(&consumer.member, 0);
                assert_eq!(consumer.drain(), [(0, false)]);
            }
            for len in 0..extra {
                send(&consumer.member, len);
            }
            assert_ne!(memory.control[HEAD].load(), head, "what this test sets back");
            memory.control[HEAD].store(head);
            let mut next = Consumer::new(&memory, 1);
            assert_eq!(next.drain(), (0..extra).map(|len| (len, false)).collect::<Vec<_>>(), "{laps} laps");
            assert_free(&memory);
        }
    }
}

#[test]
fn a_member_that_is_the_consumer_again_does_not_lose_what_it_has() {
    let memory = Memory::new(2, 2, 1);
    let mut first = Consumer::new(&memory, 1);
    send(&first.member, 1);
    let taken = first.take(1).unwrap();
    // The same member, with the same private words.
    let mut reader = first.member.reader();
    let notes = memory.notes();
    let blocked = first.member.take(&mut reader, &notes, 1).unwrap_err();
    assert_eq!(blocked, SharedTakeError::Blocked { member: 1 });
    first.finish(taken);
    send(&first.member, 2);
    let taken = first.member.take(&mut reader, &notes, 2).unwrap();
    assert_eq!((taken.count(), first.member.message(&notes, &taken, 0).unwrap().len_bytes), (1, 2));
    let _ = first.member.finish(&notes, taken).unwrap();
    assert_free(&memory);
}

#[test]
fn cells_that_name_nothing_are_passed_and_counted() {
    let memory = Memory::new(2, 2, 2);
    let mut consumer = Consumer::new(&memory, 2);
    let producer = memory.member(1);
    // A buffer that there is not; one that is free; one whose owner there cannot be.
    let cell = |position: usize, word: u64| memory.cells[position].store(1 << 39 | word);
    cell(0, 0x12_3456 << 15);
    memory.control[0].store(1);
    cell(1, 1 << 15);
    memory.control[0].store(2);
    assert_eq!(consumer.take(8).unwrap_err(), SharedTakeError::Empty);
    let index = send(&producer, 3);
    let owned_by_999 = 999 << 54 | 1 << 50 | 1 << 32;
    memory.slots[index as usize].store(owned_by_999);
    send(&producer, 4);
    assert_eq!(consumer.drain(), [(4, false)]);
    assert_eq!(memory.parts().count(SharedCount::Spoiled), 3);
}

#[test]
fn a_buffer_that_is_taken_away_or_given_twice_poisons() {
    let memory = Memory::new(2, 2, 2);
    let member = memory.member(1);
    let grant = claim(&member);
    memory.slots[0].store(0);
    // Free, as it seems; but we have it.
    let twice = Poisoned::Twice { buffer: 0 };
    assert_eq!(member.claim(&ClaimCursor::new(0)).unwrap_err(), SharedNoGrant::Poisoned(twice));
    assert_eq!(member.release(grant).unwrap_err(), twice, "the first reason stays");
    assert_eq!(member.check(), Err(twice));

    let other = memory.member(2);
    let grant = claim(&other);
    memory.slots[1].store(0);
    assert_eq!(other.release(grant).unwrap_err(), Poisoned::TakenAway { buffer: 1 });

    let mut consumer = Consumer::new(&memory, 1);
    memory.cells[0].store(77 << 40);
    let ahead = consumer.take(1);
    assert_eq!(ahead.unwrap_err(), SharedTakeError::Empty, "as if others had been done with it");
    memory.control[HEAD].store(2000);
    consumer.reader = consumer.member.reader();
    let astray = Poisoned::Astray { position: 2000 };
    assert_eq!(consumer.take(1).unwrap_err(), SharedTakeError::Poisoned(astray));
}

#[test]
fn whoever_sleeps_is_woken_once() {
    let memory = Memory::new(1, 1, 2);
    let parts = memory.parts();
    let mut consumer = Consumer::new(&memory, 2);
    let producer = memory.member(1);
    let sleep = |sleeper| parts.sleeper(sleeper).announce(&FullBarrier);
    assert!(!producer.send(claim(&producer), 1).unwrap(), "nobody sleeps");
    sleep(Sleeper::Room);
    let taken = consumer.take(1).unwrap();
    assert!(consumer.member.finish(&consumer.notes, taken).unwrap());
    sleep(Sleeper::Consumer);
    assert!(producer.send(claim(&producer), 1).unwrap());
    let mut taken = consumer.take(1).unwrap();
    sleep(Sleeper::Room);
    let (grant, wakes) = consumer.member.keep(&consumer.notes, &mut taken).unwrap().unwrap();
    assert!(wakes);
    assert!(!consumer.member.release(grant).unwrap(), "woken once");
    sleep(Sleeper::Room);
    let grant = claim(&producer);
    assert!(producer.release(grant).unwrap());
    sleep(Sleeper::Room);
    sleep(Sleeper::Consumer);
    parts.recover(1, &FullBarrier);
    let announced =
        [Sleeper::Consumer, Sleeper::Room].map(|sleeper| parts.sleeper(sleeper).take_announcement());
    assert_eq!(announced, [false; 2], "nobody goes to sleep on an announcement from before a recovery");
}

#[test]
fn words_that_are_too_few_or_too_many_are_refused() {
    use super::kit::{Words, words};
    use transload_core::{CONTROL_WORDS, FutexWord, MEMBER_WORDS, SLEEPER_WORDS, SharedParts};
    let refuse = |control: usize, sleepers: usize, members: usize, slots: usize, cells: usize| {
        let sleepers: Box<[FutexWord]> = (0..sleepers).map(|_| FutexWord::new(0)).collect();
        let parts = SharedParts::<Words, _>::new(
            words(control),
            sleepers,
            words(members * MEMBER_WORDS),
            words(slots),
            words(cells),
        );
        parts.map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(refuse(CONTROL_WORDS, SLEEPER_WORDS, 2, 1, 1), Ok(()));
    let wrong = [
        (refuse(CONTROL_WORDS - 1, SLEEPER_WORDS, 2, 1, 1), "control words"),
        (refuse(CONTROL_WORDS, SLEEPER_WORDS - 1, 2, 1, 1), "sleeper words"),
        (refuse(CONTROL_WORDS, SLEEPER_WORDS, 1, 1, 1), "members"),
        (refuse(CONTROL_WORDS, SLEEPER_WORDS, 1025, 1, 1), "members"),
        (refuse(CONTROL_WORDS, SLEEPER_WORDS, 2, 0, 1), "slot words"),
        (refuse(CONTROL_WORDS, SLEEPER_WORDS, 2, 1, 0), "cells"),
        (refuse(CONTROL_WORDS, SLEEPER_WORDS, 2, 1, 3), "power of two"),
    ];
    for (outcome, what) in wrong {
        let why = outcome.unwrap_err();
        assert!(why.contains(what), "{why}");
    }
}
