//! Device drivers: whether their libraries are there and can be loaded, and which devices they have.

use std::{mem::ManuallyDrop, path::Path};

use libloading::Library;
use transload::device::{self, Backend, DeviceError};

use super::check::{Check, Status, as_root};
use super::device::DeviceWords;

/// A driver, known by the library through which it is called.
struct Driver {
    backend: Backend,
    library: &'static str,
    /// A function that every version of the library has.
    symbol: &'static str,
    /// What installs it, on Debian and its descendants.
    install: &'static str,
    /// If given, the driver is of use only where this path exists, so without it nothing is advised.
    hardware: Option<&'static str>,
}

const DRIVERS: [Driver; 3] = [
    Driver {
        backend: Backend::OpenCl,
        library: "libOpenCL.so.1",
        symbol: "clGetPlatformIDs",
        install: "apt-get install ocl-icd-libopencl1",
        hardware: None,
    },
    Driver {
        backend: Backend::Vulkan,
        library: "libvulkan.so.1",
        symbol: "vkGetInstanceProcAddr",
        install: "apt-get install libvulkan1",
        hardware: None,
    },
    Driver {
        backend: Backend::Cuda,
        library: "libcuda.so.1",
        symbol: "cuInit",
        install: "apt-get install libcuda1",
        hardware: Some("/dev/nvidia0"),
    },
];

/// Each driver, and behind it each of its devices, as `devices` has them as well. Last the host, which needs no driver.
pub(super) fn checks(quick: bool, devices: &mut Vec<DeviceWords>) -> Vec<Check> {
    let mut checks = Vec::new();
    let mut all_of = |backend, checks: &mut Vec<Check>| {
        let found = device::drivers().filter(|driver| driver.backend() == backend);
        for words in found.flat_map(|driver| DeviceWords::of_driver(driver, quick)) {
            checks.push(words.check());
            devices.push(words);
        }
    };
    for driver in &DRIVERS {
        let check = check(driver);
        let is_there = check.status == Status::Ok;
        checks.push(check);
        // A library that cannot be used is not asked again.
        if is_there {
            all_of(driver.backend, &mut checks);
        }
    }
    for backend in [Backend::Metal, Backend::Host] {
        all_of(backend, &mut checks);
    }
    checks
}

fn check(driver: &Driver) -> Check {
    let Driver { backend, library, .. } = *driver;
    let name = backend.name();
    match load(driver) {
        Ok(()) => devices(backend, library),
        Err(Missing::NotFound) => {
            let check = Check::new(name, Status::Absent, format!("{library} not found"))
                .detail("not needed: messages go to other devices or to host memory");
            match driver.hardware {
                Some(path) if !Path::new(path).exists() => check,
                _ => check.fix(as_root(driver.install)),
            }
        }
        Err(Missing::Broken(why)) => Check::new(name, Status::Warn, format!("{library} cannot be used"))
            .detail(why)
            .fix(as_root(&driver.install.replace("install", "install --reinstall"))),
    }
}

/// The devices behind a library that can be loaded.
fn devices(backend: Backend, library: &str) -> Check {
    let name = backend.name();
    let found = device::drivers().find(|driver| driver.backend() == backend).map(device::Driver::probe);
    match found {
        Some(Ok(devices)) => {
            let devices: Vec<String> = devices
                .iter()
                .map(|device| format!("{name}:{} {} ({:?})", device.index, device.name, device.kind))
                .collect();
            Check::new(name, Status::Ok, devices.join(", "))
        }
        Some(Err(DeviceError::Unavailable { reason, .. })) => {
            Check::new(name, Status::Absent, format!("{library} found")).detail(reason)
        }
        Some(Err(error)) => {
            Check::new(name, Status::Warn, format!("{library} found")).detail(error.to_string())
        }
        None => Check::new(name, Status::Absent, format!("{library} found")),
    }
}

enum Missing {
    NotFound,
    Broken(String),
}

/// Loads the library and looks for one function, which is not called.
fn load(driver: &Driver) -> Result<(), Missing> {
    // SAFETY: loading runs the library's initialisers. They are those of the system's own drivers, which any program
    // that uses the device runs, and nothing else is running in this process that they could disturb.
    let library = unsafe { Library::new(driver.library) }.map_err(|error| {
        let text = reason(&error);
        // The loader has no error numbers; both common C libraries say it with the words of ENOENT. Another file's
        // name means that the library is there and something that it needs is not.
        if text.contains("No such file") && text.contains(driver.library) {
            Missing::NotFound
        } else {
            Missing::Broken(text)
        }
    })?;
    // Never unloaded: some drivers leave threads or handlers behind that would then run into nothing.
    let library = ManuallyDrop::new(library);
    // SAFETY: the symbol is only looked for; its type does not matter as it is never used.
    let found = unsafe { library.get::<*const ()>(driver.symbol) };
    found.map(drop).map_err(|error| Missing::Broken(reason(&error)))
}

/// The loader's own words, which stand in the error's cause, on one line.
fn reason(error: &libloading::Error) -> String {
    let text = std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOT_THERE: Driver = Driver {
        backend: Backend::Host,
        library: "libtransload-not-there.so.1",
        symbol: "none",
        install: "apt-get install none",
        hardware: None,
    };

    #[test]
    fn a_library_that_is_not_there_is_absent() {
        let found = check(&NOT_THERE);
        assert_eq!(
            (found.status, found.value.as_str()),
            (Status::Absent, "libtransload-not-there.so.1 not found")
        );
        assert!(found.fix.is_some_and(|fix| fix.contains("apt-get install none")));
        let found = check(&Driver { hardware: Some("/not/there"), ..NOT_THERE });
        assert_eq!((found.status, found.fix), (Status::Absent, None));
    }

    #[test]
    fn a_library_without_the_function_is_not_the_driver() {
        let found = check(&Driver { library: "libc.so.6", symbol: "cuNoSuchFunction", ..NOT_THERE });
        assert_eq!(found.status, Status::Warn, "{found:?}");
        assert!(found.detail.contains("cuNoSuchFunction"), "{found:?}");
    }
}
