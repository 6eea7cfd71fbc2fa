//! The check of what has landed on a device must pass who is right, and catch who is not.

use anyhow::Result;
use transload_bench::adapter::Role;
use transload_bench::device::{
    Memcpy, Publishing, Pumped, Run, Shape, Side, Source, TakeAndCopy, Until, verify,
};

const BYTES: u64 = 4 << 20;

/// Changes what a run of so many batches leaves behind.
type Fault = fn(&mut Run, &Shape);

/// A side that is right, and what goes wrong with it.
struct Broken {
    side: Memcpy,
    shape: Shape,
    fault: Fault,
}

impl Side for Broken {
    fn name(&self) -> &'static str {
        "broken"
    }

    fn role(&self) -> Role {
        Role::Rival
    }

    fn run(&mut self, until: Until) -> Result<Run> {
        let mut run = self.side.run(until)?;
        (self.fault)(&mut run, &self.shape);
        Ok(run)
    }
}

fn is_caught(fault: Fault) -> bool {
    Shape::ALL.into_iter().all(|shape| {
        let side = Memcpy::new(Source::plain(&shape).expect("memory"), shape);
        verify(&mut Broken { side, shape, fault }, &shape, BYTES).is_err()
    })
}

#[test]
fn who_is_right_passes() {
    for shape in Shape::ALL {
        let source = Source::plain(&shape).expect("memory");
        let device = || -> std::sync::Arc<dyn transload::device::Device> {
            transload::device::open(&"host".parse().expect("a name")).expect("the host").into()
        };
        let sides: [Box<dyn Side>; 4] = [
            Box::new(Memcpy::new(source.clone(), shape)),
            Box::new(TakeAndCopy::new(source.clone(), shape)),
            Box::new(Pumped::new(device(), source.clone(), shape, Publishing::Ready)),
            Box::new(Pumped::new(device(), source, shape, Publishing::Thread)),
        ];
        for mut side in sides {
            verify(&mut *side, &shape, BYTES).unwrap();
        }
    }
}

/// A batch that was told of and not sent: its place is as blank as before.
#[test]
fn a_batch_that_is_left_out_is_caught() {
    assert!(is_caught(|run, shape| {
        let at = run.last.back().expect("a batch").at.clone();
        run.queue[at].fill(transload_bench::device::BLANK);
        assert!(shape.batch_bytes > 0);
    }));
}

/// The right bytes of another batch.
#[test]
fn another_batch_in_its_place_is_caught() {
    assert!(is_caught(|run, shape| {
        let at = run.last.back().expect("a batch").at.clone();
        run.queue[at].rotate_left(shape.message_bytes);
    }));
}

#[test]
fn one_bit_is_enough() {
    assert!(is_caught(|run, _| {
        let at = run.last.back().expect("a batch").at.clone();
        run.queue[at.end - 1] ^= 1;
    }));
}

#[test]
fn counts_that_are_wrong_are_caught() {
    assert!(is_caught(|run, shape| run.messages += shape.batch_messages() as u64));
    assert!(is_caught(|run, _| run.last.clear()));
    assert!(is_caught(|run, _| run.last.back_mut().expect("a batch").position += 1));
}
