//! `transload doctor`, run as people run it: as root, as nobody, under filters, into closed pipes.
#![cfg(target_os = "linux")]

mod common;

use std::{
    fs, io,
    path::Path,
    process::{Command, Output, Stdio},
};

use serde_json::Value;

const TRANSLOAD: &str = env!("CARGO_BIN_EXE_transload");
const NAMES: [&str; 19] = [
    "kernel",
    "cores",
    "numa",
    "transparent_huge_pages",
    "memlock",
    "shared_memory",
    "io_uring",
    "io_uring.multishot-accept",
    "io_uring.multishot-receive",
    "io_uring.zero-copy-send",
    "io_uring.fixed-buffers",
    "io_uring.linked-sends",
    "io_uring.single-issuer",
    "io_backend",
    "io_registration",
    "opencl",
    "vulkan",
    "cuda",
    "host:0",
];

fn doctor(args: &[&str]) -> Command {
    let mut command = Command::new(TRANSLOAD);
    command.arg("doctor").args(args).env_remove("TRANSLOAD_JSON");
    command
}

/// What it printed; it must have succeeded, silently but for the report.
fn stdout(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().expect("starts");
    let stderr = String::from_utf8_lossy(&stderr);
    assert!(!stderr.contains("panicked"), "{stderr}");
    assert!(status.success(), "{status}: {stderr}");
    String::from_utf8(stdout).expect("text")
}

fn document(command: &mut Command) -> Value {
    let document: Value = serde_json::from_str(&stdout(command)).expect("one JSON document");
    assert_eq!(document["schema"], 1);
    document
}

fn report(command: &mut Command) -> Vec<Value> {
    document(command)["checks"].as_array().expect("checks").clone()
}

fn named<'a>(checks: &'a [Value], name: &str) -> &'a Value {
    let mut found = checks.iter().filter(|check| check["name"] == name);
    let check = found.next().unwrap_or_else(|| panic!("{name} is missing in {checks:?}"));
    assert!(found.next().is_none(), "{name} is there twice");
    check
}

fn text<'a>(check: &'a Value, field: &str) -> &'a str {
    check[field].as_str().unwrap_or_else(|| panic!("{field} is no text in {check}"))
}

#[test]
fn json_has_each_check_once_with_all_fields() {
    let checks = report(&mut doctor(&["--json"]));
    for name in NAMES {
        named(&checks, name);
    }
    assert!(checks.iter().any(|check| text(check, "name").starts_with("huge_pages")), "{checks:?}");
    for check in &checks {
        named(&checks, text(check, "name"));
        assert_eq!(check.as_object().expect("object").len(), 5, "{check}");
        assert!(["ok", "warn", "absent", "fail"].contains(&text(check, "status")), "{check}");
        assert!(!text(check, "value").is_empty(), "{check}");
        assert!(
            check["detail"].is_string() && (check["fix"].is_null() || check["fix"].is_string()),
            "{check}"
        );
    }
}

#[test]
fn the_variable_asks_for_json_too() {
    let checks = report(doctor(&[]).env("TRANSLOAD_JSON", "1"));
    named(&checks, "kernel");
    assert!(stdout(&mut doctor(&["--help"])).contains("TRANSLOAD_JSON"));
}

/// The devices that are listed can be pumped to by the names that they are listed with.
fn lists_its_devices(backend: &str) {
    let checks = report(&mut doctor(&["--json", "--quick"]));
    let check = named(&checks, backend);
    let (first, next) = (format!("{backend}:"), format!(", {backend}:"));
    let listed = text(check, "value").strip_prefix(&first).expect("a device");
    let devices: Vec<&str> = listed.split(&next).collect();
    for device in &devices {
        let (index, name) = device.split_once(' ').expect("a number and a name");
        let (name, kind) = name.rsplit_once(" (").expect("a kind");
        assert!(["Gpu)", "Cpu)", "Accelerator)"].contains(&kind), "{check}");
        let to = format!("{backend}:{index}");
        let document = common::pump(&["--to", &to, "--messages", "10", "--json"]).done().code(0).json();
        assert_eq!(document["device"]["name"], name);
    }
    let count = devices.len();
    let done = common::pump(&["--to", &format!("{backend}:{count}")]).done().code(4);
    assert!(done.stderr.contains(&format!("{backend} has {count}")), "{}", done.stderr);
}

#[test]
fn opencl_devices_are_listed_with_their_names_where_there_is_a_driver() {
    if common::opencl_or_skip("doctor::opencl_devices_are_listed_with_their_names_where_there_is_a_driver") {
        lists_its_devices("opencl");
    }
}

#[test]
fn vulkan_devices_are_listed_with_their_names_where_there_is_a_driver() {
    if common::vulkan_or_skip("doctor::vulkan_devices_are_listed_with_their_names_where_there_is_a_driver") {
        lists_its_devices("vulkan");
    }
}

/// Each device that a driver lists has a line of its own, and an entry with numbers, measured or not.
#[test]
fn each_device_is_told_with_how_it_reaches_memory_and_how_fast() {
    for quick in [false, true] {
        let args = if quick { &["--json", "--quick"][..] } else { &["--json"] };
        let document = document(doctor(args).env("POCL_DEVICES", "pthread pthread"));
        let checks = document["checks"].as_array().expect("checks");
        let devices = document["devices"].as_array().expect("devices");
        let names: Vec<&str> = devices.iter().map(|device| text(device, "name")).collect();
        assert_eq!(names.last(), Some(&"host:0"), "{names:?}");
        for device in devices {
            assert_eq!(device.as_object().expect("object").len(), 9, "{device}");
            let check = named(checks, text(device, "name"));
            let said = format!("{} {}", text(check, "value"), text(check, "detail"));
            assert!(said.contains(text(device, "description")), "{said}");
            assert!(["host", "gpu", "cpu", "accelerator"].contains(&text(device, "kind")), "{device}");
            assert_eq!(said.contains("emulates"), device["kind"] == "cpu", "{said}");
            let fails = device["error"].is_string();
            assert_eq!(text(check, "status"), if fails { "warn" } else { "ok" }, "{check}");
            if fails {
                continue;
            }
            let memory = &device["memory"];
            let registration = text(memory, "registration");
            assert!(["pinned", "mapped", "staged"].contains(&registration), "{device}");
            assert_eq!(memory["reason"].is_string(), registration == "staged", "{device}");
            assert_eq!(memory["bytes"], 4 << 20);
            assert!(memory["seconds"].as_f64().is_some_and(|seconds| seconds >= 0.0), "{device}");
            assert!(said.contains(&format!("memory {registration}")), "{said}");
            assert_eq!(device["rates"].is_null(), quick, "{device}");
            assert_eq!(device["mapped_up_to_bytes"].is_null(), quick, "{device}");
            assert_eq!(said.contains("GB/s to it"), !quick, "{said}");
            for name in ["upload_bytes_per_second", "download_bytes_per_second"] {
                assert!(quick || device["rates"][name].as_f64().is_some_and(|rate| rate > 1e6), "{device}");
            }
        }
        if common::opencl_or_skip("doctor::each_device_is_told_with_how_it_reaches_memory_and_how_fast") {
            assert!(names.contains(&"opencl:0") && names.contains(&"opencl:1"), "{names:?}");
        }
        if common::vulkan_or_skip("doctor::each_device_is_told_with_how_it_reaches_memory_and_how_fast") {
            assert!(names.contains(&"vulkan:0"), "{names:?}");
        }
        // Mesa's device on the processor takes the pages of a slab as its own memory.
        for device in devices.iter().filter(|device| text(device, "description").starts_with("llvmpipe")) {
            assert_eq!(device["memory"]["registration"], "mapped", "{device}");
        }
    }
}

#[test]
fn text_has_a_line_with_mark_and_word_for_each_check() {
    let checks = report(&mut doctor(&["--json"]));
    let printed = stdout(&mut doctor(&[]));
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines.len(), checks.len() + 1, "{printed}");
    for (line, check) in lines.iter().zip(&checks) {
        let status = text(check, "status");
        let mark = match status {
            "ok" => "[+]",
            "warn" => "[!]",
            "absent" => "[-]",
            _ => "[x]",
        };
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(words[..3], [mark, status, text(check, "name")], "{line}");
        assert_eq!(line.contains(" -> "), check["fix"].is_string(), "{line}");
    }
    assert!(lines[checks.len()].ends_with(" 0 failed"), "{printed}");
}

#[test]
fn what_the_kernel_says_is_what_is_printed() {
    let checks = report(&mut doctor(&["--json"]));
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    assert!(text(named(&checks, "kernel"), "value").contains(release.trim()));
    let enabled = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    let mode = enabled.split(['[', ']']).nth(1).unwrap_or("absent");
    assert_eq!(text(named(&checks, "transparent_huge_pages"), "value"), mode);
    if let Ok(pages) = fs::read_to_string("/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages") {
        let value = text(named(&checks, "huge_pages_1g"), "value");
        assert!(value.starts_with(&format!("{} reserved", pages.trim())), "{value}");
    }
}

#[test]
fn nobody_with_a_narrow_limit_sees_it_with_the_need() {
    if !rustix::process::geteuid().is_root() || Command::new("setpriv").arg("--version").output().is_err() {
        common::skip(
            "doctor::nobody_with_a_narrow_limit_sees_it_with_the_need",
            "needs root and setpriv (util-linux)",
        );
        return;
    }
    // The program may lie where nobody may not go.
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("transload");
    fs::copy(TRANSLOAD, &copy).unwrap();
    let open = <fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o755);
    fs::set_permissions(folder.path(), open).unwrap();
    let run = |args: &[&str]| {
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps=-all"])
            .args(["--bounding-set=-all", "prlimit", "--memlock=65536:65536"])
            .arg(&copy)
            .arg("doctor")
            .args(args);
        command
    };
    let checks = report(&mut run(&["--json"]));
    let memlock = named(&checks, "memlock");
    assert_eq!(memlock["status"], "warn");
    assert!(text(memlock, "value").starts_with("soft 65536 bytes, hard 65536 bytes, used 0"), "{memlock}");
    assert!(text(memlock, "value").ends_with("CAP_IPC_LOCK no"), "{memlock}");
    assert!(text(memlock, "detail").contains("needs 4194304 bytes"), "{memlock}");
    assert_eq!(text(memlock, "fix"), "sudo prlimit --pid $$ --memlock=4194304:4194304");
    let printed = stdout(&mut run(&[]));
    let line = printed.lines().find(|line| line.contains(" memlock ")).expect("a line");
    assert!(line.contains("65536") && line.contains("4194304"), "{line}");
}

#[test]
fn io_uring_denied_says_by_whom() {
    for (errno, status, words) in
        [(libc::EPERM, "warn", "denied by policy"), (libc::ENOSYS, "absent", "not known")]
    {
        let mut command = doctor(&["--json"]);
        common::filter::deny_io_uring(&mut command, errno);
        let checks = report(&mut command);
        let check = named(&checks, "io_uring");
        assert_eq!(text(check, "status"), status, "{check}");
        assert!(text(check, "value").starts_with(words), "{check}");
        assert!(text(check, "detail").contains("readiness"), "{check}");
        assert!(text(check, "fix").contains("seccomp=unconfined"), "{check}");
        // Each feature says what is done without it, and what does the work says why.
        let features = checks.iter().filter(|check| text(check, "name").starts_with("io_uring."));
        let without = features.map(|check| (text(check, "status"), text(check, "detail").len() > 20));
        assert_eq!(without.collect::<Vec<_>>(), [("absent", true); 6]);
        let backend = named(&checks, "io_backend");
        assert_eq!((text(backend, "status"), text(backend, "value")), ("ok", "readiness"), "{backend}");
        assert!(text(backend, "detail").contains("io_uring_setup"), "{backend}");
        assert_eq!(text(named(&checks, "io_registration"), "status"), "absent");
    }
}

/// What doctor says is what `send` finds.
#[test]
fn the_back_end_is_the_one_that_sends() {
    let checks = report(&mut doctor(&["--json"]));
    let receiver = common::receiver::Receiver::tcp(1);
    let args = ["send", "--to", &receiver.address, "--messages", "10", "--json"];
    let document = common::send_document::parse(common::transload(args).done().code(0).text());
    assert_eq!(receiver.one().len(), 2560);
    let backend = named(&checks, "io_backend");
    assert_eq!(document["io"]["backend"], text(backend, "value"));
    assert_eq!(document["io"]["why"], text(backend, "detail"));
    let is_pinned = text(named(&checks, "io_registration"), "status") == "ok";
    assert_eq!(document["memory"]["registration"] == "pinned", is_pinned, "{document}");
}

#[test]
fn nobody_without_memory_for_a_ring_sees_why() {
    let Some(nobody) = common::privilege::Nobody::new() else {
        common::skip("doctor::nobody_without_memory_for_a_ring_sees_why", common::privilege::WHY);
        return;
    };
    let program = nobody.folder.path().join("transload");
    // A user of its own: the limit is one of all processes of a user together.
    let run = |memlock: &str| {
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid", "64712", "--regid", "64712", "--clear-groups", "--inh-caps=-all"])
            .args(["--bounding-set=-all", "prlimit", &format!("--memlock={memlock}:{memlock}")])
            .arg(&program)
            .args(["doctor", "--json"]);
        report(&mut command)
    };
    let checks = run("4096");
    let ring = named(&checks, "io_uring");
    assert_eq!(text(named(&checks, "io_backend"), "value"), "readiness");
    if text(ring, "value").starts_with("no memory") {
        assert_eq!(text(ring, "status"), "warn", "{ring}");
        assert!(text(ring, "detail").contains("RLIMIT_MEMLOCK allows 4096 bytes"), "{ring}");
        assert!(text(ring, "fix").contains("memlock=4259840"), "{ring}");
    }
    let checks = run("262144");
    if text(named(&checks, "io_uring"), "status") == "ok" {
        let registration = named(&checks, "io_registration");
        assert_eq!(text(registration, "status"), "warn", "{registration}");
        assert!(text(registration, "detail").contains("4194304 bytes"), "{registration}");
        assert!(text(registration, "fix").contains("memlock=4259840"), "{registration}");
    }
}

/// `doctor` has one calm line for a driver that is not there, and `pump` says the same with its exit code.
#[track_caller]
fn is_one_calm_line(backend: &str, variable: (&str, &Path), status: &str, words: &[&str]) {
    let (name, value) = variable;
    let document = document(doctor(&["--json"]).env(name, value));
    let checks = document["checks"].as_array().expect("checks");
    let device = format!("{backend}:");
    assert!(!checks.iter().any(|check| text(check, "name").starts_with(&device)), "{checks:?}");
    let check = named(checks, backend);
    assert_eq!(text(check, "status"), status, "{check}");
    let said = format!("{}; {}", text(check, "value"), text(check, "detail"));
    for word in words {
        assert!(said.contains(word), "{said}");
    }
    // The same in words: exit code 0, nothing on the standard error.
    let output = doctor(&["--quick"]).env(name, value).output().expect("starts");
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    let lines = String::from_utf8(output.stdout).expect("text");
    let line = lines.lines().filter(|line| line.split_whitespace().nth(2) == Some(backend));
    assert!(line.eq(lines.lines().filter(|line| line.contains(&said))), "{lines}");
    // To be asked for is a failure, in two lines.
    let done = common::pump(&["--to", backend]).env(name, value).done().code(4);
    assert!(done.stderr.starts_with(&format!("transload: {backend} is not available: ")), "{}", done.stderr);
    assert!(done.stderr.contains("to do: transload doctor"), "{}", done.stderr);
    assert_eq!((done.stderr.lines().count(), done.text()), (2, ""));
}

#[test]
fn a_broken_driver_is_one_calm_line() {
    for (backend, library) in [("cuda", "libcuda.so.1"), ("vulkan", "libvulkan.so.1")] {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(library), "").unwrap();
        let words = [&*format!("{library} cannot be used"), "file too short"];
        is_one_calm_line(backend, ("LD_LIBRARY_PATH", folder.path()), "warn", &words);
    }
}

/// A loader of Vulkan is of no use by itself.
#[test]
fn a_loader_that_finds_no_driver_is_one_calm_line() {
    if !common::vulkan_or_skip("doctor::a_loader_that_finds_no_driver_is_one_calm_line") {
        return;
    }
    for variable in ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"] {
        let words = ["libvulkan.so.1 found", "finds no driver", "mesa-vulkan-drivers"];
        is_one_calm_line("vulkan", (variable, Path::new("/not/there.json")), "absent", &words);
    }
}

#[test]
fn a_closed_pipe_ends_it_quietly() {
    for args in [&[][..], &["--json"]] {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let output = doctor(args).stdout(writer).stderr(Stdio::piped()).output().unwrap();
        assert!(output.status.success(), "{:?}", output.status);
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn a_full_disk_is_an_error_that_says_so() {
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = doctor(&[]).stdout(full).stderr(Stdio::piped()).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("No space left on device") && !stderr.contains("panicked"), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
}
