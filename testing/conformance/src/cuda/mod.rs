//! CUDA as a subject of the suite: on the stand-in for its driver, or on a real one.
//!
//! The stand-in is loaded into the test's own process, unless the variable `TRANSLOAD_CUDA` is `real`: then a real driver is
//! looked for, and a test fails where there is none.

mod gate;
mod stand_in;

pub use gate::{OwnStream, ValueGate, entered};
pub use stand_in::{StandIn, path, stand_in};

use transload::device::cuda::{CudaDevice, CudaStream};
use transload::device::{Code, Device, KernelSource, Stream, StreamOptions};

use crate::device::example::Example;
use crate::device::{Gate, Gated, Hold, Subject};
use crate::faulty::{Faults, Faulty, FaultyGate};

/// Whether the tests are to use a real driver.
pub fn is_real() -> bool {
    std::env::var("TRANSLOAD_CUDA").is_ok_and(|which| which == "real")
}

/// The first CUDA device.
pub fn subject() -> Subject {
    Subject { name: "cuda", open, gated, kernel }
}

/// An example in PTX, which needs no compiler. It is in the program, which may be run where the sources are not.
pub fn kernel(example: Example) -> KernelSource {
    let ptx = match example {
        Example::Checksum => include_str!("../../tests/ptx/checksum.ptx"),
        Example::Filter => include_str!("../../tests/ptx/filter.ptx"),
        Example::Echo => include_str!("../../tests/ptx/echo.ptx"),
    };
    // SAFETY: as for `Example::source`: this is that code, compiled.
    unsafe { KernelSource::new(Code::Ptx(ptx.to_owned()), example.entry()) }
}

/// Makes a test of each function over the first device, bounded in time.
#[macro_export]
macro_rules! cuda_tests {
    ($($(#[$doc:meta])* fn $name:ident($device:ident) $body:block)*) => {$(
        $(#[$doc])*
        #[test]
        fn $name() {
            $crate::watchdog::watch(stringify!($name), || {
                let $device = $crate::cuda::device();
                $body
            });
        }
    )*};
}

/// The first device, of whichever driver is to be used.
///
/// # Panics
///
/// If it does not open: both the stand-in and a driver that was asked for are there.
pub fn device() -> CudaDevice {
    if !is_real() {
        stand_in();
    }
    let device = CudaDevice::open(0).unwrap();
    assert!(!is_real() || !device.info().name.starts_with("stand-in"), "what was found is the stand-in");
    device
}

// No case is skipped: whoever asked for a real driver wants to know that there is none.
#[expect(clippy::unnecessary_wraps, reason = "other subjects may be absent")]
fn open() -> Result<Box<dyn Device>, String> {
    Ok(Box::new(device()))
}

fn gated(options: &StreamOptions) -> Result<Gated, String> {
    if is_real() {
        // A real device does not fail on demand: failures are injected.
        let faults = Faults::new();
        let device = device();
        let own = OwnStream::new(&device);
        let gate = ValueGate::new(&device, &own);
        let adopted = Adopted { device, own };
        let device = Faulty::new(Box::new(adopted), faults.clone());
        let stream = device.open_stream(options).map_err(|error| error.to_string())?;
        return Ok(Gated { device: Box::new(device), stream, gate: Box::new(FaultyGate::new(gate, faults)) });
    }
    let device = device();
    let own = OwnStream::new(&device);
    let gate = ValueGate::new(&device, &own);
    let stream = Adopted { device: device.clone(), own }.open_stream(options);
    let stream = stream.map_err(|error| error.to_string())?;
    Ok(Gated { device: Box::new(device), stream, gate: Box::new(StandInGate(gate)) })
}

/// A device whose streams are over one stream of the test's.
#[derive(Debug)]
struct Adopted {
    device: CudaDevice,
    own: OwnStream,
}

impl transload::region::Registrar for Adopted {
    fn register(
        &self,
        slab: &transload::memory::Slab,
        access: transload::region::Access,
    ) -> Result<transload::region::Region, transload::region::RegisterError> {
        self.device.register(slab, access)
    }
}

impl Device for Adopted {
    fn info(&self) -> &transload::device::DeviceInfo {
        self.device.info()
    }

    fn allocate_slab(
        &self,
        count: usize,
        size: usize,
    ) -> Result<transload::memory::Slab, transload::device::DeviceError> {
        self.device.allocate_slab(count, size)
    }

    fn open_stream(
        &self,
        options: &StreamOptions,
    ) -> Result<Box<dyn Stream>, transload::device::DeviceError> {
        // SAFETY: the stream is never destroyed: it is shared with the gate, which may outlive this.
        let stream: CudaStream = unsafe { self.device.open_stream_on(self.own.raw(), None, options) }?;
        Ok(Box::new(stream))
    }
}

#[derive(Debug)]
struct StandInGate(ValueGate);

impl Hold for StandInGate {
    fn close(&mut self) {
        self.0.close();
    }

    fn open(&mut self) {
        self.0.open();
    }
}

impl Gate for StandInGate {
    fn fail(&mut self) {
        // No code of a copy that fails alone is known; this one is none of those that lose the context.
        const INVALID_VALUE: u32 = 1;
        stand_in().fail_work(self.0.stream(), INVALID_VALUE);
        self.0.open();
    }
}
