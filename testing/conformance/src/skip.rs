//! Tests that cannot run here.

use std::fs::File;
use std::io::Write;

/// Says that a test cannot run here. The name is the test's own path, without spaces; one line a test. The line also
/// goes to the file that `TRANSLOAD_SKIPS` names, since runners hide what passing tests print.
#[expect(clippy::print_stdout, reason = "the line is for whoever runs the tests")]
pub fn skip(name: &str, why: &str) {
    let line = format!("SKIPPED {name}: {}\n", why.replace('\n', " "));
    print!("{line}");
    if let Some(path) = std::env::var_os("TRANSLOAD_SKIPS") {
        let mut file = File::options().create(true).append(true).open(path).unwrap();
        // One write: lines of tests that run side by side do not mix.
        file.write_all(line.as_bytes()).unwrap();
    }
}
