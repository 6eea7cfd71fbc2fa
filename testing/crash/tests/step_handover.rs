//! Whoever makes, gets, serves or gives up a region by a name is killed at each of its system calls.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![expect(clippy::print_stdout, reason = "figures for who asks for them")]

use transload_crash::handing::{Handing, Report, kill_at_each_call};
use transload_crash::victim::Victim;

fn report(handing: Handing, has_survivor: bool) -> Report {
    let report = kill_at_each_call(handing, &Victim::new(env!("CARGO_BIN_EXE_victim")), has_survivor);
    let Report { points, faults } = &report;
    println!(
        "{}: killed at {points} points; {} faults, the first: {:?}",
        handing.name(),
        faults.len(),
        faults.first()
    );
    report
}

fn survives(handing: Handing) {
    let report = report(handing, true);
    assert!(report.faults.is_empty() && report.points > 20, "{report:?}");
}

#[test]
fn create() {
    survives(Handing::Create);
}

#[test]
fn attach() {
    survives(Handing::Attach);
}

#[test]
fn leave() {
    survives(Handing::Leave);
}

#[test]
fn serve() {
    survives(Handing::Serve);
}

#[test]
fn serve_on() {
    survives(Handing::ServeOn);
}

#[test]
fn create_named() {
    survives(Handing::CreateNamed);
}

#[test]
fn replace_named() {
    survives(Handing::ReplaceNamed);
}

#[test]
fn open_named() {
    survives(Handing::OpenNamed);
}

#[test]
fn a_region_that_is_lost_is_noticed() {
    let report = report(Handing::Serve, false);
    assert_eq!(report.faults.len(), report.points, "{report:?}");
}
