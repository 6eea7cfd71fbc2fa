//! A region that its maker has not made yet, as somebody sees it who gets hold of its memory.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;

use transload::shared::{SharedPool, SharedRegion};

use crate::scene::{Fault, Scene};

/// The memory files that a process has and that are not the scene's.
///
/// # Errors
///
/// The kernel's.
pub fn files(process: u32, scene: &Scene) -> io::Result<Vec<File>> {
    let own = File::from(scene.region().file_for_peer()?).metadata()?.ino();
    let mut files = Vec::new();
    for file in fs::read_dir(format!("/proc/{process}/fd"))?.filter_map(Result::ok) {
        let name = fs::read_link(file.path()).unwrap_or_default();
        if !name.to_string_lossy().starts_with("/memfd:") {
            continue;
        }
        let file = File::options().read(true).write(true).open(file.path())?;
        if file.metadata()?.ino() != own {
            files.push(file);
        }
    }
    Ok(files)
}

/// Opens the memory files of a process as regions, except for the scene's. Each must be refused, or work. Says whether any
/// worked.
///
/// # Errors
///
/// What did not work of one that was not refused.
pub fn is_whole(process: u32, scene: &Scene) -> Result<bool, Fault> {
    let mut is_whole = false;
    for file in files(process, scene).map_err(|error| error.to_string())? {
        let Ok(region) = SharedRegion::open(OwnedFd::from(file)) else { continue };
        works(&region)?;
        is_whole = true;
    }
    Ok(is_whole)
}

/// Sees to it that messages go through a region.
///
/// # Errors
///
/// Why they do not.
pub fn works(region: &SharedRegion) -> Result<(), Fault> {
    let pool = SharedPool::join(region, "thief").map_err(|error| error.to_string())?;
    let mut consumer = pool.ring().consumer().map_err(|error| error.to_string())?;
    for nth in 0..20 {
        pool.ring().try_send_copy(&[nth]).map_err(|error| error.to_string())?;
        drop(consumer.take(1).map_err(|error| error.to_string())?);
    }
    Ok(())
}
