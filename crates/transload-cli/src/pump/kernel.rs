//! The kernel that `--kernel` names, and where its outputs go.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use clap::builder::{OsStringValueParser, TypedValueParser};
use transload::device::{DeviceError, KernelFileError, KernelSource, Launch, Reply};
use transload::pump::OutputSink;
use transload_core::Counter;

use crate::failure::Failure;
use crate::framing::Unframer;

/// The least room for an output where nobody says how much there is to be.
const LEAST_OUTPUT_BYTES: usize = 64;

/// A file, and the name of a kernel in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KernelFile {
    pub(super) path: PathBuf,
    pub(super) entry: String,
}

/// Reads `FILE:NAME`. The names of files need not be text.
pub(super) fn file() -> impl TypedValueParser<Value = KernelFile> {
    OsStringValueParser::new().try_map(|word| parse(&word))
}

fn parse(word: &OsStr) -> Result<KernelFile, String> {
    const HOW: &str = "write it like checksum.cl:fnv1a, the file and the name of a kernel in it";
    let bytes = word.as_bytes();
    let colon = bytes.iter().rposition(|&byte| byte == b':').ok_or_else(|| format!("no name: {HOW}"))?;
    let (path, entry) = (&bytes[..colon], std::str::from_utf8(&bytes[colon + 1..]));
    let is_name = |entry: &&str| {
        let mut letters = entry.chars();
        let is_letter = |letter: char| letter.is_ascii_alphabetic() || letter == '_';
        letters.next().is_some_and(is_letter)
            && letters.all(|letter| is_letter(letter) || letter.is_ascii_digit())
    };
    match entry.ok().filter(is_name) {
        Some(_) if path.is_empty() => Err(format!("no file: {HOW}")),
        Some(entry) => Ok(KernelFile { path: OsStr::from_bytes(path).into(), entry: entry.to_owned() }),
        None => Err(format!("what stands behind the last colon is no name: {HOW}")),
    }
}

impl KernelFile {
    /// Reads the file.
    pub(super) fn read(&self) -> Result<KernelSource, Failure> {
        // SAFETY: whoever starts this program names the file, to have it run as a program of theirs; its kernel is launched
        // with batches only.
        let source = unsafe { KernelSource::open(&self.path, self.entry.clone()) };
        source.map_err(|error| match error {
            KernelFileError::Unknown { .. } => Failure::usage(error),
            error => Failure::new("kernel", error).fix("name a file that is there and that you may read"),
        })
    }
}

/// Why a kernel cannot be had. What the device lacks for it is in the error; another device is no remedy.
pub(super) fn not_built(error: DeviceError) -> Failure {
    let lacks = matches!(error, DeviceError::Unavailable { .. });
    let failure = Failure::from(error);
    if lacks { Failure { fix: None, ..failure } } else { failure }
}

/// The most bytes of output for a message of so many, where nobody says how many.
pub(super) fn default_output_bytes(message_size: usize) -> usize {
    message_size.max(LEAST_OUTPUT_BYTES).next_multiple_of(4)
}

/// Counts outputs, and writes them.
pub(super) struct Outputs {
    write: Option<Unframer<Box<dyn Write + Send>>>,
    bytes: Arc<Counter>,
}

impl Outputs {
    /// Into a file, if that is wanted; and what counts their bytes.
    pub(super) fn new(write: Option<Unframer<Box<dyn Write + Send>>>) -> (Self, Arc<Counter>) {
        let bytes = Arc::new(Counter::new());
        (Self { write, bytes: bytes.clone() }, bytes)
    }
}

impl OutputSink for Outputs {
    fn receive(&mut self, launch: &Launch) -> io::Result<()> {
        let mut bytes = 0;
        for reply in launch.replies() {
            let Reply::Output(output) = reply else { continue };
            bytes += output.len() as u64;
            if let Some(write) = &mut self.write {
                write.write_payload(output)?;
            }
        }
        // These messages count as delivered from now on, and a reader may wait for what became of them.
        self.finish()?;
        self.bytes.add_as_only_writer(bytes);
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        self.write.as_mut().map_or(Ok(()), Unframer::flush)
    }
}

#[cfg(test)]
mod tests {
    use transload::device::Backend;

    use super::*;
    use crate::failure::exit;

    #[test]
    fn a_kernel_is_a_file_and_a_name() {
        for (word, path, entry) in [
            ("a.cl:k", "a.cl", "k"),
            ("/x/y:z.spv:_main2", "/x/y:z.spv", "_main2"),
            ("C.cu:K_1", "C.cu", "K_1"),
        ] {
            let expected = KernelFile { path: path.into(), entry: entry.to_owned() };
            assert_eq!(parse(OsStr::new(word)), Ok(expected));
        }
        let odd = parse(OsStr::from_bytes(b"\xff.cl:k")).unwrap();
        assert_eq!(odd.path.as_os_str().as_bytes(), b"\xff.cl");
    }

    #[test]
    fn what_is_missing_is_said() {
        for (word, words) in [
            ("a.cl", "no name"),
            ("", "no name"),
            (":k", "no file"),
            ("a.cl:", "is no name"),
            ("a:b.cl", "is no name"),
            ("a.cl:1k", "is no name"),
            ("a.cl:k()", "is no name"),
        ] {
            let said = parse(OsStr::new(word)).unwrap_err();
            assert!(said.contains(words) && said.contains("checksum.cl:fnv1a"), "{word}: {said}");
        }
        assert!(parse(OsStr::from_bytes(b"a.cl:\xff")).unwrap_err().contains("is no name"));
    }

    #[test]
    fn what_is_not_to_be_had_ends_with_the_code_for_it() {
        let backend = Backend::Cuda;
        let lacks = DeviceError::Unavailable { backend, reason: "install NVRTC".to_owned() };
        let other = DeviceError::OtherLanguage { backend, language: "SPIR-V", takes: "PTX or CUDA C" };
        let none = DeviceError::NoSuchKernel { entry: "a".to_owned(), reason: "there is b".to_owned() };
        let log = DeviceError::Build { entry: "a".to_owned(), log: "line 1".to_owned() };
        for (error, kind, exit, fix) in [
            (lacks, "unavailable", exit::ABSENT, None),
            (
                DeviceError::Unsupported { what: "kernels" },
                "unavailable",
                exit::ABSENT,
                Some("--to opencl takes .cl"),
            ),
            (other, "kernel", exit::FAILURE, Some("--to cuda takes .ptx and .cu")),
            (none, "kernel", exit::FAILURE, None),
            (log, "kernel", exit::FAILURE, None),
        ] {
            let failure = not_built(error);
            assert_eq!((failure.kind, failure.exit), (kind, exit), "{failure:?}");
            assert_eq!(failure.fix.is_some(), fix.is_some(), "{failure:?}");
            assert!(failure.fix.as_ref().is_none_or(|text| text.contains(fix.unwrap())), "{failure:?}");
        }
    }

    #[test]
    fn outputs_have_room_for_the_message() {
        for (message_size, room) in [(1, 64), (64, 64), (65, 68), (256, 256), (1001, 1004)] {
            assert_eq!(default_output_bytes(message_size), room);
        }
    }
}
