//! Runs what was asked for, and tells how that went.

use std::io;
use std::process::ExitCode;

use super::args::{Action, ShmArgs};
use super::{list, reclaim, show};
use crate::failure::{Failure, exit};
use crate::output::Told;

/// Runs the command and reports.
pub(crate) fn main(args: &ShmArgs) -> ExitCode {
    ExitCode::from(match &args.action {
        Action::List(args) => {
            let document = list::document();
            tell(args.json, document.error.as_ref(), &document, || document.words())
        }
        Action::Show(args) => {
            let document = show::document(args);
            tell(args.json, document.error.as_ref(), &document, || document.words())
        }
        Action::Reclaim(args) => {
            let document = reclaim::document(args);
            tell(args.json, document.error.as_ref(), &document, || document.words())
        }
    })
}

fn tell(
    json: bool,
    error: Option<&Failure>,
    document: &impl serde::Serialize,
    words: impl FnOnce() -> String,
) -> u8 {
    let exit = error.map_or(exit::OK, |failure| failure.exit);
    Told { error, exit, json }.tell(document, words, &mut io::stdout())
}
