//! What is said to the person, and where.

use std::io::{self, Write};

use serde::Serialize;

use crate::failure::{Failure, exit};

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

/// How a command ended, for whoever reports it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told<'a> {
    pub(crate) error: Option<&'a Failure>,
    pub(crate) exit: u8,
    pub(crate) json: bool,
}

impl Told<'_> {
    /// Prints the report, as a document or in words (none if they are empty), and complains of the failure where no
    /// document holds it. Gives the exit code: another one if the report cannot be written.
    pub(crate) fn tell(
        self,
        document: &impl Serialize,
        words: impl FnOnce() -> String,
        out: &mut dyn Write,
    ) -> u8 {
        if self.exit == exit::USAGE {
            if let Some(failure) = self.error {
                complain(&failure.message);
            }
            return self.exit;
        }
        let text = if self.json {
            serde_json::to_string(document)
                .unwrap_or_else(|error| format!("{{\"schema\":1,\"error\":\"{error}\"}}"))
        } else {
            words()
        };
        let printed = if text.is_empty() { Ok(()) } else { print_to(out, &text) };
        if let (Some(failure), false) = (self.error, self.json) {
            complain(&failure.message);
            if let Some(fix) = &failure.fix {
                complain(&format!("to do: {fix}"));
            }
        }
        match printed {
            Err(error) => {
                complain(&format!("the report cannot be written: {error}"));
                exit::FAILURE
            }
            Ok(()) => self.exit,
        }
    }
}
