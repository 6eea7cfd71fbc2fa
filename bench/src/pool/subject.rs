//! What a pool must be able to do to be compared.

/// A pool of equal buffers.
pub trait Subject: Clone + Send + Sync + 'static {
    /// In the report.
    const NAME: &'static str;
    /// What one thread works with.
    type Worker: Worker;

    /// A pool of so many buffers, all free.
    fn open(buffers: usize) -> Self;
    /// For the calling thread.
    fn worker(&self) -> Self::Worker;
}

/// One thread's way to a pool.
pub trait Worker {
    /// A buffer that is out.
    type Lease;

    /// A buffer, if there is one.
    fn acquire(&mut self) -> Option<Self::Lease>;
    /// Gives it back.
    fn release(&mut self, lease: Self::Lease);
    /// Which buffer it is.
    fn index(lease: &Self::Lease) -> u32;
}
