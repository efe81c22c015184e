//! Streams, identified by their producer.

/// What writes a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Producer {
    /// The source with this index.
    Source(usize),
    /// The operator with this index.
    Operator(usize),
    /// The transform with this index.
    Transform(usize),
}

/// A stream of the plan: an output of a source or an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamRef {
    /// Its producer.
    pub producer: Producer,
    /// Which of the producer's streams.
    pub port: usize,
}
