//! Where messages go that come back from the device: into the check, and into a file.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::sync::Arc;

use transload::pump::Sink;
use transload_core::Flag;

use super::args::Target;
use super::check::Check;
use crate::failure::Failure;
use crate::framing::{Framing, Unframer};

/// Checks and writes what comes back.
pub(super) struct ReadBack {
    pub(super) check: Option<Check>,
    pub(super) write: Option<Unframer<Box<dyn Write + Send>>>,
}

impl ReadBack {
    fn flush(&mut self) -> io::Result<()> {
        self.write.as_mut().map_or(Ok(()), Unframer::flush)
    }
}

impl Sink for ReadBack {
    fn receive(&mut self, messages: &[u8], message_size: usize) -> io::Result<()> {
        if let Some(write) = &mut self.write {
            messages.chunks_exact(message_size).try_for_each(|message| write.write(message))?;
        }
        // These messages count as delivered from now on, and a reader may wait for them.
        self.flush()?;
        if let Some(check) = &mut self.check {
            messages.chunks_exact(message_size).for_each(|message| check.message(message));
        }
        Ok(())
    }

    fn lost(&mut self, _: usize) {
        if let Some(check) = &mut self.check {
            check.lost();
        }
    }

    fn finish(&mut self) -> io::Result<()> {
        self.flush()
    }
}

/// Opens what `--read-back` names.
pub(super) fn open(
    target: &Target,
    framing: Framing,
    unended: Arc<Flag>,
) -> Result<Unframer<Box<dyn Write + Send>>, Failure> {
    const BUFFER_BYTES: usize = 256 << 10;
    let out: Box<dyn Write + Send> = match target {
        Target::Standard => Box::new(BufWriter::with_capacity(BUFFER_BYTES, io::stdout())),
        Target::File(path) => Box::new(create(path, BUFFER_BYTES)?),
    };
    Ok(Unframer::new(framing, out, unended))
}

fn create(path: &std::path::Path, buffer_bytes: usize) -> Result<BufWriter<File>, Failure> {
    let file = File::create(path).map_err(|error| {
        Failure::new("write", format!("cannot create {}: {error}", path.display()))
            .fix("name a file in a folder that you may write")
    })?;
    Ok(BufWriter::with_capacity(buffer_bytes, file))
}
