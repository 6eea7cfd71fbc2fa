//! What comes back from the device: the messages, what its own check finds, or what a kernel makes of them.

use std::io;
use std::sync::Arc;

use transload::device::{Backend, Device, Kernel, Launch, Reply};
use transload::pump::{KernelOptions, OnFull, OutputSink, Pump};
use transload_core::{Counter, Flag};

use super::args::PumpArgs;
use super::check::{By, Check, Counts};
use super::kernel::{Outputs, default_output_bytes};
use super::report::{Document, KernelWords, VerifiedOn};
use super::sink::{self, ReadBack};
use crate::failure::Failure;
use crate::finding::Finding;

/// Up to how many bytes of a message are checked on the device. Each is checked by one run of a kernel, byte by byte, and
/// drivers end runs that take seconds.
const MOST_ON_DEVICE: usize = 1 << 20;

/// A pump with what comes back, and what counts it.
pub(super) struct Back {
    pub(super) pump: Pump,
    pub(super) document: Document,
    pub(super) counts: Option<Arc<Counts>>,
    pub(super) output_bytes: Option<Arc<Counter>>,
}

impl Back {
    /// What goes through the user's kernel, or is checked, or is written.
    pub(super) fn new(
        args: &PumpArgs,
        device: &dyn Device,
        pump: Pump,
        kernel: Option<Kernel>,
        by: Option<By>,
        unended: &Arc<Flag>,
    ) -> Result<Self, Failure> {
        let mut document = Document::of_device(device, pump.region());
        let framing = args.framing();
        let open = |unended| args.read_back.as_ref().map(|to| sink::open(to, framing, unended)).transpose();
        if let (Some(kernel), Some(file)) = (kernel, &args.kernel) {
            // Each output is a line of its own, with an end.
            let (outputs, bytes) = Outputs::new(open(Arc::default())?);
            let output_bytes = args.output_bytes.unwrap_or(default_output_bytes(args.message_size));
            let options = KernelOptions { output_bytes, prefix_bytes: framing.prefix_bytes() };
            document.kernel =
                Some(KernelWords { file: file.path.display().to_string(), entry: file.entry.clone() });
            let pump = pump.through_kernel(device, kernel, options, outputs)?;
            return Ok(Self { pump, document, counts: None, output_bytes: Some(bytes) });
        }
        let on_device = by.as_ref().map(|by| checker(args, device, by));
        let (check, counts) = by.map(|by| Check::new(by, args.on_full != OnFull::Block)).unzip();
        let pump = match (check, on_device) {
            (Some(check), Some(Ok(kernel))) => {
                document.verified_on = Some(VerifiedOn::Device);
                let options =
                    KernelOptions { output_bytes: Finding::BYTES, prefix_bytes: framing.prefix_bytes() };
                pump.through_kernel(device, kernel, options, Findings(check))?
            }
            (check, on_device) => {
                document.verified_on = check.as_ref().map(|_| VerifiedOn::Host);
                document.verified_on_host_because = on_device.and_then(Result::err);
                let write = open(unended.clone())?;
                if check.is_some() || write.is_some() {
                    pump.read_back(device, ReadBack { check, write })?
                } else {
                    pump
                }
            }
        };
        Ok(Self { pump, document, counts, output_bytes: None })
    }
}

/// The kernel that checks on the device, or why none does.
fn checker(args: &PumpArgs, device: &dyn Device, by: &By) -> Result<Kernel, String> {
    let backend = device.info().backend;
    if matches!(by, By::Digest(_)) {
        return Err("only generated messages can be checked without what was sent".to_owned());
    }
    if args.read_back.is_some() {
        return Err("the messages are read back all the same".to_owned());
    }
    if backend == Backend::Host {
        return Err("that is the device".to_owned());
    }
    if args.message_size > MOST_ON_DEVICE {
        return Err(format!(
            "a message of {} bytes keeps one run of a kernel too long; up to {MOST_ON_DEVICE} are checked there",
            args.message_size
        ));
    }
    let source = Finding::kernel(backend).ok_or_else(|| format!("{backend} runs no kernels here"))?;
    device.build(&source).map_err(|error| error.to_string().lines().collect::<Vec<_>>().join(" "))
}

/// Takes what the device has found in each message.
struct Findings(Check);

impl OutputSink for Findings {
    fn receive(&mut self, launch: &Launch) -> io::Result<()> {
        for reply in launch.replies() {
            let found = match reply {
                Reply::Output(record) => Finding::read(record),
                Reply::Dropped | Reply::TooLong { .. } => None,
            };
            self.0.finding(found);
        }
        Ok(())
    }

    fn lost(&mut self, _: usize) {
        self.0.lost();
    }
}

#[cfg(test)]
mod tests {
    use transload::device::host::{Host, HostKernel};
    use transload::device::{self, Driver, KernelSource};
    use transload::pump::PumpOptions;
    use transload::staging::PinnedStagingBuffer;

    use super::*;
    use crate::pattern::{Pattern, PatternCheck};

    /// Sends messages through a kernel that checks them: how many are right, and how many are not.
    fn checked(device: &dyn Device, source: &KernelSource, size: usize, messages: &[Vec<u8>]) -> (u64, u64) {
        let kernel = device.build(source).unwrap();
        let (producer, consumer) = PinnedStagingBuffer::new(4096, size).unwrap().split();
        let pattern = Pattern::new(size, 2).unwrap();
        let (check, counts) = Check::new(By::Pattern(PatternCheck::new(pattern)), false);
        let options = KernelOptions { output_bytes: Finding::BYTES, prefix_bytes: 0 };
        let pump = Pump::open(device, consumer, PumpOptions::default()).unwrap();
        let pump = pump.through_kernel(device, kernel, options, Findings(check)).unwrap();
        for message in messages {
            producer.try_enqueue(message).unwrap();
        }
        drop(producer);
        let report = pump.run();
        assert_eq!((report.delivered, report.filtered), (messages.len() as u64, 0), "{:?}", report.error);
        (counts.verified.value(), counts.corrupt.value())
    }

    fn generated(size: usize, count: u64) -> Vec<Vec<u8>> {
        let pattern = Pattern::new(size, 2).unwrap();
        let message = |number| {
            let mut message = vec![0xAA; size];
            pattern.fill(number % 2, number / 2, &mut message);
            message
        };
        (0..count).map(message).collect()
    }

    /// What the host finds, one message after the other.
    fn expected(size: usize, messages: &[Vec<u8>]) -> (u64, u64) {
        let mut check = PatternCheck::new(Pattern::new(size, 2).unwrap());
        let right =
            messages.iter().filter(|message| check.accepts(Finding::of(message), false)).count() as u64;
        (right, messages.len() as u64 - right)
    }

    /// Whatever is generated is right; each message with a flipped bit, a message twice and one left out are not.
    fn finds_what_is_wrong(device: &dyn Device, source: &KernelSource) {
        for size in [2, 7, 8, 9, 16, 61, 256] {
            let right = generated(size, 200);
            assert_eq!(checked(device, source, size, &right), (200, 0), "{size}");
            let mut wrong = right.clone();
            for (nth, message) in wrong.iter_mut().enumerate() {
                let bit = nth * 37 % (size * 8);
                message[bit / 8] ^= 1 << (bit % 8);
            }
            let found = checked(device, source, size, &wrong);
            assert_eq!(found, expected(size, &wrong), "{size}");
            assert!(size < 9 || found.1 > 190, "{size}: {found:?}");
            let mut wrong = right.clone();
            wrong[100] = wrong[98].clone();
            wrong.remove(50);
            let found = checked(device, source, size, &wrong);
            assert_eq!(found, expected(size, &wrong), "{size}");
            assert!(found.1 >= 2, "{size}: {found:?}");
        }
    }

    #[test]
    fn findings_of_the_host_are_those_of_its_own_check() {
        finds_what_is_wrong(&*Host.open(0).unwrap(), &Finding::host_kernel());
    }

    /// Where there is a device that runs kernels; the tests of the command say where there is none.
    #[test]
    fn each_device_finds_what_is_wrong() {
        for backend in [Backend::OpenCl, Backend::Vulkan, Backend::Cuda] {
            let selector = device::Selector::Device { backend, index: 0 };
            let Ok(device) = device::open(&selector) else { continue };
            let source = Finding::kernel(backend).unwrap();
            if device.build(&source).is_ok() {
                finds_what_is_wrong(&*device, &source);
            }
        }
    }

    /// A kernel that spoils what it is given, leaves records out, or writes none, does not pass for one that checks.
    #[test]
    fn broken_kernels_are_caught() {
        let device = Host.open(0).unwrap();
        let source = |kernel| KernelSource::host(kernel, "broken");
        let zeros = HostKernel::per_message(|_, output| {
            output.fill(0);
            Some(Finding::BYTES)
        });
        let none = HostKernel::per_message(|_, _| Some(0));
        let spoils = HostKernel::per_message(|message, output| {
            let stamp = message.first_chunk::<8>().unwrap();
            output[..8].copy_from_slice(stamp);
            output[8..12].copy_from_slice(&16_u32.to_le_bytes());
            // All but the first: as if that had been changed on its way.
            output[12..16].copy_from_slice(&u32::from(*stamp != [0; 8]).to_le_bytes());
            Some(Finding::BYTES)
        });
        for (kernel, right) in [(zeros, 0), (none, 0), (spoils, 98)] {
            let found = checked(&*device, &source(kernel), 16, &generated(16, 100));
            assert_eq!(found, (right, 100 - right));
        }
    }
}
