//! Operations that deliver again and again: connections, bytes.

use std::future::{Future, poll_fn};
use std::task::{Context, Poll};

use super::error::IoError;
use super::pending::Ticket;
use super::shared::Command;
use super::socket::Socket;
use super::table::{Delivery, Flow, Phase};
use crate::pool::Lease;

/// What a receive delivers.
#[derive(Debug)]
pub enum Received {
    /// Bytes, in order. The lease is as long as they are.
    Data(Lease),
    /// The peer will send no more. Nothing follows.
    End,
}

/// Bytes of one socket, each delivery in a buffer of its own. Ends with [`Received::End`], or with an error.
///
/// While no buffer is free it waits for one to come back, and the peer waits in turn; while nobody takes what has come,
/// it stops after a few deliveries.
///
/// # Cancellation
///
/// Dropping it cancels. What it had delivered and nobody has taken is lost with it; what is still in the socket stays.
#[must_use = "dropping it cancels the receive"]
#[derive(Debug)]
pub struct Receive {
    ticket: Ticket,
    has_ended: bool,
}

/// Connections of a listener, one after the other. Ends with an error only, or when cancelled.
///
/// # Cancellation
///
/// Dropping it cancels. Connections that it had accepted and nobody has taken are closed.
#[must_use = "dropping it cancels the accepting"]
#[derive(Debug)]
pub struct Accept {
    ticket: Ticket,
    has_ended: bool,
}

impl Receive {
    pub(super) fn new(ticket: Ticket) -> Self {
        Self { ticket, has_ended: false }
    }

    /// The next delivery; `None` after the end or an error.
    pub fn delivery(&mut self) -> impl Future<Output = Option<Result<Received, IoError>>> + '_ {
        poll_fn(|context| self.poll_delivery(context))
    }

    /// As [`delivery`](Receive::delivery), for whoever writes futures by hand.
    pub fn poll_delivery(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Received, IoError>>> {
        let polled = next(&self.ticket, &mut self.has_ended, context);
        polled.map(|delivery| match delivery? {
            Ok(Delivery::Data(lease)) => Some(Ok(Received::Data(lease))),
            Ok(Delivery::End | Delivery::Accepted(_)) => {
                self.has_ended = true;
                Some(Ok(Received::End))
            }
            Err(error) => Some(Err(error)),
        })
    }

    /// Asks for the receive to end soon. What has come so far is still delivered.
    pub fn cancel(&self) {
        self.ticket.shared.command(Command::Cancel(self.ticket.key));
    }
}

impl Accept {
    pub(super) fn new(ticket: Ticket) -> Self {
        Self { ticket, has_ended: false }
    }

    /// The next connection; `None` after an error.
    pub fn connection(&mut self) -> impl Future<Output = Option<Result<Socket, IoError>>> + '_ {
        poll_fn(|context| self.poll_connection(context))
    }

    /// As [`connection`](Accept::connection), for whoever writes futures by hand.
    pub fn poll_connection(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Socket, IoError>>> {
        let polled = next(&self.ticket, &mut self.has_ended, context);
        polled.map(|delivery| match delivery? {
            Ok(Delivery::Accepted(socket)) => Some(Ok(socket)),
            Ok(Delivery::End | Delivery::Data(_)) => None,
            Err(error) => Some(Err(error)),
        })
    }

    /// Asks for the accepting to end soon. Connections that have been accepted are still delivered.
    pub fn cancel(&self) {
        self.ticket.shared.command(Command::Cancel(self.ticket.key));
    }
}

/// The next delivery, or the error that ended the stream, once.
fn next(
    ticket: &Ticket,
    has_ended: &mut bool,
    context: &mut Context<'_>,
) -> Poll<Option<Result<Delivery, IoError>>> {
    if *has_ended {
        return Poll::Ready(None);
    }
    let mut resumes = false;
    let polled = ticket.poll_with(context, |entry| {
        let delivery = entry.deliveries.pop_front();
        if entry.flow == Flow::Paused && entry.deliveries.len() <= entry.backlog_limit() / 2 {
            entry.flow = Flow::Flowing;
            resumes = true;
        }
        match delivery {
            Some(delivery) => Some(Some(Ok(delivery))),
            None if entry.phase == Phase::Over => match entry.outcome {
                Some(Err(error)) => Some(Some(Err(error))),
                _ => Some(None),
            },
            None => None,
        }
    });
    if resumes {
        ticket.shared.command(Command::Start(ticket.key));
    }
    if let Poll::Ready(None | Some(Err(_))) = polled {
        *has_ended = true;
    }
    polled
}
