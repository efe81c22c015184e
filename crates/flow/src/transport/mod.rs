//! How rows get from worker to worker: by reference within a process, as bytes between processes.

pub(crate) mod acceptor;
mod buffer_pool;
pub(crate) mod bulk_channels;
pub(crate) mod distribute;
mod framing;
pub(crate) mod handshake;
pub(crate) mod link;
pub(crate) mod parcel;
pub(crate) mod parcels;
pub(crate) mod secret;
mod sequence;
pub(crate) mod wire;
