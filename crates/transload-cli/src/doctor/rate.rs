//! How fast a device is reached: measured, for a moment.

use std::time::{Duration, Instant};

use transload::device::{Completion, Device, Download, Landing, Stream, StreamOptions, Transfer, Upload};
use transload::memory::Policy;
use transload::region::{Access, Region};
use transload::staging::{Consumer, PinnedStagingBuffer};

use crate::ring_memory;

/// Bytes of each transfer, and how many are in flight.
pub(super) const TRANSFER_BYTES: usize = 1 << 20;
pub(super) const IN_FLIGHT: usize = 4;

/// How long each direction is measured, and how long a transfer may take.
pub(super) const MEASURED: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_secs(2);

/// Memory as a pump would have it, registered with a device.
#[derive(Debug)]
pub(super) struct Memory {
    pub(super) region: Region,
    pub(super) registered_in: Duration,
    consumer: Consumer,
}

/// Bytes a second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rates {
    pub(super) upload: f64,
    pub(super) download: f64,
}

impl Memory {
    /// Makes and registers it.
    pub(super) fn new(device: &dyn Device) -> Result<Self, String> {
        let ring = PinnedStagingBuffer::builder(IN_FLIGHT, TRANSFER_BYTES);
        let ring = match ring_memory::of_driver(device, IN_FLIGHT, TRANSFER_BYTES) {
            Some(slab) => ring.slab(slab),
            // A device that needs locked memory locks what is registered with it.
            None => ring.memory(|slab| slab.lock(Policy::Never)),
        };
        let (producer, consumer) = ring.build().map_err(|error| error.to_string())?.split();
        // Whatever is in them: each slot is a message.
        producer.try_reserve_batch(IN_FLIGHT).map_err(|error| error.to_string())?.commit();
        let started = Instant::now();
        let region = device.register(consumer.slab(), Access::READ).map_err(|error| error.to_string())?;
        Ok(Self { region, registered_in: started.elapsed(), consumer })
    }
}

/// A stream with room for all transfers.
pub(super) fn open_stream(device: &dyn Device) -> Result<Box<dyn Stream>, String> {
    let options = StreamOptions { queue_bytes: IN_FLIGHT * TRANSFER_BYTES, in_flight: IN_FLIGHT };
    device.open_stream(&options).map_err(|error| error.to_string())
}

/// Copies to the device and back, each for [`MEASURED`], after one of each transfer that is not counted.
pub(super) fn measure(device: &dyn Device, memory: Memory, stream: &mut dyn Stream) -> Result<Rates, String> {
    let Memory { region, mut consumer, .. } = memory;
    let mut uploads = Vec::new();
    let mut landings = Vec::new();
    for nth in 0..IN_FLIGHT {
        let batch = consumer.take(1).map_err(|error| error.to_string())?;
        uploads.push(Upload::new(&region, batch, nth * TRANSFER_BYTES));
        landings.push(Landing::new(device, TRANSFER_BYTES).map_err(|error| error.to_string())?);
    }
    let upload = repeat(
        stream,
        uploads,
        |stream, upload: Upload| stream.submit(upload).map(drop).map_err(|refused| refused.to_string()),
        |transfer| match transfer {
            Transfer::Upload(upload) => {
                let to = upload.device_range().start;
                Some(Upload::new(&region, upload.into_payload(), to))
            }
            _ => None,
        },
    )?;
    let downloads =
        landings.into_iter().zip(0..).map(|(landing, nth)| download(nth * TRANSFER_BYTES, landing));
    let download = repeat(
        stream,
        downloads.collect(),
        |stream, download: Download| stream.fetch(download).map(drop).map_err(|refused| refused.to_string()),
        |transfer| match transfer {
            Transfer::Download(done) => Some(download(done.device_range().start, done.into_landing())),
            _ => None,
        },
    )?;
    Ok(Rates { upload, download })
}

fn download(from: usize, landing: Landing) -> Download {
    Download::new(from..from + TRANSFER_BYTES, landing)
}

/// Submits each transfer again as soon as it has ended. Bytes a second.
fn repeat<T>(
    stream: &mut dyn Stream,
    transfers: Vec<T>,
    submit: impl Fn(&mut dyn Stream, T) -> Result<(), String>,
    again: impl Fn(Transfer) -> Option<T>,
) -> Result<f64, String> {
    let ended = |stream: &mut dyn Stream| {
        let Some(Completion { transfer, result, .. }) = stream.wait(PATIENCE) else {
            return Err(format!("a copy of {TRANSFER_BYTES} bytes did not end within {PATIENCE:?}"));
        };
        result.map_err(|error| error.to_string())?;
        again(transfer).ok_or_else(|| "a copy came back as something else".to_owned())
    };
    let mut warm = Vec::new();
    for transfer in transfers {
        submit(stream, transfer)?;
        warm.push(ended(stream)?);
    }
    let (started, mut copied) = (Instant::now(), 0_u32);
    for transfer in warm {
        submit(stream, transfer)?;
    }
    while started.elapsed() < MEASURED {
        let transfer = ended(stream)?;
        copied += 1;
        submit(stream, transfer)?;
    }
    while stream.in_flight() > 0 {
        ended(stream)?;
        copied += 1;
    }
    #[expect(clippy::cast_precision_loss, reason = "a power of two")]
    let bytes = f64::from(copied) * TRANSFER_BYTES as f64;
    Ok(bytes / started.elapsed().as_secs_f64())
}
