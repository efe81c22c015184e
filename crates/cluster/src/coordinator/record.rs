//! Records.

/// The number of a change. Later changes in a cluster have larger ones; 0 is before the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

/// A random number by which whoever makes a change recognises it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp(pub [u8; 16]);

/// A value with the change that wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The number of the change: its fencing token.
    pub revision: Revision,
    /// By which its writer recognises it.
    pub stamp: Stamp,
    /// What was written.
    pub value: Vec<u8>,
}
