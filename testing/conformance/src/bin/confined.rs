//! Becomes another program that may do less. See `transload_conformance::confinement`.

use std::process::ExitCode;

use transload_conformance::confinement::become_confined;

fn main() -> ExitCode {
    match become_confined(std::env::args().skip(1)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            #[expect(clippy::print_stderr, reason = "a command line")]
            {
                eprintln!("confined: {why}");
            }
            ExitCode::from(125)
        }
    }
}
