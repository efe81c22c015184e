//! Rules that a schedule can leave out, to show that the simulation finds what they forbid.

/// A rule of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// A seal refuses what the old writer sends.
    Seal,
    /// A record is acknowledged once `durable` replicas have it, not one fewer.
    Quorum,
    /// Enough replicas are sealed, not one fewer.
    SealQuorum,
    /// A replica syncs records before it says that it has them.
    SyncRecords,
    /// A replica syncs a seal before it says that it is sealed.
    SyncSeal,
    /// A replica with a new disk is another replica.
    DiskIdentity,
    /// A replica takes no records behind a gap.
    NoGap,
    /// The last records are on enough disks before the epoch is closed.
    CopyTail,
    /// A record of the coordinator changes only if it is the one that was read.
    Compare,
    /// A change of which nobody knows the outcome is not taken for done.
    Unknown,
    /// A restarted writer seals its own epoch before it writes.
    SealOwn,
    /// A sink refuses older generations.
    Fence,
    /// A new leader sets back what its predecessor wrote to the sink.
    SetBack,
}

impl Rule {
    pub const ALL: [Rule; 13] = [
        Rule::Seal,
        Rule::Quorum,
        Rule::SealQuorum,
        Rule::SyncRecords,
        Rule::SyncSeal,
        Rule::DiskIdentity,
        Rule::NoGap,
        Rule::CopyTail,
        Rule::Compare,
        Rule::Unknown,
        Rule::SealOwn,
        Rule::Fence,
        Rule::SetBack,
    ];
}
