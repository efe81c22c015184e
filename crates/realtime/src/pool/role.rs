//! What threads do in a pool.

/// What a thread does in a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It processes: the worker with this number.
    Worker(usize),
    /// It reads a source, or writes to a sink.
    Receiver,
}
