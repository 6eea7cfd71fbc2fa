//! Commands that this one runs.

use std::env;
use std::fmt;
use std::io::{self, BufRead, BufReader, IsTerminal, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use anyhow::{Context, Result, anyhow};

/// A command, as a person would type it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommandLine {
    program: String,
    arguments: Vec<String>,
    variables: Vec<(String, String)>,
}

/// What came of a command.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) success: bool,
    /// The lines of either output that were asked for.
    pub(crate) lines: Vec<String>,
}

impl CommandLine {
    /// Arguments are separated by spaces.
    pub(crate) fn new(program: &str, arguments: &str) -> Self {
        Self {
            program: program.to_owned(),
            arguments: arguments.split_whitespace().map(str::to_owned).collect(),
            variables: Vec::new(),
        }
    }

    pub(crate) fn cargo(arguments: &str) -> Self {
        Self::new("cargo", arguments)
    }

    pub(crate) fn argument(mut self, argument: impl Into<String>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    pub(crate) fn variable(mut self, name: &str, value: impl Into<String>) -> Self {
        self.variables.push((name.to_owned(), value.into()));
        self
    }

    fn command(&self, folder: &Path) -> Command {
        // The cargo that runs this command, not another version that comes first in the path.
        let own = env::var("CARGO").ok().filter(|_| self.program == "cargo");
        let mut command = Command::new(own.as_ref().unwrap_or(&self.program));
        command.args(&self.arguments).current_dir(folder).stdin(Stdio::null());
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        if self.program == "cargo" && io::stdout().is_terminal() && env::var_os("NO_COLOR").is_none() {
            // Its output goes through a pipe, which cargo takes for a wish for plain text.
            command.env("CARGO_TERM_COLOR", "always");
        }
        command
    }

    /// Whether the command works here; nothing is printed.
    pub(crate) fn succeeds(&self, folder: &Path) -> bool {
        let status = self.command(folder).stdout(Stdio::null()).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    }

    /// The standard output of a command that prints little; `None` where there is no such program.
    pub(crate) fn output(&self, folder: &Path) -> Option<String> {
        let output = self.command(folder).stderr(Stdio::null()).output().ok()?;
        Some(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Runs the command with our own outputs.
    pub(crate) fn run(&self, folder: &Path) -> Result<bool> {
        let status = self.command(folder).stdin(Stdio::inherit()).status();
        Ok(status.with_context(|| format!("cannot run {}", self.program))?.success())
    }

    /// Passes the output on while it comes, and keeps the lines that `wanted` asks for, without their colours.
    pub(crate) fn run_watched(&self, folder: &Path, wanted: fn(&str) -> bool) -> Result<Outcome> {
        let mut child = self
            .command(folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot run {}", self.program))?;
        let errors = child.stderr.take().context("no pipe for standard error")?;
        let output = child.stdout.take().context("no pipe for standard output")?;
        let lines = thread::scope(|scope| {
            let errors = scope.spawn(|| pass_on(errors, io::stderr(), wanted));
            let mut lines = pass_on(output, io::stdout(), wanted)?;
            lines.extend(errors.join().map_err(|_| anyhow!("the reader of standard error panicked"))??);
            anyhow::Ok(lines)
        })?;
        Ok(Outcome { success: child.wait()?.success(), lines })
    }
}

fn pass_on(from: impl Read, mut to: impl Write, wanted: fn(&str) -> bool) -> Result<Vec<String>> {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    let mut kept = Vec::new();
    while from.read_until(b'\n', &mut line)? > 0 {
        // A reader that went away must not stop the tests, nor change their result.
        let _ = to.write_all(&line).and_then(|()| to.flush());
        let text = without_colours(String::from_utf8_lossy(&line).trim_end());
        if wanted(&text) {
            kept.push(text);
        }
        line.clear();
    }
    Ok(kept)
}

/// Takes out the escape sequences of colours, `ESC [ .. m`.
fn without_colours(line: &str) -> String {
    let mut parts = line.split("\u{1b}[");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text.push_str(part.split_once('m').map_or(part, |(_, rest)| rest));
    }
    text
}

impl fmt::Display for CommandLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in &self.variables {
            write!(f, "{name}={} ", quoted(value))?;
        }
        write!(f, "{}", self.program)?;
        self.arguments.iter().try_for_each(|argument| write!(f, " {}", quoted(argument)))
    }
}

/// As a shell wants it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_typed() {
        let command =
            CommandLine::cargo("doc --no-deps").variable("RUSTDOCFLAGS", "-D warnings").argument("it's");
        assert_eq!(command.to_string(), r"RUSTDOCFLAGS='-D warnings' cargo doc --no-deps 'it'\''s'");
    }

    #[test]
    fn colours_are_taken_out() {
        assert_eq!(without_colours("\u{1b}[32;1m     Summary\u{1b}[0m [ 1s]"), "     Summary [ 1s]");
        assert_eq!(without_colours("plain"), "plain");
    }

    #[test]
    fn both_outputs_are_watched() {
        let command =
            CommandLine::new("sh", "-c").argument("echo keep 1; echo drop; echo keep 2 >&2; exit 3");
        let outcome = command.run_watched(Path::new("."), |line| line.starts_with("keep")).unwrap();
        assert!(!outcome.success);
        assert_eq!(outcome.lines, ["keep 1", "keep 2"]);
    }

    #[test]
    fn a_missing_program_is_an_error_that_names_it() {
        let command = CommandLine::new("no-such-program", "");
        assert!(!command.succeeds(Path::new(".")));
        assert!(command.run(Path::new(".")).unwrap_err().to_string().contains("no-such-program"));
    }
}
