//! Into a region that processes share: each message is written into a buffer of it, and published.
//!
//! This process takes part in the region: while it runs, the region outlives its pump, and the next pump of that name
//! takes over what is in it. It ends when all that it has sent is done, so that its death loses nothing either.

mod document;
mod feed;
mod session;
mod watch;

use std::io;

use transload::shared::handover::Name;

use self::document::Document;
use self::feed::Feed;
use self::session::Session;
use self::watch::Watch;
use super::args::SendArgs;
use crate::failure::Failure;
use crate::output::Told;
use crate::signals::StopSignals;

/// Sends into a region, and reports. Gives the exit code.
pub(super) fn main(args: &SendArgs, name: &Name) -> u8 {
    let document = run(args, name).unwrap_or_else(|failure| Document::failed(args, failure));
    let told = Told { error: document.error.as_ref(), exit: document.exit(), json: args.json };
    let words = || if args.quiet || document.region.is_none() { String::new() } else { document.words() };
    told.tell(&document, words, &mut io::stdout())
}

fn run(args: &SendArgs, name: &Name) -> Result<Document, Failure> {
    args.check()?;
    let input = super::opened::Opened::open(&args.from)?;
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
    document.error = sent.and(done).err().map(|failure| {
        let message = format!("{}; {} messages were sent before", failure.message, document.messages);
        Failure { message, ..failure }
    });
    Ok(document)
}
