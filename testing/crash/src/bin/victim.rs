//! A member of a region that is stopped and killed: `victim OPERATION DESCRIPTOR`, stepped by whoever started it,
//! `victim campaign ROLE NUMBER LIFE SEED DESCRIPTOR DESCRIPTOR`, on its own, `victim hold DESCRIPTOR`, which waits, or
//! `victim handing PART NAME`, which is stepped as well.

use std::process::ExitCode;

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn main() -> ExitCode {
    match transload_crash::victim::run(std::env::args().skip(1)) {
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

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
fn main() -> ExitCode {
    ExitCode::FAILURE
}
