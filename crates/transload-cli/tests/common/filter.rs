//! Commands to which the kernel answers otherwise.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Answers `errno` to `io_uring_setup`, `_enter` and `_register` in the command to be started.
pub(crate) fn deny_io_uring(command: &mut Command, errno: i32) {
    // These three have the same numbers on all architectures.
    const FIRST: u32 = 425;
    const LAST: u32 = 427;
    // What libc gives as `c_uint` or `i32`, in the widths of `struct sock_filter`.
    let code = |bits: u32| u16::try_from(bits).expect("16 bits");
    let errno = u32::try_from(errno).expect("positive");
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let load = code(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS);
    let at_least = code(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K);
    let above = code(libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K);
    let answer = code(libc::BPF_RET | libc::BPF_K);
    let mut filter = [
        step(load, 0, 0, 0), // the number is the first field of struct seccomp_data
        step(at_least, 0, 2, FIRST),
        step(above, 1, 0, LAST),
        step(answer, 0, 0, libc::SECCOMP_RET_ERRNO | errno),
        step(answer, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let install = move || {
        let program = libc::sock_fprog { len: 5, filter: filter.as_mut_ptr() };
        // SAFETY: takes no pointers.
        let first = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
        // SAFETY: `program` and the five steps that it names live until the call returns.
        let second =
            unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) };
        if first == 0 && second == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    };
    // SAFETY: the closure makes two system calls, allocates nothing and takes no lock.
    unsafe { command.pre_exec(install) };
}
