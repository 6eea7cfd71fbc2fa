//! How wrong usage is told, and help and version.

use std::io;
use std::process::ExitCode;

use clap::error::ErrorKind;
use tracing_subscriber::EnvFilter;

use crate::failure::exit;
use crate::output::complain;

/// What is logged, for the help.
pub(crate) const LOG_HELP: &str = "TRANSLOAD_LOG chooses what is logged to the standard error: off, error, warn, info, debug or trace, also for \
     one part as in transload::pump=debug [default: warn]";

/// Tells why the arguments are not to be run: help and version are results, the rest is wrong usage, told in one line.
pub(crate) fn tell(error: &clap::Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => match error.print() {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                complain(&format!("cannot write the help: {error}"));
                ExitCode::from(exit::FAILURE)
            }
            _ => ExitCode::from(exit::OK),
        },
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            // There is nobody to tell if this fails.
            let _ = error.print();
            ExitCode::from(exit::USAGE)
        }
        _ => refuse(&one_line(&error.to_string())),
    }
}

fn refuse(why: &str) -> ExitCode {
    complain(why);
    ExitCode::from(exit::USAGE)
}

/// What there is to say, without the usage and the hint at the help that follow.
fn one_line(text: &str) -> String {
    let mut line = String::new();
    for part in text.lines().map(str::trim) {
        if part.starts_with("Usage:") || part.starts_with("For more information") {
            break;
        }
        if !part.is_empty() {
            line.push_str(match (line.is_empty(), part.starts_with("tip:")) {
                (true, _) => "",
                (false, true) => "; ",
                (false, false) => " ",
            });
            line.push_str(part);
        }
    }
    line.strip_prefix("error: ").unwrap_or(&line).to_owned()
}

/// The filter of the log, or the exit code of wrong usage.
pub(crate) fn log_filter(default: &str) -> Result<EnvFilter, ExitCode> {
    const NAME: &str = "TRANSLOAD_LOG";
    let text = std::env::var_os(NAME).unwrap_or_default();
    let filter = match text.to_str() {
        Some("") => return Ok(EnvFilter::new(default)),
        Some(text) => EnvFilter::try_new(text).map_err(|error| error.to_string()),
        None => Err("it is not UTF-8".to_owned()),
    };
    filter.map_err(|why| {
        refuse(&one_line(&format!(
            "{NAME} is no filter, write it like debug or transload::pump=debug: {why}"
        )))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_reason_and_the_tip() {
        let text = "error: unexpected argument '--frming' found\n\n  tip: a similar argument exists: '--framing'\n\n\
                    Usage: transload pump --framing <FRAMING>\n\nFor more information, try '--help'.\n";
        assert_eq!(
            one_line(text),
            "unexpected argument '--frming' found; tip: a similar argument exists: '--framing'"
        );
        let text = "error: invalid value 'x' for '--lock <LOCK>'\n  [possible values: require, never]\n\nFor more \
                    information, try '--help'.\n";
        assert_eq!(one_line(text), "invalid value 'x' for '--lock <LOCK>' [possible values: require, never]");
    }
}
