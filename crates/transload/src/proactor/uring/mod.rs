//! The back end of `io_uring`: attempts become entries of a ring, and its completions become events.
//!
//! Two rules hold everywhere. The kernel's flag *more* of each completion, and nothing else, says whether an attempt is
//! over; and whatever the kernel may touch is kept in the table of requests until then.
//!
//! | file | holds |
//! |---|---|
//! | `backend` | [`UringBackend`]: what starts, cancels, waits |
//! | `entries` | what an attempt looks like to the kernel |
//! | `completions` | what the kernel's completions mean |
//! | `requests` | the attempts in flight and all that the kernel may touch for them |
//! | `ring` | the ring itself: submission, waiting, overflow |
//! | `groups`, `buffer_ring` | pools to receive into, and what the kernel has of them |
//! | `slots` | registered memory |
//! | `opening`, `errors` | set-up, what this kernel can do, why it cannot |
//! | `alarm` | what wakes it |

mod alarm;
mod backend;
mod buffer_ring;
mod completions;
mod entries;
mod errors;
mod groups;
mod opening;
mod requests;
mod ring;
mod slots;

#[cfg(test)]
mod tests;

pub(super) use backend::UringBackend;
