//! What two processes must be able to do to be compared.

use anyhow::Result;

use super::content::{Content, Seen};

/// One process's ends of two ways: one to the other process, and one from it. Messages have so many words of 64 bits.
pub trait Link<const WORDS: usize> {
    /// Does ahead what can be done before the next message is known. Called before each wait for a message.
    ///
    /// # Errors
    ///
    /// When the library says something that it must not say here.
    fn prepare(&mut self) -> Result<()> {
        Ok(())
    }

    /// Writes and sends the message that a tag names; false if there is no room at the moment.
    ///
    /// # Errors
    ///
    /// As [`prepare`](Link::prepare).
    fn send<C: Content>(&mut self, tag: u64) -> Result<bool>;

    /// Hands what has arrived, read word by word, to `see`, and is done with it; says how many messages there were.
    ///
    /// # Errors
    ///
    /// As [`prepare`](Link::prepare), and what `see` says.
    fn receive<C: Content>(&mut self, see: impl FnMut(Seen) -> Result<()>) -> Result<usize>;
}
