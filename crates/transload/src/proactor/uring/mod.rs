use super::backend::*;
use super::capability::*;
use super::error::*;
use super::key::Key;
use crate::memory::Slab;
use crate::pool::BufferPool;
use rustix::io::Errno;
use std::time::Duration;
pub(super) struct UringBackend;
impl UringBackend {
    pub(super) fn open(_e: u32, _a: Capabilities) -> Result<Self, ProactorError> {
        Err(ProactorError::NotBuilt)
    }
}
impl Backend for UringBackend {
    fn capabilities(&self) -> Capabilities {
        unimplemented!()
    }
    fn alarm(&self) -> std::sync::Arc<dyn Alarm> {
        unimplemented!()
    }
    fn start(&mut self, _: Key, _: Attempt<'_>) {}
    fn cancel(&mut self, _: Key) {}
    fn wait(&mut self, _: Option<Duration>, _: &mut Vec<Completion>) -> Result<(), Errno> {
        unimplemented!()
    }
    fn register(&mut self, _: &Slab, _: usize) -> Result<Vec<u16>, String> {
        unimplemented!()
    }
    fn unregister(&mut self, _: &[u16]) {}
    fn add_pool(&mut self, _: Group, _: &BufferPool) -> Result<(), Errno> {
        unimplemented!()
    }
    fn remove_pool(&mut self, _: Group) {}
    fn overflows(&self) -> u64 {
        0
    }
}
