//! Messages of all who connect: one thread, one proactor, a task for each connection.

mod connection;
mod file;
mod hub;
mod listener;
mod serve;

pub(in crate::pump) use file::SocketFile;
pub(in crate::pump) use listener::Listener;
pub(in crate::pump) use serve::Sockets;
