//! A region that the test has, as a pump would.
#![allow(clippy::unwrap_used, reason = "what fails in a helper of a test fails the test")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use transload::pump::SlotLayout;
use transload::shared::handover::{Name, Steward, Terms, create_or_attach};
use transload::shared::{SharedConsumer, SharedPool, SharedRegion, TakeError};

use super::wait_until;

/// Where the names of one test are.
#[derive(Debug)]
pub(crate) struct Names(pub(crate) tempfile::TempDir);

impl Names {
    pub(crate) fn new() -> Self {
        let names = Self(tempfile::tempdir().unwrap());
        fs::set_permissions(names.0.path(), fs::Permissions::from_mode(0o700)).unwrap();
        names
    }

    /// The path by which a name is given.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// As an address.
    pub(crate) fn address(&self, name: &str) -> String {
        format!("shm:{}", self.path(name).display())
    }

    pub(crate) fn name(&self, name: &str) -> Name {
        self.path(name).to_str().unwrap().parse().unwrap()
    }

    /// A pump of this name, which makes the region if nobody has it.
    pub(crate) fn pump(&self, name: &str, shape: Shape) -> TestPump {
        TestPump::of(&self.name(name), shape)
    }
}

/// What a region is made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) slots: usize,
    pub(crate) slot_bytes: usize,
    pub(crate) ring_slots: usize,
    pub(crate) layout: SlotLayout,
}

/// Sixteen slots that hold 24 bytes of payload, of any length.
pub(crate) const PREFIXED: Shape =
    Shape { slots: 16, slot_bytes: 28, ring_slots: 16, layout: SlotLayout::Prefixed };

/// Sixteen slots that are messages of 24 bytes.
pub(crate) const DENSE: Shape =
    Shape { slots: 16, slot_bytes: 24, ring_slots: 16, layout: SlotLayout::Dense };

/// Takes from a region in the place of a pump. Its steward recovers nobody.
#[derive(Debug)]
pub(crate) struct TestPump {
    pub(crate) consumer: SharedConsumer,
    pub(crate) pool: SharedPool,
    pub(crate) region: SharedRegion,
    pub(crate) is_new: bool,
    layout: SlotLayout,
    _steward: Steward,
}

impl TestPump {
    pub(crate) fn of(name: &Name, shape: Shape) -> Self {
        let make = || {
            SharedRegion::builder(shape.slots, shape.slot_bytes)
                .ring_slots(shape.ring_slots)
                .members(8)
                .user_word(shape.layout.code())
                .create()
        };
        let (region, post, is_new) = create_or_attach(name, &Terms::new(), make).unwrap();
        let steward = Steward::start(post, || {}).unwrap();
        let pool = SharedPool::join(&region, "test").unwrap();
        let mut consumer = pool.ring().consumer();
        wait_until("the role of the consumer", || {
            if consumer.is_err() {
                consumer = pool.ring().consumer();
            }
            consumer.is_ok()
        });
        Self { consumer: consumer.unwrap(), pool, region, is_new, layout: shape.layout, _steward: steward }
    }

    /// Fills all buffers with something that is no zero.
    pub(crate) fn soil(&self) {
        let mut leases = Vec::new();
        while let Ok(mut lease) = self.pool.try_acquire() {
            lease.write_at(0, &vec![0xAA; lease.capacity()]).unwrap();
            leases.push(lease);
        }
        assert_eq!(leases.len(), self.region.buffer_count());
    }

    /// Takes what is there: the payloads.
    pub(crate) fn take(&mut self, most: usize) -> Vec<Vec<u8>> {
        let batch = match self.consumer.take(most) {
            Ok(batch) => batch,
            Err(TakeError::Empty) => return Vec::new(),
            Err(error) => panic!("{error}"),
        };
        let payload = |message: transload::shared::SharedMessage| {
            assert_eq!(message.len_bytes as usize, self.region.buffer_size(), "a slot is what a device gets");
            let mut slot = vec![0; message.len_bytes as usize];
            batch.read(&message, &mut slot).unwrap();
            match self.layout {
                SlotLayout::Dense => slot,
                SlotLayout::Prefixed => {
                    let rest = slot.split_off(4);
                    let len = u32::from_le_bytes(slot.try_into().unwrap()) as usize;
                    assert!(rest[len..].iter().all(|&byte| byte == 0), "zeros behind the payload: {rest:?}");
                    rest[..len].to_vec()
                }
            }
        };
        batch.iter().map(payload).collect()
    }

    /// Takes so many, as they come.
    pub(crate) fn take_all(&mut self, count: usize) -> Vec<Vec<u8>> {
        let (mut all, until) = (Vec::new(), Instant::now() + Duration::from_secs(50));
        while all.len() < count {
            assert!(Instant::now() < until, "{} of {count} messages came", all.len());
            self.consumer.wait_timeout(Duration::from_millis(50)).unwrap();
            all.extend(self.take(count - all.len()));
        }
        assert_eq!(all.len(), count);
        all
    }
}

/// What a generated message is made of.
pub(crate) fn generate(member: u64, number: u64, bytes: usize) -> Vec<u8> {
    let stamp = number << 10 | member;
    let words = (0..bytes.div_ceil(8) as u64).map(|index| {
        let mixed = (stamp ^ index).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        if index == 0 { stamp } else { mixed ^ (mixed >> 32) }
    });
    let mut message: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
    message.truncate(bytes);
    message
}

/// The member and the number of a generated message, every byte of which is checked.
pub(crate) fn generated(payload: &[u8]) -> (u64, u64) {
    let stamp = u64::from_le_bytes(payload[..8].try_into().unwrap());
    let (member, number) = (stamp & 1023, stamp >> 10);
    assert_eq!(payload, generate(member, number, payload.len()));
    (member, number)
}
