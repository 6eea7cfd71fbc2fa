//! Talk on standard output.

/// `println!` that does not panic when the reader has gone away, as `head` does.
macro_rules! say {
    ($($argument:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stdout(), $($argument)*);
    }};
}
pub(crate) use say;
