//! Lets a test say which step of making a slab fails. Outside tests no step can be told to fail.

#[cfg(test)]
use std::cell::Cell;

/// The steps of making a slab that ask the kernel for something, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(
    not(any(target_os = "linux", test)),
    expect(dead_code, reason = "some of the kernel's calls are of Linux only")
)]
pub(super) enum Step {
    Map,
    Trim,
    Protect,
    Pages,
    Bind,
    DontFork,
    Populate,
    Lock,
    Look,
}

#[cfg(test)]
impl Step {
    pub(super) const ALL: [Step; 9] = [
        Step::Map,
        Step::Trim,
        Step::Protect,
        Step::Pages,
        Step::Bind,
        Step::DontFork,
        Step::Populate,
        Step::Lock,
        Step::Look,
    ];
}

#[cfg(test)]
thread_local! {
    static FAILING: Cell<Option<(Step, rustix::io::Errno)>> = const { Cell::new(None) };
}

/// Makes `step` fail with `errno` on this thread for as long as `body` runs.
#[cfg(test)]
pub(super) fn with<T>(step: Step, errno: rustix::io::Errno, body: impl FnOnce() -> T) -> T {
    FAILING.set(Some((step, errno)));
    let result = body();
    FAILING.set(None);
    result
}

/// Fails when a test has said that `step` fails.
#[cfg(test)]
pub(super) fn check(step: Step) -> rustix::io::Result<()> {
    match FAILING.get() {
        Some((failing, errno)) if failing == step => Err(errno),
        _ => Ok(()),
    }
}

/// Never fails: this is the product, not a test.
#[cfg(not(test))]
#[expect(
    clippy::unnecessary_wraps,
    reason = "the same signature as in tests, where a step can be told to fail"
)]
pub(super) fn check(_step: Step) -> rustix::io::Result<()> {
    Ok(())
}
