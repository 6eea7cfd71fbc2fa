//! The Debian packages that some suites need: loaders of `OpenCL` and Vulkan, drivers that run on any processor, the layer
//! that checks how Vulkan is called, and the compiler of the examples in GLSL.

use std::path::Path;

use anyhow::Result;

use crate::process::CommandLine;
use crate::say::say;

const NAMES: [&str; 6] = [
    "pocl-opencl-icd",
    "ocl-icd-libopencl1",
    "mesa-vulkan-drivers",
    "libvulkan1",
    "vulkan-validationlayers",
    "glslang-tools",
];

/// What this machine allows.
#[derive(Clone, Copy, Debug)]
struct Machine {
    /// `None` where packages are not Debian's.
    all_installed: Option<bool>,
    has_apt: bool,
    is_root: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Step {
    Nothing,
    Install,
    /// With the reason.
    Advise(&'static str),
}

/// Whether the stage is fulfilled; with `strict`, packages that were asked for and cannot be installed are a failure.
pub(crate) fn prepare(folder: &Path, install: bool, strict: bool) -> Result<bool> {
    match step(Machine::ask(folder), install) {
        Step::Nothing => say!("{} are installed: nothing to do", NAMES.join(", ")),
        Step::Install => {
            if !install_packages(folder)? {
                advise("apt-get could not install the packages");
                return Ok(!strict);
            }
        }
        Step::Advise(why) => {
            advise(why);
            return Ok(!(install && strict));
        }
    }
    Ok(true)
}

fn step(machine: Machine, install: bool) -> Step {
    match machine {
        Machine { all_installed: Some(true), .. } => Step::Nothing,
        Machine { all_installed: None, .. } => Step::Advise("not a Debian system"),
        _ if !install => Step::Advise("not installed, and --install was not given"),
        Machine { has_apt: false, .. } => Step::Advise("there is no apt-get here"),
        Machine { is_root: false, .. } => Step::Advise("not permitted: only root may install packages"),
        Machine { .. } => Step::Install,
    }
}

fn advise(why: &str) {
    say!(
        "packages of the suites: {why}. Suites of OpenCL and Vulkan are skipped where no driver is found. To run them:"
    );
    say!("    apt-get install --no-install-recommends {}    (as root, on Debian)", NAMES.join(" "));
    say!(
        "    elsewhere: loaders (libOpenCL.so.1, libvulkan.so.1), drivers such as PoCL and Mesa's lavapipe, and the Khronos \
         validation layer"
    );
}

fn install_packages(folder: &Path) -> Result<bool> {
    say!("installing {} with apt-get", NAMES.join(", "));
    let apt = |arguments: &str| {
        CommandLine::new("apt-get", arguments).variable("DEBIAN_FRONTEND", "noninteractive")
    };
    if !apt("-q update").run(folder)? {
        say!("apt-get update failed; trying with the lists of packages that are there");
    }
    NAMES
        .iter()
        .fold(apt("-q -y -o DPkg::Lock::Timeout=120 --no-install-recommends install"), |apt, name| {
            apt.argument(*name)
        })
        .run(folder)
}

impl Machine {
    fn ask(folder: &Path) -> Self {
        let query = CommandLine::new("dpkg-query", "-W -f").argument("${db:Status-Status}\n");
        let states = NAMES.iter().fold(query, |query, name| query.argument(*name)).output(folder);
        Self {
            all_installed: states.map(|states| are_installed(&states)),
            has_apt: CommandLine::new("apt-get", "--version").succeeds(folder),
            is_root: CommandLine::new("id", "-u").output(folder).is_some_and(|id| id.trim() == "0"),
        }
    }
}

/// A package that was never known has no line; one that was removed says so in its line.
fn are_installed(states: &str) -> bool {
    states.lines().filter(|state| *state == "installed").count() == NAMES.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEBIAN: Machine = Machine { all_installed: Some(false), has_apt: true, is_root: true };

    #[test]
    fn packages_are_installed_only_where_asked_for_and_permitted() {
        assert_eq!(step(DEBIAN, true), Step::Install);
        assert!(matches!(step(DEBIAN, false), Step::Advise(_)));
        assert!(matches!(step(Machine { is_root: false, ..DEBIAN }, true), Step::Advise(_)));
        assert!(matches!(step(Machine { has_apt: false, ..DEBIAN }, true), Step::Advise(_)));
        assert!(matches!(step(Machine { all_installed: None, ..DEBIAN }, true), Step::Advise(_)));
    }

    #[test]
    fn installed_packages_are_left_alone() {
        for install in [false, true] {
            assert_eq!(step(Machine { all_installed: Some(true), ..DEBIAN }, install), Step::Nothing);
        }
    }

    #[test]
    fn states_of_packages_are_read() {
        let states = |installed| "installed\n".repeat(installed);
        assert!(are_installed(&states(NAMES.len())));
        assert!(!are_installed(&states(NAMES.len() - 1)));
        assert!(!are_installed(&(states(NAMES.len() - 1) + "config-files\n")));
        assert!(!are_installed(""));
    }
}
