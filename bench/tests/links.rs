//! What two processes compare must show a link that is wrong.

use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::thread;

use anyhow::{Result, bail};
use transload_bench::shm::{Content, Hashed, Link, Plain, Seen, Until, drain, ping, pong, pour};

const WORDS: usize = 8;
const MESSAGES: u64 = 3000;
/// Which of the messages goes wrong: one that is sent while the clock runs.
const WRONG: u64 = 4000;

/// Two channels. One message on the way there goes wrong.
struct Broken<const FAULT: u8> {
    out: Sender<[u64; WORDS]>,
    back: Receiver<[u64; WORDS]>,
    sent: u64,
    is_near: bool,
}

const NONE: u8 = 0;
const LOSES: u8 = 1;
const DOUBLES: u8 = 2;
const REPEATS: u8 = 3;
const TEARS: u8 = 4;
const FLIPS_LAST_BIT: u8 = 5;

impl<const FAULT: u8> Link<WORDS> for Broken<FAULT> {
    fn send<C: Content>(&mut self, tag: u64) -> Result<bool> {
        let is_wrong = self.is_near && self.sent == WRONG;
        self.sent += 1;
        let mut message: [u64; WORDS] = std::array::from_fn(|at| C::word(tag, at));
        match FAULT {
            LOSES if is_wrong => return Ok(true),
            DOUBLES if is_wrong => self.out.send(message)?,
            REPEATS if is_wrong => message = std::array::from_fn(|at| C::word(tag - 1, at)),
            TEARS if is_wrong => {
                let stale: [u64; WORDS] = std::array::from_fn(|at| C::word(tag - 1, at));
                message[WORDS / 2..].copy_from_slice(&stale[WORDS / 2..]);
            }
            FLIPS_LAST_BIT if is_wrong => message[WORDS - 1] ^= 1 << 63,
            _ => {}
        }
        self.out.send(message)?;
        Ok(true)
    }

    fn receive<C: Content>(&mut self, mut see: impl FnMut(Seen) -> Result<()>) -> Result<usize> {
        match self.back.try_recv() {
            Ok(message) => {
                let tag = message[0];
                let is_whole = (0..WORDS).all(|at| message[at] == C::word(tag, at));
                see(Seen { tag, is_whole })?;
                Ok(1)
            }
            Err(TryRecvError::Empty) => {
                thread::yield_now();
                Ok(0)
            }
            Err(TryRecvError::Disconnected) => bail!("the other side has gone"),
        }
    }
}

/// Whether both sides were content.
fn run<const FAULT: u8, C: Content>(is_flow: bool) -> bool {
    let ((out, there), (answer, back)) = (mpsc::channel(), mpsc::channel());
    let mut near = Broken::<FAULT> { out, back, sent: 0, is_near: true };
    let mut far = Broken::<FAULT> { out: answer, back: there, sent: 0, is_near: false };
    let until = Until::Messages(MESSAGES);
    thread::scope(|scope| {
        // Each end is dropped where its side ends, which the other side sees.
        let far = scope.spawn(move || {
            if is_flow { drain::<WORDS, C>(&mut far) } else { pong::<WORDS, C>(&mut far) }.is_ok()
        });
        let near = scope.spawn(move || {
            let outcome = if is_flow {
                pour::<WORDS, C>(&mut near, 2000, until)
            } else {
                ping::<WORDS, C>(&mut near, until)
            };
            outcome.is_ok_and(|outcome| outcome.count >= MESSAGES)
        });
        let (near, far) = (near.join().expect("no panic"), far.join().expect("no panic"));
        assert!(!near || far, "the peer's complaint went unheard");
        near && far
    })
}

fn expect<const FAULT: u8>(is_content: bool) {
    assert_eq!(run::<FAULT, Hashed>(true), is_content, "one way, each bit");
    assert_eq!(run::<FAULT, Plain>(true), is_content, "one way");
    // There nobody would ever go on.
    if FAULT != LOSES {
        assert_eq!(run::<FAULT, Hashed>(false), is_content, "round trips, each bit");
        assert_eq!(run::<FAULT, Plain>(false), is_content, "round trips");
    }
}

#[test]
fn a_link_that_works_is_timed() {
    expect::<NONE>(true);
}

#[test]
fn a_lost_message_is_noticed() {
    expect::<LOSES>(false);
}

#[test]
fn a_doubled_message_is_noticed() {
    expect::<DOUBLES>(false);
}

#[test]
fn a_repeated_message_is_noticed() {
    expect::<REPEATS>(false);
}

#[test]
fn a_torn_message_is_noticed() {
    expect::<TEARS>(false);
}

#[test]
fn one_bit_is_enough() {
    expect::<FLIPS_LAST_BIT>(false);
}
