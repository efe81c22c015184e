//! How rows get from worker to worker: by reference within a process, as bytes between processes.

pub(crate) mod distribute;
mod framing;
pub(crate) mod handshake;
pub(crate) mod lanes;
pub(crate) mod link;
mod memory;
pub(crate) mod parcel;
pub(crate) mod parcels;
pub(crate) mod reception;
pub(crate) mod secret;
mod sequence;
pub(crate) mod wire;
