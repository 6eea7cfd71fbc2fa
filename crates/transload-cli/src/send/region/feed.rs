//! What is sent into a region: generated messages, or an input that is cut into messages.

use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use transload::pump::SlotLayout;

use super::session::{Outcome, Session, Slots};
use super::watch::Watch;
use crate::assembler::{Assembler, Last};
use crate::failure::Failure;
use crate::framing::Framing;
use crate::send::args::SendArgs;
use crate::send::generator::Generator;
use crate::send::opened::Opened;
use crate::send::report::StoppedBy;
use crate::send::setup::check_whole;

/// Bytes that are read at once.
const READ_BYTES: usize = 256 << 10;

/// How long an input is waited for before time and signals are looked at.
const LOOK: Duration = Duration::from_millis(50);

/// Where messages come from.
#[derive(Debug)]
pub(super) enum Feed {
    Generated { generator: Generator, message_size: usize },
    Input { input: Opened, assembler: Assembler, left: Option<u64> },
}

impl Feed {
    /// What fits into these slots.
    pub(super) fn new(args: &SendArgs, input: Option<Opened>, slots: Slots) -> Result<Self, Failure> {
        let most = slots.payload_bytes();
        let message_size = args.message_size.unwrap_or(most);
        let refuse = |message: String| Err(Failure::new("region", message));
        if message_size > most {
            return refuse(format!(
                "messages of {message_size} bytes, and a slot of {} holds {most}: use --message-size {most}, or a pump with a larger one",
                args.to
            ));
        }
        let is_dense = slots.layout == SlotLayout::Dense;
        if is_dense && message_size != most {
            return refuse(format!(
                "messages of {message_size} bytes, and each of {} has exactly {most}: use --message-size {most}",
                args.to
            ));
        }
        let Some(input) = input else {
            let generator = Generator::of_member(args.framing, message_size, args.messages)?;
            return Ok(Self::Generated { generator, message_size });
        };
        let framing = match args.framing {
            Framing::Stream | Framing::Fixed if is_dense => Framing::Fixed,
            _ if is_dense => {
                return refuse(format!(
                    "messages of any length, and each of {} has exactly {most} bytes: use --framing fixed, or a pump with another framing",
                    args.to
                ));
            }
            framing => framing,
        };
        if let Some((_, bytes)) = input.rest {
            check_whole(framing, args.messages, message_size, &input.name, bytes)?;
        }
        Ok(Self::Input { input, assembler: Assembler::new(framing, message_size), left: args.messages })
    }

    /// Sends until there is no more, or it is time to stop.
    pub(super) fn run(&mut self, session: &mut Session<'_>, watch: &mut Watch) -> Result<(), Failure> {
        match self {
            Self::Generated { generator, message_size } => {
                let mut payload = vec![0; *message_size];
                while !watch.is_over() {
                    if generator.next_payload(session.member(), &mut payload).is_none() {
                        watch.complete(StoppedBy::Messages);
                    } else if session.send(&payload, false, watch)? == Outcome::Stopped {
                        break;
                    }
                }
                Ok(())
            }
            Self::Input { input, assembler, left } => {
                let mut bytes = vec![0; READ_BYTES];
                while !watch.is_over() {
                    if *left == Some(0) {
                        watch.complete(StoppedBy::Messages);
                        break;
                    }
                    match read(input, &mut bytes)? {
                        None => session.check(watch)?,
                        Some(0) => {
                            watch.complete(StoppedBy::End);
                            return end(assembler, session, watch);
                        }
                        Some(read) => cut(assembler, &bytes[..read], input, left, session, watch)?,
                    }
                }
                // What has been read is sent; half a message is none.
                if watch.why() != Some(StoppedBy::Messages)
                    && let Ok(Last::Message(payload)) = assembler.end()
                {
                    session.send(payload, true, watch)?;
                }
                Ok(())
            }
        }
    }
}

/// Sends the messages that some bytes complete.
fn cut(
    assembler: &mut Assembler,
    mut piece: &[u8],
    input: &mut Opened,
    left: &mut Option<u64>,
    session: &mut Session<'_>,
    watch: &mut Watch,
) -> Result<(), Failure> {
    while *left != Some(0) {
        let Some(payload) = assembler.next(&mut piece)? else { break };
        session.send(payload, true, watch)?;
        *left = left.map(|left| left - 1);
    }
    if !piece.is_empty() {
        // Left to whoever reads the file next; nothing follows from one that cannot be turned back.
        let _ = input.file.seek(SeekFrom::Current(-i64::try_from(piece.len()).unwrap_or(0)));
    }
    match assembler.too_long() {
        Some(broken) => Err(broken.into()),
        None => Ok(()),
    }
}

/// Sends what an input ends with.
fn end(assembler: &mut Assembler, session: &mut Session<'_>, watch: &mut Watch) -> Result<(), Failure> {
    if let Last::Message(payload) | Last::UnendedLine(payload) = assembler.end()? {
        session.send(payload, true, watch)?;
    }
    Ok(())
}

/// Reads what is there; nothing if nothing has come for a while.
fn read(input: &mut Opened, bytes: &mut [u8]) -> Result<Option<usize>, Failure> {
    let failed = |error: std::io::Error| {
        Failure::new("source", format!("cannot read {}: {error}", input.name))
            .fix("name a file or a stream that can be read to its end")
    };
    let mut ready = [PollFd::new(&input.file, PollFlags::IN)];
    let look = Timespec { tv_sec: 0, tv_nsec: LOOK.subsec_nanos().into() };
    match poll(&mut ready, Some(&look)) {
        Ok(0) | Err(Errno::INTR) => return Ok(None),
        Ok(_) => {}
        Err(error) => return Err(failed(error.into())),
    }
    match input.file.read(bytes) {
        Ok(read) => Ok(Some(read)),
        Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => Ok(None),
        Err(error) => Err(failed(error)),
    }
}
