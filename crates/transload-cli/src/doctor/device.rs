//! One device: what it is, how it reaches memory, and how fast.

use serde::Serialize;
use transload::device::{Device, DeviceInfo, Driver, Kind};
use transload::region::Registration;

use super::check::{Check, Status, human_bytes};
use super::rate::{self, IN_FLIGHT, MEASURED, Memory, TRANSFER_BYTES};

/// What is said of a device, for people and for programs.
#[derive(Debug, Serialize)]
pub(super) struct DeviceWords {
    /// As `--to` takes it.
    name: String,
    backend: &'static str,
    index: usize,
    /// What its driver calls it.
    description: String,
    /// `host`, `gpu`, `cpu` (a processor behind a driver) or `accelerator`.
    kind: String,
    /// How it reaches the memory of a ring; null if that was not found out.
    memory: Option<MemoryWords>,
    /// Up to how many bytes kernels read a batch where it is, in host memory; null if that was not found out.
    mapped_up_to_bytes: Option<usize>,
    /// The measured copy rates; null if nothing was measured.
    rates: Option<RateWords>,
    /// Why something was not found out.
    error: Option<String>,
}

#[derive(Debug, Serialize)]
struct MemoryWords {
    /// `pinned`, `mapped` or `staged`.
    registration: &'static str,
    /// Why it is staged; else null.
    reason: Option<String>,
    /// How much memory was registered, and how long that took.
    bytes: usize,
    seconds: f64,
}

#[derive(Debug, Serialize)]
struct RateWords {
    upload_bytes_per_second: f64,
    download_bytes_per_second: f64,
    transfer_bytes: usize,
    in_flight: usize,
    seconds_each: f64,
}

impl DeviceWords {
    /// Each device of a driver; none if it has none, which is told elsewhere.
    pub(super) fn of_driver(driver: &dyn Driver, quick: bool) -> Vec<Self> {
        let devices = driver.probe().unwrap_or_default();
        devices
            .iter()
            .map(|info| Self::of(info, driver.open(info.index).map_err(|error| error.to_string()), quick))
            .collect()
    }

    fn of(info: &DeviceInfo, device: Result<Box<dyn Device>, String>, quick: bool) -> Self {
        let mut words = Self {
            name: format!("{}:{}", info.backend, info.index),
            backend: info.backend.name(),
            index: info.index,
            description: info.name.clone(),
            kind: format!("{:?}", info.kind).to_lowercase(),
            memory: None,
            mapped_up_to_bytes: None,
            rates: None,
            error: None,
        };
        words.error = device.and_then(|device| words.try_out(&*device, quick)).err();
        words
    }

    /// Finds out as much as there is to find.
    fn try_out(&mut self, device: &dyn Device, quick: bool) -> Result<(), String> {
        let memory = Memory::new(device)?;
        let (registration, reason) = match memory.region.registration() {
            Registration::Pinned => ("pinned", None),
            Registration::Mapped => ("mapped", None),
            Registration::Staged { reason } => ("staged", Some(reason.clone())),
            other => ("staged", Some(other.to_string())),
        };
        let bytes = memory.region.slab().len_bytes();
        let seconds = memory.registered_in.as_secs_f64();
        self.memory = Some(MemoryWords { registration, reason, bytes, seconds });
        if quick {
            return Ok(());
        }
        let mut stream = rate::open_stream(device)?;
        self.mapped_up_to_bytes = Some(stream.mapped_up_to_bytes());
        let rates = rate::measure(device, memory, &mut *stream)?;
        self.rates = Some(RateWords {
            upload_bytes_per_second: rates.upload,
            download_bytes_per_second: rates.download,
            transfer_bytes: TRANSFER_BYTES,
            in_flight: IN_FLIGHT,
            seconds_each: MEASURED.as_secs_f64(),
        });
        Ok(())
    }

    /// One line.
    pub(super) fn check(&self) -> Check {
        let memory = self.memory.as_ref().map_or(String::new(), |memory| {
            let reason = memory.reason.as_ref().map_or(String::new(), |reason| format!(" ({reason})"));
            let (bytes, micros) = (human_bytes(memory.bytes as u64), memory.seconds * 1e6);
            format!(", memory {}{reason}, {bytes} registered in {micros:.0} us", memory.registration)
        });
        let value = format!("{} ({}){memory}", self.description, self.kind);
        let mut details = Vec::new();
        if let Some(rates) = &self.rates {
            details.push(format!(
                "{:.2} GB/s to it, {:.2} GB/s back, in copies of {}, {IN_FLIGHT} in flight, for {} ms each",
                rates.upload_bytes_per_second / 1e9,
                rates.download_bytes_per_second / 1e9,
                human_bytes(TRANSFER_BYTES as u64),
                MEASURED.as_millis()
            ));
        }
        details.extend(self.mapped_up_to_bytes.map(|most| match most {
            0 => "kernels read copies of batches".to_owned(),
            usize::MAX => "kernels read batches of any size in place".to_owned(),
            most => format!("kernels read batches of up to {} in place", human_bytes(most as u64)),
        }));
        if self.kind == format!("{:?}", Kind::Cpu).to_lowercase() {
            details.push(
                "a processor behind a driver: it emulates a device, and its rates are main memory's"
                    .to_owned(),
            );
        }
        details.extend(self.error.clone());
        let status = if self.error.is_some() { Status::Warn } else { Status::Ok };
        Check::new(&*self.name, status, value).detail(details.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use transload::device::host::{Host, HostDevice};
    use transload::device::{Backend, DeviceError};

    use super::*;

    #[test]
    fn the_host_is_mapped_and_measured() {
        let words = DeviceWords::of_driver(&Host, false);
        assert_eq!(words.len(), 1);
        let rates = words[0].rates.as_ref().unwrap();
        assert!(rates.upload_bytes_per_second > 1e6 && rates.download_bytes_per_second > 1e6, "{rates:?}");
        let memory = words[0].memory.as_ref().unwrap();
        assert_eq!((memory.registration, memory.bytes), ("mapped", 4 << 20));
        let check = words[0].check();
        assert_eq!((check.name.as_str(), check.status), ("host:0", Status::Ok), "{check:?}");
        assert!(check.detail.contains(" GB/s to it, "), "{check:?}");
    }

    /// The most that a number can say is no size that anybody has measured.
    #[test]
    fn how_kernels_read_is_said_in_words() {
        let mut words = DeviceWords::of_driver(&Host, true).remove(0);
        for (most, said) in [
            (0, "kernels read copies of batches"),
            (1 << 20, "kernels read batches of up to 1 MiB in place"),
            (usize::MAX, "kernels read batches of any size in place"),
        ] {
            words.mapped_up_to_bytes = Some(most);
            assert_eq!(words.check().detail, said);
        }
    }

    #[test]
    fn quick_measures_nothing() {
        let words = DeviceWords::of_driver(&Host, true);
        assert!(words[0].rates.is_none() && words[0].memory.is_some());
        assert_eq!((words[0].check().status, words[0].check().detail.as_str()), (Status::Ok, ""));
    }

    /// Whoever fails is told with the reason, and nothing of it is measured.
    #[test]
    fn a_device_that_fails_is_a_warning() {
        let info = DeviceInfo::new(Backend::OpenCl, 3, "broken", Kind::Cpu, 1 << 20);
        let error = DeviceError::Lost { reason: "it fell off the bus".to_owned() };
        let words = DeviceWords::of(&info, Err(error.to_string()), false);
        let check = words.check();
        assert_eq!((check.name.as_str(), check.status), ("opencl:3", Status::Warn));
        assert!(check.value.contains("broken (cpu)"), "{check:?}");
        assert!(check.detail.contains("fell off the bus") && check.detail.contains("emulates"), "{check:?}");
        // What was found out before it failed is told as well.
        let gate = transload::device::host::Gate::new();
        gate.close();
        let device = HostDevice::with_gate(gate);
        let words = DeviceWords::of(&info, Ok(Box::new(device)), false);
        let check = words.check();
        assert_eq!(check.status, Status::Warn, "{check:?}");
        assert!(
            check.value.contains("memory mapped") && check.detail.contains("did not end within 2s"),
            "{check:?}"
        );
    }
}
