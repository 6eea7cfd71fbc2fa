//! A use of all that the back end has, in which each call may be refused once.

use transload::device::cuda::CudaDevice;
use transload::device::{
    Code, CopyError, Device, DeviceError, Download, Fill, Kernel, KernelSource, Landing, Launch, Output,
    Refused, Reply, Stream, StreamOptions, Ticket, Transfer, Upload,
};
use transload::memory::{Policy, Slab};
use transload::region::{Access, Region, Registrar};
use transload::staging::{Consumer, PinnedStagingBuffer, Producer};
use transload_conformance::device::next;

/// What the driver can refuse.
pub(crate) const CALLS: [&str; 19] = [
    "cuInit",
    "cuDeviceGetCount",
    "cuDeviceGet",
    "cuDevicePrimaryCtxRetain",
    "cuStreamCreate",
    "cuEventCreate",
    "cuEventRecord",
    "cuEventQuery",
    "cuMemAlloc_v2",
    "cuMemHostAlloc",
    "cuMemHostRegister_v2",
    "cuMemHostGetDevicePointer_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemsetD32Async",
    "cuModuleLoadDataEx",
    "cuModuleGetFunction",
    "cuFuncGetAttribute",
    "cuLaunchKernel",
];

/// What releases, or is called for it.
pub(crate) const RELEASES: [&str; 9] = [
    "cuDevicePrimaryCtxRelease_v2",
    "cuStreamDestroy_v2",
    "cuEventDestroy_v2",
    "cuMemFree_v2",
    "cuMemFreeHost",
    "cuMemHostUnregister",
    "cuModuleUnload",
    "cuCtxGetCurrent",
    "cuCtxPushCurrent_v2",
];

const SIZE: usize = 64;
const MESSAGES: usize = 8;

/// What is refused once is not refused twice.
fn again<T, E: std::fmt::Debug>(mut what: impl FnMut() -> Result<T, E>) -> T {
    what().or_else(|_| what()).unwrap()
}

struct Use {
    device: CudaDevice,
    stream: Box<dyn Stream>,
    kernel: Kernel,
    region: Region,
    producer: Producer,
    consumer: Consumer,
    sent: u8,
}

/// Uploads, downloads, fills and launches, each tried again if it is refused or fails.
pub(crate) fn scenario() {
    let device = again(|| CudaDevice::open(0));
    let slab = Slab::builder(16, SIZE).lock(Policy::Never).build().unwrap();
    let region = again(|| device.register(&slab, Access::READ));
    let (producer, consumer) = PinnedStagingBuffer::builder(16, SIZE).slab(slab).build().unwrap().split();
    let options = StreamOptions { queue_bytes: 4 * MESSAGES * SIZE, in_flight: 4 };
    let stream = again(|| device.open_stream(&options));
    let code = Code::Ptx(".version 6.0\n.visible .entry fnv1a()".to_owned());
    // SAFETY: the stand-in runs no code; its twin of that name keeps to what it is given.
    let source = unsafe { KernelSource::new(code, "fnv1a") };
    let kernel = again(|| device.build(&source));
    let mut all = Use { device, stream, kernel, region, producer, consumer, sent: 0 };
    for _ in 0..2 {
        all.batches();
        all.launch();
    }
}

/// Hands a transfer in, and again if it comes back; it does so unchanged.
fn submitted<T>(mut transfer: T, mut submit: impl FnMut(T) -> Result<Ticket, Refused<T>>) -> Ticket {
    for _ in 0..2 {
        match submit(transfer) {
            Ok(ticket) => return ticket,
            Err(refused) => {
                assert!(!matches!(refused.error, DeviceError::Lost { .. }), "{}", refused.error);
                transfer = refused.transfer;
            }
        }
    }
    panic!("what is refused once is not refused twice");
}

impl Use {
    fn upload(&mut self, to: usize) -> (Upload, Vec<u8>) {
        let bytes: Vec<u8> =
            (0..MESSAGES * SIZE).map(|at| self.sent.wrapping_add(at.to_le_bytes()[0])).collect();
        self.sent = self.sent.wrapping_add(1);
        assert_eq!(self.producer.try_enqueue_batch(&bytes), Ok(MESSAGES), "all slots have come back");
        (Upload::new(&self.region, self.consumer.take(MESSAGES).unwrap(), to), bytes)
    }

    /// Two batches and a fill, in flight together: their tickets come back in order, and what failed is done again.
    fn batches(&mut self) {
        let mut expected = vec![0; 4 * MESSAGES * SIZE];
        let mut tickets = Vec::new();
        for place in 0..2 {
            let to = place * MESSAGES * SIZE;
            let (upload, bytes) = self.upload(to);
            expected[to..to + bytes.len()].copy_from_slice(&bytes);
            tickets.push(submitted(upload, |upload| self.stream.submit(upload)));
        }
        let behind = 2 * MESSAGES * SIZE..4 * MESSAGES * SIZE;
        let fill = Fill { range: behind.clone(), word: u32::from_le_bytes([self.sent; 4]) };
        expected[behind].fill(self.sent);
        tickets.push(submitted(fill, |fill| self.stream.fill(fill)));
        let mut failed = Vec::new();
        for ticket in tickets {
            let completion = next(&mut *self.stream);
            assert_eq!(completion.ticket, ticket, "in order");
            match completion.result {
                Ok(()) => drop(completion.transfer),
                Err(CopyError::Failed { .. }) => failed.push(completion.transfer),
                Err(lost) => panic!("{lost}"),
            }
        }
        for transfer in failed {
            match transfer {
                Transfer::Upload(upload) => drop(submitted(upload, |upload| self.stream.submit(upload))),
                Transfer::Fill(fill) => drop(submitted(fill, |fill| self.stream.fill(fill))),
                other => panic!("{other:?}"),
            }
            assert_eq!(next(&mut *self.stream).result, Ok(()));
        }
        let mut landing = again(|| Landing::new(&self.device, expected.len()));
        loop {
            let download = Download::new(0..expected.len(), landing);
            submitted(download, |download| self.stream.fetch(download));
            let completion = next(&mut *self.stream);
            let Transfer::Download(download) = completion.transfer else { panic!("the landing comes back") };
            landing = download.into_landing();
            if completion.result.is_ok() {
                break;
            }
        }
        assert!(landing.as_slice() == expected, "what landed is what was sent");
    }

    fn launch(&mut self) {
        let (upload, bytes) = self.upload(0);
        let output = again(|| Output::new(&self.device, MESSAGES, 8));
        let mut launch = Launch::new(upload, output, 0);
        loop {
            submitted(launch, |launch| self.stream.launch(&self.kernel, launch));
            let completion = next(&mut *self.stream);
            let Transfer::Launch(back) = completion.transfer else { panic!("the launch comes back") };
            launch = back;
            match completion.result {
                Ok(()) => break,
                Err(CopyError::Failed { .. }) => {}
                Err(lost) => panic!("{lost}"),
            }
        }
        for (message, reply) in bytes.chunks(SIZE).zip(launch.replies()) {
            let sum = message.iter().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
                (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
            });
            assert_eq!(reply, Reply::Output(&sum.to_le_bytes()));
        }
    }
}
