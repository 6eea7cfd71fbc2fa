//! The kernel and the processors.

use super::check::{Check, Status};

pub(super) fn checks() -> Vec<Check> {
    vec![kernel(), cores()]
}

fn kernel() -> Check {
    let uname = rustix::system::uname();
    let (system, release) = (uname.sysname().to_string_lossy(), uname.release().to_string_lossy());
    let value = format!("{system} {release} {}", uname.machine().to_string_lossy());
    if system != "Linux" {
        let detail = "transload is tested on Linux; here it runs on ordinary memory and readiness";
        return Check::new("kernel", Status::Warn, value).detail(detail);
    }
    match parse_release(&release) {
        Some(version) if version < (5, 14) => Check::new("kernel", Status::Warn, value)
            .detail("before 5.14 memory is faulted in by hand, before 6.0 nothing is sent without a copy"),
        Some(version) if version < (6, 0) => {
            Check::new("kernel", Status::Warn, value).detail("before 6.0 nothing is sent without a copy")
        }
        Some(_) => Check::new("kernel", Status::Ok, value),
        None => {
            Check::new("kernel", Status::Warn, value).detail("the version is not a number that is known here")
        }
    }
}

fn parse_release(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

fn cores() -> Check {
    // What this process may use, which is what a control group or an affinity mask leaves of what is there.
    match std::thread::available_parallelism() {
        Ok(cores) if cores.get() == 1 => Check::new("cores", Status::Warn, "1 usable")
            .detail("producers and the pump take turns; the ring shows its worth from 2 on"),
        Ok(cores) => Check::new("cores", Status::Ok, format!("{cores} usable")),
        Err(error) => Check::new("cores", Status::Warn, "unknown").detail(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_as_distributions_write_them() {
        assert_eq!(parse_release("6.18.44-fc-v857"), Some((6, 18)));
        assert_eq!(parse_release("5.4.0-1103-aws"), Some((5, 4)));
        assert_eq!(parse_release("7.0"), Some((7, 0)));
        assert_eq!(parse_release("rolling"), None);
    }
}
