//! Set-up: makes a ring and finds out what this kernel can do with it, by trying.

use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use io_uring::types::Fd;
use io_uring::{IoUring, opcode, squeue};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use super::entries::REPORT_USAGE;
use super::errors::{errno, no_ring, patiently};
use super::ring::{Ring, Wait};
use super::slots::Slots;
use crate::proactor::capability::{Capabilities, Capability};
use crate::proactor::error::ProactorError;

const SET_UP: &str = "io_uring_setup";
const ENTER: &str = "io_uring_enter";
const REGISTER: &str = "io_uring_register";

/// Completions that find room for each submission.
const COMPLETIONS_EACH: u32 = 4;

/// A ring that works, with what it can do and is allowed to.
pub(super) fn open(
    entries: u32,
    allowed: Capabilities,
) -> Result<(Ring, Slots, Capabilities), ProactorError> {
    let (ring, single_issuer) = set_up(entries, allowed.has(Capability::SingleIssuer))?;
    let mut ring = Ring::new(ring);
    require_operations(&ring)?;
    let mut detected = try_operations(&mut ring)?.with(Capability::LinkedSends);
    if single_issuer {
        detected = detected.with(Capability::SingleIssuer);
    }
    let mut slots = Slots::default();
    if allowed.has(Capability::FixedBuffers) {
        match Slots::create(&ring) {
            Ok(created) => {
                slots = created;
                detected = detected.with(Capability::FixedBuffers);
            }
            Err(denied @ (Errno::PERM | Errno::ACCESS)) => return Err(no_ring(REGISTER, denied, 0)),
            Err(errno) => tracing::debug!(%errno, "no table of registered buffers"),
        }
    }
    Ok((ring, slots, detected.and(allowed)))
}

/// Makes the ring, with the best set-up that the kernel takes; says whether one thread issues.
fn set_up(entries: u32, single_issuer: bool) -> Result<(IoUring, bool), ProactorError> {
    let entries = entries.clamp(1, 1 << 15);
    let need_bytes = ring_bytes(entries);
    let build = |single_issuer: bool, submit_all: bool| {
        let mut builder = IoUring::builder();
        builder.dontfork().setup_clamp().setup_cqsize(entries.next_power_of_two() * COMPLETIONS_EACH);
        if submit_all {
            builder.setup_submit_all();
        }
        if single_issuer {
            // The flag tells when there are deferred completions, so that a look for them costs no system call.
            builder.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag();
        }
        patiently(need_bytes, || builder.build(entries).map_err(|error| errno(&error)))
    };
    // Linux 6.1, 5.18, and what was before.
    let set_ups = [(true, true), (false, true), (false, false)];
    let mut refused = Errno::INVAL;
    for (single_issuer, submit_all) in set_ups.into_iter().skip(usize::from(!single_issuer)) {
        match build(single_issuer, submit_all) {
            Ok(ring) => return Ok((demand_features(ring)?, single_issuer)),
            Err(Errno::INVAL) => {}
            Err(errno) => {
                refused = errno;
                break;
            }
        }
    }
    Err(no_ring(SET_UP, refused, need_bytes))
}

/// About what the kernel charges for a ring.
fn ring_bytes(entries: u32) -> u64 {
    let (submission, completion) = (64 + 4, 16);
    u64::from(entries.next_power_of_two()) * (submission + completion * u64::from(COMPLETIONS_EACH)) + 8192
}

fn demand_features(ring: IoUring) -> Result<IoUring, ProactorError> {
    let parameters = ring.params();
    let features = [
        (parameters.is_feature_nodrop(), "it drops completions (no IORING_FEAT_NODROP)"),
        (parameters.is_feature_submit_stable(), "it reads lists late (no IORING_FEAT_SUBMIT_STABLE)"),
        (parameters.is_feature_fast_poll(), "it blocks threads on sockets (no IORING_FEAT_FAST_POLL)"),
        (parameters.is_feature_ext_arg(), "it has no time-outs (no IORING_FEAT_EXT_ARG)"),
    ];
    match features.into_iter().find(|(there, _)| !there) {
        Some((_, reason)) => Err(ProactorError::Missing { call: SET_UP, reason: reason.to_owned() }),
        None => Ok(ring),
    }
}

/// Whether the kernel has what there is no other means for. Also shows whether `io_uring_register` is allowed at all.
fn require_operations(ring: &Ring) -> Result<(), ProactorError> {
    let operations = ring.operations().map_err(|errno| no_ring(REGISTER, errno, 0))?;
    let required = [
        ("NOP", opcode::Nop::CODE),
        ("SEND", opcode::Send::CODE),
        ("RECV", opcode::Recv::CODE),
        ("SENDMSG", opcode::SendMsg::CODE),
        ("RECVMSG", opcode::RecvMsg::CODE),
        ("ACCEPT", opcode::Accept::CODE),
        ("CONNECT", opcode::Connect::CODE),
        ("SHUTDOWN", opcode::Shutdown::CODE),
        ("POLL_ADD", opcode::PollAdd::CODE),
        ("ASYNC_CANCEL", opcode::AsyncCancel::CODE),
        ("READ", opcode::Read::CODE),
        ("WRITE", opcode::Write::CODE),
        ("READV", opcode::Readv::CODE),
        ("WRITEV", opcode::Writev::CODE),
        ("READ_FIXED", opcode::ReadFixed::CODE),
        ("WRITE_FIXED", opcode::WriteFixed::CODE),
        ("FSYNC", opcode::Fsync::CODE),
    ];
    match required.into_iter().find(|&(_, code)| !operations.is_supported(code)) {
        Some((name, _)) => Err(ProactorError::Missing {
            call: REGISTER,
            reason: format!("it has no operation {name}, which Linux 5.11 has"),
        }),
        None => Ok(()),
    }
}

/// What is tried. Each but the first is bound to fail, and how it fails shows whether the kernel knows the flag: an
/// unknown one is `EINVAL` before anything else is looked at.
const TRIALS: usize = 4;
const NOTHING: usize = 0;
const RECEIVE: usize = 1;
const ACCEPT: usize = 2;
const SEND: usize = 3;

/// Tries one operation of each kind that kernels know since different versions.
fn try_operations(ring: &mut Ring) -> Result<Capabilities, ProactorError> {
    let unix = || {
        socketpair(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
            .map_err(|errno| ProactorError::Os { call: "socketpair", code: errno.raw_os_error() })
    };
    let (one, other) = unix()?;
    let operations = ring.operations().map_err(|errno| no_ring(REGISTER, errno, 0))?;
    for (trial, entry) in (0..).zip(trials(&one)) {
        // SAFETY: no entry points to memory: the one that has an address has length 0.
        unsafe { ring.push(&entry.user_data(trial), false) };
    }
    let results = results(ring)?;
    drop((one, other));
    if results[NOTHING] != Some(Ok(())) {
        return Err(ProactorError::Missing { call: ENTER, reason: "the operation NOP failed".to_owned() });
    }
    let known = |trial: usize| matches!(results[trial], Some(Ok(()) | Err(Failure::Other)));
    let zero_copy = known(SEND)
        && operations.is_supported(opcode::SendZc::CODE)
        && operations.is_supported(opcode::SendMsgZc::CODE);
    let found = [
        (known(RECEIVE), Capability::MultishotReceive),
        (known(ACCEPT), Capability::MultishotAccept),
        (zero_copy, Capability::ZeroCopySend),
    ];
    let found = found.into_iter().filter(|(known, _)| *known);
    Ok(found.fold(Capabilities::NONE, |all, (_, capability)| all.with(capability)))
}

fn trials(socket: &OwnedFd) -> [squeue::Entry; TRIALS] {
    /// No pool has this number: the proactor's begin at 0.
    const NO_GROUP: u16 = u16::MAX;
    let fd = Fd(socket.as_raw_fd());
    [
        opcode::Nop::new().build(),
        // There is no buffer: ENOBUFS.
        opcode::RecvMulti::new(fd, NO_GROUP).build(),
        // Datagram sockets accept nothing: EOPNOTSUPP.
        opcode::AcceptMulti::new(fd).build(),
        // Sockets of this family always copy: EOPNOTSUPP.
        opcode::SendZc::new(fd, std::ptr::null(), 0).zc_flags(REPORT_USAGE).build(),
    ]
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    Unknown,
    Other,
}

/// How each trial ended.
fn results(ring: &mut Ring) -> Result<[Option<Result<(), Failure>>; TRIALS], ProactorError> {
    const PATIENCE: Duration = Duration::from_secs(5);
    let mut results = [None; TRIALS];
    let (mut ended, mut reaped) = (0, Vec::new());
    let start = Instant::now();
    while ended < TRIALS {
        if start.elapsed() > PATIENCE {
            return Err(ProactorError::Missing { call: ENTER, reason: "it completes nothing".to_owned() });
        }
        let waited = ring.submit_and_wait(Wait::AtMost(Duration::from_millis(100)));
        waited.map_err(|errno| no_ring(ENTER, errno, 0))?;
        ring.reap(&mut reaped);
        for one in reaped.drain(..) {
            ended += usize::from(!one.more());
            let result = match one.result {
                0.. => Ok(()),
                result if result == -libc::EINVAL => Err(Failure::Unknown),
                _ => Err(Failure::Other),
            };
            let trial = usize::try_from(one.user_data).unwrap_or(TRIALS);
            if let (Some(place), false) = (results.get_mut(trial), one.is_notification()) {
                place.get_or_insert(result);
            }
        }
    }
    Ok(results)
}
