//! Runs to the end: what is sent, what is waited for, and the report.

use std::io;

use transload::shared::handover::Name;

use super::document::Document;
use super::feed::Feed;
use super::session::Session;
use super::watch::Watch;
use crate::failure::Failure;
use crate::output::Told;
use crate::send::args::SendArgs;
use crate::send::opened::Opened;
use crate::signals::StopSignals;

/// Sends into a region, and reports. Gives the exit code.
pub(in crate::send) fn main(args: &SendArgs, name: &Name) -> u8 {
    let document = run(args, name).unwrap_or_else(|failure| Document::failed(args, failure));
    let told = Told { error: document.error.as_ref(), exit: document.exit(), json: args.json };
    let words = || if args.quiet || document.region.is_none() { String::new() } else { document.words() };
    told.tell(&document, words, &mut io::stdout())
}

fn run(args: &SendArgs, name: &Name) -> Result<Document, Failure> {
    args.check()?;
    let input = Opened::open(&args.from)?;
    let mut watch = Watch::new(args, StopSignals::watch()?);
    let Some(mut session) = Session::connect(args, name, &mut watch)? else {
        return Ok(Document::new(args, None, &watch));
    };
    // What was waited for is no time of sending.
    watch.restart();
    let mut feed = Feed::new(args, input, session.slots())?;
    let sent = feed.run(&mut session, &mut watch);
    if sent.is_err() {
        watch.fail();
    }
    let elapsed = watch.elapsed();
    let done = session.drain(&mut watch);
    let mut document = Document::new(args, Some(&session), &watch).lasting(elapsed);
    let arrived = match document.left_behind {
        0 => Ok(()),
        left => Err(Failure::new(
            "left-behind",
            format!("{left} messages were not done in a region that another one took the name of"),
        )
        .fix("whether they arrive is up to who takes from that region; send again what did not")),
    };
    document.error = sent.and(done).and(arrived).err().map(|failure| {
        let message = format!("{}; {} messages were sent before", failure.message, document.messages);
        Failure { message, ..failure }
    });
    Ok(document)
}
