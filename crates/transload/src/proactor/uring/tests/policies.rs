use super::*;
use crate::proactor::error::ProactorError;

/// Opens a ring on a thread for which this system call ends with this error, as in a container.
fn open_without(call: libc::c_long, errno: i32) -> ProactorError {
    let opened = std::thread::spawn(move || {
        deny(call, errno);
        UringBackend::open(8, Capabilities::ALL).map(drop)
    });
    opened.join().unwrap().unwrap_err()
}

/// Filters a system call of this thread.
fn deny(call: libc::c_long, errno: i32) {
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let [load, compare, end] = [
        libc::BPF_LD | libc::BPF_W | libc::BPF_ABS,
        libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
        libc::BPF_RET,
    ]
    .map(|code| u16::try_from(code).unwrap());
    let mut filter = [
        // The number is the first word of what a filter sees.
        step(load, 0, 0, 0),
        step(compare, 0, 1, u32::try_from(call).unwrap()),
        step(end, 0, 0, libc::SECCOMP_RET_ERRNO | errno.cast_unsigned()),
        step(end, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: 4, filter: filter.as_mut_ptr() };
    rustix::thread::set_no_new_privs(true).unwrap();
    // SAFETY: the program and its filter outlive the call; only this thread, which ends soon, is affected.
    let done = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}

#[test]
fn a_policy_is_told_from_an_old_kernel() {
    for errno in [libc::EPERM, libc::EACCES] {
        for (call, name) in [
            (libc::SYS_io_uring_setup, "io_uring_setup"),
            (libc::SYS_io_uring_enter, "io_uring_enter"),
            (libc::SYS_io_uring_register, "io_uring_register"),
        ] {
            assert_eq!(open_without(call, errno), ProactorError::Denied { call: name });
        }
    }
    for errno in [libc::ENOSYS, libc::EINVAL] {
        let error = open_without(libc::SYS_io_uring_setup, errno);
        assert!(matches!(error, ProactorError::Missing { call: "io_uring_setup", .. }), "{error}");
    }
    let error = open_without(libc::SYS_io_uring_setup, libc::EMFILE);
    assert_eq!(error, ProactorError::Os { call: "io_uring_setup", code: libc::EMFILE });
}
