//! The program itself, in a run too short to mean anything.

use std::process::{Command, Output};

fn ring(options: &[&str]) -> Output {
    bench("ring", options)
}

fn bench(what: &str, options: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_transload-bench"));
    command.arg(what).args(options).output().expect("the program starts")
}

fn two_cores() -> bool {
    let enough = std::thread::available_parallelism().is_ok_and(|cores| cores.get() >= 2);
    if !enough {
        println!("skipped: two cores are needed");
    }
    enough
}

#[test]
fn json_is_one_document_and_tables_have_every_part() {
    if !two_cores() {
        return;
    }
    let short = ["--quick", "--rounds", "1", "--run-ms", "1"];
    let output = ring(&[&short[..], &["--json"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
    assert_eq!(document["schema"], 1);
    assert_eq!(document["single"]["cells"].as_array().map(Vec::len), Some(9));
    assert_eq!(document["batch"]["cells"].as_array().map(Vec::len), Some(3));
    assert_eq!(document["early_claim"].as_array().map(Vec::len), Some(2));
    for cell in document["single"]["cells"].as_array().into_iter().flatten() {
        for column in cell["columns"].as_array().into_iter().flatten() {
            assert_eq!(column["rates"].as_array().map(Vec::len), Some(1), "{column}");
        }
    }

    let output = ring(&short);
    let tables = String::from_utf8(output.stdout).expect("text");
    for part in
        ["One message a call", "Batches of 64", "in place", "in one thread", "early-claim", "Thresholds"]
    {
        assert!(tables.contains(part), "{part} is missing in\n{tables}");
    }
    assert!(tables.contains("**Careful**: 1 rounds only"), "{tables}");
}

#[test]
fn the_pool_is_one_document_or_tables_too() {
    if !two_cores() {
        return;
    }
    let short = ["--quick", "--rounds", "1", "--run-ms", "1"];
    let output = bench("pool", &[&short[..], &["--json"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
    assert_eq!(document["threads"].as_array().map(Vec::len), Some(3));
    assert_eq!(document["flat"].as_array().map(Vec::len), Some(8));

    let tables = String::from_utf8(bench("pool", &short).stdout).expect("text");
    for part in ["# Pool", "tagged-head stack", "Size and filling", "Thresholds", "**Careful**"] {
        assert!(tables.contains(part), "{part} is missing in\n{tables}");
    }
}

#[test]
fn sockets_are_one_document_and_tables() {
    if !two_cores() {
        return;
    }
    let short = ["io", "--quick", "--rounds", "1", "--run-ms", "5"];
    let run = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_transload-bench"));
        let output = command.args(short).args(more).output().expect("the program starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    let document: serde_json::Value = serde_json::from_slice(&run(&["--json"])).expect("one JSON document");
    assert_eq!(document["receive"].as_array().map(Vec::len), Some(2));
    for receive in document["receive"].as_array().into_iter().flatten() {
        assert!(receive["rows"].as_array().is_some_and(|rows| rows.len() >= 2), "{receive}");
    }
    assert!(document["send"].as_array().is_some_and(|sends| sends.len() >= 3), "{document}");
    let tables = String::from_utf8(run(&[])).expect("text");
    for part in ["Received into slots", "Sent out of registered buffers", "Loop-back cannot show a gain"] {
        assert!(tables.contains(part), "{part} is missing in\n{tables}");
    }
}

#[test]
fn shared_memory_is_one_document_and_tables_and_leaves_nothing() {
    if !two_cores() {
        return;
    }
    // Of this test's own, to see what is left in it.
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("shm");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let run = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_transload-bench"));
        command.args(["shm", "--quick", "--rounds", "1", "--run-ms", "1"]).args(more).env("TMPDIR", &folder);
        let output = command.output().expect("the program starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    let document: serde_json::Value = serde_json::from_slice(&run(&["--json"])).expect("one JSON document");
    assert_eq!(document["schema"], 1);
    let rows = |table: &serde_json::Value| {
        let rows = table["rows"].as_array().cloned().unwrap_or_default();
        assert!(rows.iter().all(|row| row["nanoseconds"][0].as_f64().is_some_and(|ns| ns > 0.0)), "{table}");
        rows.len()
    };
    assert_eq!((rows(&document["trips"]), rows(&document["alone"])), (6, 5));
    let flows = document["flows"].as_array().cloned().unwrap_or_default();
    assert_eq!(flows.iter().map(rows).collect::<Vec<_>>(), [4, 4]);
    assert_eq!(document["targets"].as_array().map(Vec::len), Some(3));

    let tables = String::from_utf8(run(&[])).expect("text");
    for part in ["# Shared memory", "Round trip of 64 B", "One way, 4096 B", "In one process", "Thresholds"] {
        assert!(tables.contains(part), "{part} is missing in\n{tables}");
    }
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0, "something is left in {}", folder.display());
}

#[test]
fn devices_are_one_document_and_tables() {
    if !two_cores() {
        return;
    }
    let short = ["--quick", "--rounds", "1", "--run-ms", "1"];
    let output = bench("device", &[&short[..], &["--json"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
    assert_eq!(document["schema"], 1);
    assert_eq!(document["targets"].as_array().map(Vec::len), Some(2));
    for row in document["rows"].as_array().into_iter().flatten() {
        let shapes = if row["not_here"].is_null() { 4 } else { 0 };
        assert_eq!(row["shapes"].as_array().map(Vec::len), Some(shapes), "{row}");
    }
    assert_eq!(document["rows"][1]["to"], "host");
    assert!(document["rows"][1]["not_here"].is_null(), "the host is always here");

    let tables = String::from_utf8(bench("device", &short).stdout).expect("text");
    for part in ["# Devices", "## opencl", "## host", "take, memcpy", "Thresholds", "**Careful**"] {
        assert!(tables.contains(part), "{part} is missing in\n{tables}");
    }
}

#[test]
fn a_peer_without_an_errand_fails() {
    let output = bench("shm-peer", &["{}"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no errand"));
}

#[test]
fn options_without_sense_are_usage_errors() {
    for options in [&["--rounds", "0"][..], &["--run-ms", "0"], &["--spread", "wide"], &["--what"]] {
        let output = ring(options);
        assert_eq!(output.status.code(), Some(2), "{options:?}");
        assert!(output.stdout.is_empty(), "{options:?}");
    }
}
