//! A member of a region that is stopped and killed: `victim OPERATION DESCRIPTOR`, stepped by whoever started it, or
//! `victim campaign ROLE NUMBER LIFE SEED DESCRIPTOR DESCRIPTOR`, on its own, `victim hold DESCRIPTOR`, which
//! waits, or `victim handing PART NAME`, which is stepped as well.

use std::process::ExitCode;

use transload_crash::campaign::actor::{Role, act};
use transload_crash::handing::Handing;
use transload_crash::holder::hold;
use transload_crash::inherit::inherited;
use transload_crash::operation::{Operation, perform};
use transload_crash::trace::let_parent_trace;

fn main() -> ExitCode {
    match run(std::env::args().skip(1)) {
        Ok(code) => ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)),
        Err(why) => {
            #[expect(clippy::print_stderr, reason = "a command line")]
            {
                eprintln!("victim: {why}");
            }
            ExitCode::from(125)
        }
    }
}

fn run(mut arguments: impl Iterator<Item = String>) -> Result<i32, String> {
    let first = arguments.next().ok_or("nothing to do")?;
    if first == "campaign" {
        let role = arguments.next().as_deref().and_then(Role::of).ok_or("no such role")?;
        let mut number =
            || arguments.next().and_then(|number| number.parse().ok()).ok_or("a number is missing");
        let numbers = [number()?, number()?, number()?];
        return act(role, numbers, inherited(arguments.next())?, inherited(arguments.next())?).map(|()| 0);
    }
    if first == "handing" {
        let handing = arguments.next().as_deref().and_then(Handing::of).ok_or("no such part")?;
        return handing.act(&arguments.next().ok_or("a name is missing")?).map(|()| 0);
    }
    if first == "hold" || first == "hold-and-fork" {
        return hold(inherited(arguments.next())?, first == "hold-and-fork").map(|()| 0);
    }
    let operation = Operation::of(&first).ok_or("no such operation")?;
    let file = inherited(arguments.next())?;
    let_parent_trace().map_err(|error| error.to_string())?;
    Ok(perform(operation, file))
}
