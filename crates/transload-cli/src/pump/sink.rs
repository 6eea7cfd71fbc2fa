//! Where messages go that come back from the device: into the check, and into a file.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::sync::Arc;

use transload::pump::Sink;
use transload_core::Flag;

use super::args::From;
use super::check::Check;
use super::framing::{Framing, Unframer};
use crate::failure::Failure;

/// Checks and writes what comes back.
pub(super) struct ReadBack {
    pub(super) check: Option<Check>,
    pub(super) write: Option<Unframer<Box<dyn Write + Send>>>,
}

impl Sink for ReadBack {
    fn receive(&mut self, messages: &[u8], message_size: usize) -> io::Result<()> {
        for message in messages.chunks_exact(message_size) {
            if let Some(check) = &mut self.check {
                check.message(message);
            }
            if let Some(write) = &mut self.write {
                write.write(message)?;
            }
        }
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        self.write.as_mut().map_or(Ok(()), Unframer::finish)
    }
}

/// Opens what `--read-back` names.
pub(super) fn open(
    target: &From,
    framing: Framing,
    unended: Arc<Flag>,
) -> Result<Unframer<Box<dyn Write + Send>>, Failure> {
    const BUFFER_BYTES: usize = 256 << 10;
    let out: Box<dyn Write + Send> = match target {
        From::Standard => Box::new(BufWriter::with_capacity(BUFFER_BYTES, io::stdout())),
        // `gen` names a file here, like any other word.
        From::Gen => Box::new(create("gen".as_ref(), BUFFER_BYTES)?),
        From::File(path) => Box::new(create(path, BUFFER_BYTES)?),
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
