//! Runs the real binary: with a watchdog, without the caller's settings, with both streams captured.
#![allow(dead_code, reason = "each test file uses its own part")]

#[cfg(target_os = "linux")]
pub(crate) mod cuda;
pub(crate) mod document;
pub(crate) mod filter;
pub(crate) mod kernel;
pub(crate) mod listening;
pub(crate) mod privilege;
pub(crate) mod receiver;
#[cfg(target_os = "linux")]
pub(crate) mod region;
pub(crate) mod send_document;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::Value;

pub(crate) const TRANSLOAD: &str = env!("CARGO_BIN_EXE_transload");

/// After this a run is killed, and its test fails.
const WATCHDOG: Duration = Duration::from_mins(1);

/// A run that is being prepared.
#[derive(Debug)]
pub(crate) struct Run {
    command: Command,
    input: Stdio,
    bytes: Option<Vec<u8>>,
    output: Stdio,
}

/// `transload` with these arguments.
pub(crate) fn transload<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Run {
    Run::of(Command::new(TRANSLOAD)).args(args)
}

/// `transload pump` with these arguments, onto the host unless they name another device.
pub(crate) fn pump(args: &[&str]) -> Run {
    transload(["pump"]).args(args).env("TRANSLOAD_TO", "host")
}

/// A shell command that finds the binary as `$TRANSLOAD`.
pub(crate) fn shell(command: &str) -> Run {
    let mut shell = Command::new("sh");
    // The variable's name is none that transload reads.
    shell.arg("-c").arg(command.replace("$TRANSLOAD", TRANSLOAD));
    Run::of(shell)
}

impl Run {
    pub(crate) fn of(mut command: Command) -> Self {
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("TRANSLOAD_") {
                command.env_remove(name);
            }
        }
        // An ordinary user's limits make warnings that no test is about.
        command.env("TRANSLOAD_LOG", "error");
        // Drivers keep compiled kernels.
        for (name, folder) in [
            ("POCL_CACHE_DIR", concat!(env!("CARGO_TARGET_TMPDIR"), "/pocl")),
            ("MESA_SHADER_CACHE_DIR", concat!(env!("CARGO_TARGET_TMPDIR"), "/mesa")),
        ] {
            if std::env::var_os(name).is_none() {
                command.env(name, folder);
            }
        }
        Self { command, input: Stdio::null(), bytes: None, output: Stdio::piped() }
    }

    pub(crate) fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.command.args(args);
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Every call for `io_uring` is answered with this error.
    pub(crate) fn without_uring(mut self, errno: i32) -> Self {
        filter::deny_io_uring(&mut self.command, errno);
        self
    }

    pub(crate) fn without_env(mut self) -> Self {
        self.command.env_clear();
        self
    }

    pub(crate) fn folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.command.current_dir(folder.into());
        self
    }

    /// Writes these bytes into its standard input, then closes that.
    pub(crate) fn input(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.bytes = Some(bytes.into());
        self.input = Stdio::piped();
        self
    }

    /// A standard input that the test holds.
    pub(crate) fn open_input(mut self) -> Self {
        self.input = Stdio::piped();
        self
    }

    pub(crate) fn input_from(mut self, input: impl Into<Stdio>) -> Self {
        self.input = input.into();
        self
    }

    /// A standard output that is not captured.
    pub(crate) fn output_to(mut self, output: impl Into<Stdio>) -> Self {
        self.output = output.into();
        self
    }

    pub(crate) fn start(mut self) -> Running {
        let mut child = self
            .command
            .stdin(self.input)
            .stdout(self.output)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{:?}: {error}", self.command));
        if let Some(bytes) = self.bytes {
            let mut input = child.stdin.take().expect("piped");
            // Ends when the child closes its end, at the latest when it is gone.
            thread::spawn(move || drop(input.write_all(&bytes)));
        }
        let stdout = child.stdout.take().map(collect);
        let stderr = child.stderr.take().map(collect);
        Running { child, stdout, stderr, what: format!("{:?}", self.command) }
    }

    pub(crate) fn done(self) -> Done {
        self.start().done()
    }
}

/// What a stream has given, by now or to its end.
#[derive(Debug)]
struct Collected {
    bytes: Arc<Mutex<Vec<u8>>>,
    thread: JoinHandle<()>,
}

fn collect(mut from: impl Read + Send + 'static) -> Collected {
    let bytes = Arc::new(Mutex::new(Vec::new()));
    let collected = bytes.clone();
    let thread = thread::spawn(move || {
        let mut piece = vec![0; 1 << 16];
        loop {
            match from.read(&mut piece).expect("a pipe can be read") {
                0 => break,
                read => collected.lock().expect("no panic").extend_from_slice(&piece[..read]),
            }
        }
    });
    Collected { bytes, thread }
}

/// A run under way. It is killed if the test ends before it.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) child: Child,
    stdout: Option<Collected>,
    stderr: Option<Collected>,
    what: String,
}

impl Running {
    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        // It may be gone already.
        let _ = rustix::process::kill_process(pid, signal);
    }

    /// Stops it, and waits until all of its threads are stopped: the signal alone only asks for that.
    pub(crate) fn stop(&self) {
        use rustix::process::{Signal, WaitId, WaitIdOptions, waitid};

        self.signal(Signal::STOP);
        let pid = rustix::process::Pid::from_child(&self.child);
        waitid(WaitId::Pid(pid), WaitIdOptions::STOPPED).expect("a child that can be stopped");
    }

    /// Whether it has a thread of this name (as the kernel shortens it) by now.
    pub(crate) fn has_thread(&self, name: &str) -> bool {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).into_iter().flatten();
        tasks.flatten().any(|task| {
            std::fs::read_to_string(task.path().join("comm")).is_ok_and(|comm| comm.trim_end() == name)
        })
    }

    /// What it has said on its standard error by now.
    pub(crate) fn stderr_so_far(&self) -> String {
        let bytes = self.stderr.as_ref().map(|stderr| stderr.bytes.lock().expect("no panic").clone());
        String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned()
    }

    /// Waits until it pumps: from then on it catches signals.
    pub(crate) fn pumps(&mut self) {
        wait_until("the pump's thread", || {
            assert!(self.child.try_wait().expect("a child").is_none(), "{} has ended", self.what);
            self.has_thread("transload-pump")
        });
    }

    /// Waits for its end, not longer than the watchdog allows.
    pub(crate) fn done(mut self) -> Done {
        drop(self.child.stdin.take());
        let until = Instant::now() + WATCHDOG;
        let status = loop {
            match self.child.try_wait().expect("a child can be waited for") {
                Some(status) => break status,
                None if Instant::now() >= until => {
                    let _ = self.child.kill();
                    let _ = self.child.wait();
                    let stderr = self.stderr.take().map(taken).unwrap_or_default();
                    panic!("{} did not end: {}", self.what, String::from_utf8_lossy(&stderr));
                }
                None => thread::sleep(Duration::from_millis(2)),
            }
        };
        let stdout = self.stdout.take().map(taken).unwrap_or_default();
        let stderr = String::from_utf8_lossy(&self.stderr.take().map(taken).unwrap_or_default()).into_owned();
        assert!(!stderr.contains("panicked"), "{}: {stderr}", self.what);
        Done { what: self.what.clone(), status, stdout, stderr }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn taken(collected: Collected) -> Vec<u8> {
    collected.thread.join().expect("the reader of a pipe");
    std::mem::take(&mut *collected.bytes.lock().expect("no panic"))
}

pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + WATCHDOG;
    while !is_so() {
        assert!(Instant::now() < until, "{what} did not come");
        thread::sleep(Duration::from_millis(2));
    }
}

/// What a run has left.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) what: String,
    pub(crate) status: ExitStatus,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl Done {
    pub(crate) fn code(self, expected: i32) -> Self {
        let Self { what, status, stderr, stdout } = &self;
        let signal = status.signal();
        assert_eq!(
            (status.code(), signal),
            (Some(expected), None),
            "{what}: {stderr}{}",
            String::from_utf8_lossy(&stdout[..stdout.len().min(2000)])
        );
        self
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).expect("text")
    }

    /// The document on its standard output, checked.
    pub(crate) fn json(&self) -> Value {
        document::parse(self.text())
    }

    /// The document that stands last on its standard error, checked.
    pub(crate) fn json_of_stderr(&self) -> Value {
        document::parse(self.stderr.lines().last().unwrap_or_default())
    }

    /// Both streams hold nothing that alarms.
    pub(crate) fn quiet(self) -> Self {
        for word in ["transload:", "Broken", "WARN", "ERROR"] {
            assert!(!self.stderr.contains(word), "{}: {}", self.what, self.stderr);
        }
        self
    }
}

/// A number of the document.
pub(crate) fn count(document: &Value, name: &str) -> u64 {
    document[name].as_u64().unwrap_or_else(|| panic!("{name} is no number in {document}"))
}

/// Says that a test cannot run here. The name is the test's own path; one line a test.
#[allow(clippy::print_stdout, reason = "the runner shows it")]
pub(crate) fn skip(name: &str, why: &str) {
    let line = format!("SKIPPED {name}: {why}\n");
    print!("{line}");
    if let Some(path) = std::env::var_os("TRANSLOAD_SKIPS") {
        let mut file = File::options().create(true).append(true).open(path).expect("the list of skips");
        // One write: lines of tests that run side by side do not mix.
        file.write_all(line.as_bytes()).expect("the list of skips");
    }
}

/// Whether `doctor` finds this here.
pub(crate) fn has_check(name: &str) -> bool {
    let report: Value =
        serde_json::from_slice(&transload(["doctor", "--json", "--quick"]).done().code(0).stdout)
            .expect("one document of JSON");
    let checks = report["checks"].as_array().expect("checks");
    checks.iter().any(|check| check["name"] == name && check["status"] == "ok")
}

/// Whether there is an OpenCL device to test with, or a line that says that there is none.
pub(crate) fn opencl_or_skip(test: &str) -> bool {
    device_or_skip("opencl", test)
}

/// Whether there is a Vulkan device to test with, or a line that says that there is none.
pub(crate) fn vulkan_or_skip(test: &str) -> bool {
    device_or_skip("vulkan", test)
}

/// Whether there is a device of this back end, by its name: of one whose driver runs on any processor, or the host.
pub(crate) fn device_or_skip(backend: &str, test: &str) -> bool {
    let packages = match backend {
        "opencl" => "pocl-opencl-icd and ocl-icd-libopencl1",
        "vulkan" => "mesa-vulkan-drivers and libvulkan1",
        _ => return true,
    };
    let there = has_check(backend);
    if !there {
        skip(test, &format!("no {backend} device; install {packages}"));
    }
    there
}

/// Bytes that do not repeat in any short distance.
pub(crate) fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        bytes.extend_from_slice(&(state ^ (state >> 29)).to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// Compares without printing megabytes.
pub(crate) fn assert_same(actual: &[u8], expected: &[u8], what: &str) {
    let differs = actual.iter().zip(expected).position(|(one, other)| one != other);
    assert!(
        actual.len() == expected.len() && differs.is_none(),
        "{what}: {} bytes instead of {}, the first difference at {differs:?}",
        actual.len(),
        expected.len()
    );
}

/// A path as an argument.
pub(crate) fn arg(path: impl Into<OsString>) -> String {
    path.into().into_string().expect("a path of text")
}
