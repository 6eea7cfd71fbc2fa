//! What is said to the person, and where.

use std::io::{self, Write};

/// Writes a line to the standard error. If that is closed there is nobody to tell.
pub(crate) fn complain(text: &str) {
    let _ = writeln!(io::stderr().lock(), "transload: {text}");
}

/// Says where messages are taken, for people and for programs that look for this line.
pub(crate) fn announce(address: &str) {
    let _ = writeln!(io::stderr().lock(), "listening on {address}");
}

/// Writes a result, and takes a closed pipe for "enough".
pub(crate) fn print_to(out: &mut dyn Write, text: &str) -> io::Result<()> {
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        done => done,
    }
}
