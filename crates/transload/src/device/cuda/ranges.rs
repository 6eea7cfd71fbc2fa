//! Which memory of this process is pinned: one table for all devices.
//!
//! The driver pins a page once for the whole process (the flag `PORTABLE` makes it known to all contexts), refuses to pin it
//! again, and forgets it at the first unregistration. So whoever registers the same range again shares what is there, by
//! count, and only the last unregisters. Registrations of other libraries of the process are recognised by the driver's
//! answer, used, and left alone.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cudarc::driver::sys::{
    CU_MEMHOSTREGISTER_DEVICEMAP, CU_MEMHOSTREGISTER_PORTABLE, CU_MEMHOSTREGISTER_READ_ONLY,
    CUpointer_attribute,
};

use super::codes::Failure;
use super::context::{Context, Current};
use crate::device::process::Process;
use crate::region::{Access, RegisterError};

static TABLE: Mutex<BTreeMap<usize, Entry>> = Mutex::new(BTreeMap::new());

/// Pinned memory, by the address at which it begins.
#[derive(Debug)]
struct Entry {
    end: usize,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// Allocated by the driver. It is freed by whoever has it.
    Allocated,
    /// Registered here, in pieces that follow each other.
    Registered { pieces: Arc<[Range<usize>]>, holds: usize, is_read_only: bool, owner: Arc<Context> },
}

/// What is to be pinned.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) memory: Range<usize>,
    pub(super) access: Access,
    /// Pieces end between buffers of this size, if they can.
    pub(super) buffer_bytes: usize,
    /// The most bytes of a piece.
    pub(super) piece_bytes: usize,
    /// Whether the device is to reach the memory by itself.
    pub(super) map: bool,
    /// Whether the driver can register memory that may not be written.
    pub(super) read_only_is_known: bool,
}

/// What became of it.
#[derive(Debug)]
pub(super) enum Outcome {
    Pinned(Hold),
    /// Why not. Nothing is registered.
    NotPinned(Failure),
}

/// A share in pinned memory, which stays pinned while this exists.
#[derive(Debug)]
pub(super) struct Hold {
    pieces: Arc<[Range<usize>]>,
    /// The entry that counts it, and the process whose table has that.
    counted: Option<(usize, Process)>,
}

fn table() -> MutexGuard<'static, BTreeMap<usize, Entry>> {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes memory that the driver has allocated.
pub(super) fn note_allocation(memory: Range<usize>) {
    table().insert(memory.start, Entry { end: memory.end, kind: Kind::Allocated });
}

/// Notes that it is about to be freed.
pub(super) fn forget_allocation(start: usize) {
    table().remove(&start);
}

/// Pins memory, or shares what is pinned. The table is locked meanwhile, so that whoever comes second to the same memory
/// finds it pinned and not half so; the driver takes such calls one after another itself.
pub(super) fn pin(
    context: &Arc<Context>,
    cuda: &Current<'_>,
    request: &Request,
) -> Result<Outcome, RegisterError> {
    let pages = whole_pages(&request.memory);
    let mut table = table();
    if let Some((start, entry)) = overlapping(&mut table, &pages) {
        return share(context.process(), start, entry, request, pages);
    }
    let register = |flags| pin_pieces(cuda, &cut(&pages, request), flags);
    let mut flags = CU_MEMHOSTREGISTER_PORTABLE;
    if request.map {
        flags |= CU_MEMHOSTREGISTER_DEVICEMAP;
    }
    let mut pinned = register(flags);
    let may_be_read_only = request.read_only_is_known && !request.access.writes();
    let is_read_only = match pinned {
        // Memory that this process may only read is refused, unless the driver is told that the device does no more. Other
        // memory is pinned for both, so that whoever writes it can share it later.
        Err(failure) if may_be_read_only && !failure.is_already_registered() && !failure.is_loss() => {
            pinned = register(flags | CU_MEMHOSTREGISTER_READ_ONLY);
            pinned.is_ok()
        }
        _ => false,
    };
    match pinned {
        Ok(pieces) => {
            let kind =
                Kind::Registered { pieces: pieces.clone(), holds: 1, is_read_only, owner: context.clone() };
            table.insert(pages.start, Entry { end: pages.end, kind });
            Ok(Outcome::Pinned(Hold { pieces, counted: Some((pages.start, context.process())) }))
        }
        Err(failure) if failure.is_already_registered() => match pinned_elsewhere(cuda, &request.memory) {
            Some(range) => Ok(Outcome::Pinned(Hold { pieces: [range].into(), counted: None })),
            None => Ok(Outcome::NotPinned(failure)),
        },
        Err(failure) => Ok(Outcome::NotPinned(failure)),
    }
}

/// The first entry that has some of these addresses.
fn overlapping<'a>(
    table: &'a mut BTreeMap<usize, Entry>,
    pages: &Range<usize>,
) -> Option<(usize, &'a mut Entry)> {
    let (start, entry) = table.range_mut(..pages.end).next_back()?;
    (entry.end > pages.start).then_some((*start, entry))
}

/// A share in an entry, if it is of the very same memory or the driver's own.
fn share(
    process: Process,
    start: usize,
    entry: &mut Entry,
    request: &Request,
    pages: Range<usize>,
) -> Result<Outcome, RegisterError> {
    let registered = start..entry.end;
    let refuse = |registered| {
        Err(RegisterError::Overlaps { registrar: "CUDA".to_owned(), wanted: pages.clone(), registered })
    };
    match &mut entry.kind {
        Kind::Allocated if start <= request.memory.start && request.memory.end <= entry.end => {
            Ok(Outcome::Pinned(Hold { pieces: [registered].into(), counted: None }))
        }
        Kind::Registered { is_read_only: true, .. } if request.access.writes() && registered == pages => {
            Err(RegisterError::Refused {
                registrar: "CUDA".to_owned(),
                len_bytes: request.memory.len(),
                reason: "it is registered for reading only, since this process may not write it".to_owned(),
            })
        }
        Kind::Registered { pieces, holds, .. } if registered == pages => {
            *holds += 1;
            Ok(Outcome::Pinned(Hold { pieces: pieces.clone(), counted: Some((start, process)) }))
        }
        _ => refuse(registered),
    }
}

/// The pages that have these bytes.
fn whole_pages(memory: &Range<usize>) -> Range<usize> {
    let page = page_bytes();
    memory.start / page * page..memory.end.next_multiple_of(page)
}

#[cfg(unix)]
fn page_bytes() -> usize {
    rustix::param::page_size()
}

#[cfg(not(unix))]
fn page_bytes() -> usize {
    4096
}

/// Where the pieces begin and end.
fn cut(pages: &Range<usize>, request: &Request) -> Vec<Range<usize>> {
    let page = page_bytes();
    // The least common multiple of page and buffer, if buffers begin with the pages and so much is allowed.
    let (mut divisor, mut rest) = (page, request.buffer_bytes.max(1));
    while rest != 0 {
        (divisor, rest) = (rest, divisor % rest);
    }
    let unit = (page / divisor).saturating_mul(request.buffer_bytes.max(1));
    let unit = if unit <= request.piece_bytes { unit } else { page };
    let len_bytes = (request.piece_bytes / unit * unit).max(page);
    pages.clone().step_by(len_bytes).map(|start| start..pages.end.min(start + len_bytes)).collect()
}

/// Registers the pieces, all or none.
fn pin_pieces(
    cuda: &Current<'_>,
    pieces: &[Range<usize>],
    flags: u32,
) -> Result<Arc<[Range<usize>]>, Failure> {
    for (nth, piece) in pieces.iter().enumerate() {
        let base = std::ptr::with_exposed_provenance_mut(piece.start);
        // SAFETY: whole pages of a slab, which its region keeps there while they are registered (I2, I4); what shares a page
        // with a slab at an odd address is only locked, too.
        if let Err(failure) = unsafe { cuda.host_register(base, piece.len(), flags) } {
            consume(cuda);
            unpin(cuda, &pieces[..nth]);
            return Err(failure);
        }
    }
    Ok(pieces.into())
}

/// Fetches an error that a call before may have left, so that nobody takes it for that of a later one: many functions
/// "may also return error codes from previous, asynchronous launches".
fn consume(cuda: &Current<'_>) {
    let mut device = 0;
    // SAFETY: the place of a device.
    if let Err(left) = unsafe { cuda.context_device(&raw mut device) } {
        tracing::debug!("an error that was left behind: {left}");
    }
}

fn unpin(cuda: &Current<'_>, pieces: &[Range<usize>]) {
    for piece in pieces {
        let base = std::ptr::with_exposed_provenance_mut(piece.start);
        // SAFETY: registered by `pin_pieces` and not unregistered since; no transfer uses it any more, for each held its
        // region (I2).
        if let Err(failure) = unsafe { cuda.host_unregister(base) } {
            consume(cuda);
            failure.note_release("registered memory");
        }
    }
}

/// The range that somebody else has pinned, if it has all of these bytes.
fn pinned_elsewhere(cuda: &Current<'_>, memory: &Range<usize>) -> Option<Range<usize>> {
    let (mut start, mut len_bytes) = (0_usize, 0_usize);
    let ask = |value: *mut usize, attribute| {
        // SAFETY: both attributes are numbers as long as an address; the address is looked up, not read.
        unsafe { cuda.pointer_attribute(value.cast(), attribute, memory.start as u64) }
    };
    let told = ask(&raw mut start, CUpointer_attribute::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR)
        .and_then(|()| ask(&raw mut len_bytes, CUpointer_attribute::CU_POINTER_ATTRIBUTE_RANGE_SIZE));
    if told.is_err() {
        consume(cuda);
        return None;
    }
    let end = start.checked_add(len_bytes)?;
    (start <= memory.start && memory.end <= end).then_some(start..end)
}

impl Hold {
    /// The pieces that the memory is registered in.
    pub(super) fn pieces(&self) -> &[Range<usize>] {
        &self.pieces
    }

    /// Cuts bytes of the memory where its pieces end: a copy must lie in one.
    pub(super) fn cut(&self, start: *const u8, len_bytes: usize) -> impl Iterator<Item = (*const u8, usize)> {
        let bytes = start.addr()..start.addr() + len_bytes;
        let first = self.pieces.partition_point(|piece| piece.end <= bytes.start);
        self.pieces[first..]
            .iter()
            .take_while({
                let end = bytes.end;
                move |piece| piece.start < end
            })
            .map(move |piece| {
                let from = piece.start.max(bytes.start);
                (start.wrapping_add(from - bytes.start), piece.end.min(bytes.end) - from)
            })
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let Some((start, _)) = self.counted.filter(|(_, process)| process.is_here()) else { return };
        let mut table = table();
        let Some(Entry { kind: Kind::Registered { holds, .. }, .. }) = table.get_mut(&start) else { return };
        *holds -= 1;
        if *holds > 0 {
            return;
        }
        let Some(Entry { kind: Kind::Registered { pieces, owner, .. }, .. }) = table.remove(&start) else {
            return;
        };
        // With the table locked: whoever registers the same memory now waits until it is free.
        match owner.enter() {
            Ok(cuda) => unpin(&cuda, &pieces),
            Err(failure) => failure.note_release("registered memory"),
        }
        drop(table);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(pages: Range<usize>, buffer_bytes: usize, piece_bytes: usize) -> Vec<Range<usize>> {
        let request = Request {
            memory: pages.clone(),
            access: Access::READ,
            buffer_bytes,
            piece_bytes,
            map: false,
            read_only_is_known: false,
        };
        cut(&pages, &request)
    }

    #[test]
    fn pieces_are_whole_pages_and_end_between_buffers_where_they_can() {
        let page = page_bytes();
        assert_eq!(pieces(0..4 * page, 64, 1 << 30).as_slice(), std::slice::from_ref(&(0..4 * page)));
        assert_eq!(
            pieces(page..4 * page, 64, page),
            [page..2 * page, 2 * page..3 * page, 3 * page..4 * page]
        );
        // Buffers of a page and a half end together with pages at every third.
        assert_eq!(
            pieces(0..8 * page, page * 3 / 2, 5 * page),
            [0..3 * page, 3 * page..6 * page, 6 * page..8 * page]
        );
        // Too large to end together: pages it is.
        assert_eq!(
            pieces(0..5 * page, 4 * page, 2 * page),
            [0..2 * page, 2 * page..4 * page, 4 * page..5 * page]
        );
        assert_eq!(pieces(0..2 * page, 64, 1), [0..page, page..2 * page], "never less than a page");
    }

    #[test]
    fn copies_are_cut_where_pieces_end() {
        let hold = Hold { pieces: [0x1000..0x2000, 0x2000..0x4000, 0x4000..0x5000].into(), counted: None };
        let cut = |start: usize, len_bytes: usize| {
            hold.cut(std::ptr::without_provenance(start), len_bytes)
                .map(|(start, len_bytes)| (start.addr(), len_bytes))
                .collect::<Vec<_>>()
        };
        assert_eq!(cut(0x1000, 0x4000), [(0x1000, 0x1000), (0x2000, 0x2000), (0x4000, 0x1000)]);
        assert_eq!(cut(0x1fff, 2), [(0x1fff, 1), (0x2000, 1)]);
        assert_eq!(cut(0x2000, 0x2000), [(0x2000, 0x2000)]);
        assert_eq!(cut(0x4fff, 1), [(0x4fff, 1)]);
    }
}
