//! The host as a subject of the suite.

use transload::device::{Device, KernelSource, StreamOptions, host};

use crate::device::example::Example;
use crate::device::{Gated, Hold, Subject};
use crate::faulty::{Faults, Faulty, FaultyGate};

/// The host device. Its copies do not fail by themselves: failures are injected.
pub fn subject() -> Subject {
    let kernel = |example: Example| KernelSource::host(example.on_the_host(), example.entry());
    Subject { name: "host", open, gated, kernel }
}

#[expect(clippy::unnecessary_wraps, reason = "other subjects may be absent")]
fn open() -> Result<Box<dyn Device>, String> {
    Ok(Box::new(host::HostDevice::new()))
}

fn gated(options: &StreamOptions) -> Result<Gated, String> {
    let (gate, faults) = (host::Gate::new(), Faults::new());
    let device = Faulty::new(Box::new(host::HostDevice::with_gate(gate.clone())), faults.clone());
    let stream = device.open_stream(options).map_err(|error| error.to_string())?;
    Ok(Gated { device: Box::new(device), stream, gate: Box::new(FaultyGate::new(gate, faults)) })
}

impl Hold for host::Gate {
    fn close(&mut self) {
        host::Gate::close(self);
    }

    fn open(&mut self) {
        host::Gate::open(self);
    }
}
