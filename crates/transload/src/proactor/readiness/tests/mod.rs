//! The back end through the trait.

mod connections;
mod fairness;
mod files;
mod fixture;
mod many;
mod sockets;
mod waits;
