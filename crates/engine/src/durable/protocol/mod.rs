//! The commit protocol (docs/decisions/0013, 0016): what may be acknowledged, committed and removed, and how a query
//! resumes after a crash. This module only decides: it has no thread, no clock, no disk.
//!
//! Each part is told what has happened and says what may or must happen next. Each thread of a durable query owns its
//! part and carries out what it says. The simulation (`tests/simulation`) runs the same code step by step.
//!
//! | part | is told | says |
//! |---|---|---|
//! | [`IntakeProgress`], of a source | rows given, written, synced | which rows to append, when to sync, how many to acknowledge |
//! | [`Forwarding`], of a source | records at hand | which of their rows the gateway does not have |
//! | [`SyncTargets`] | how far rows and cuts are synced | what a cycle's commit still waits for |
//! | [`Commits`] | commits of sinks, sinks that arrive | what to note, what all sinks have, what a sink lacks |
//! | [`Retention`] | snapshots, commits | what nobody needs any more |
//! | [`RecoveryInput`] | what is on the disk after a crash | where to resume, what to discard |
//!
//! Which cycles a sink is given is decided elsewhere: [`tidemill_flow::SinkProgress`], [`tidemill_flow::Replay`].

mod commits;
mod forwarding;
mod intake_progress;
mod recovery_plan;
mod retention;

pub(super) use commits::{AwaitedSync, SyncTargets, unheard_from};
pub(crate) use commits::{Commits, SinkCommit};
pub(super) use forwarding::Forwarding;
pub(super) use intake_progress::{AcknowledgeStep, IntakeProgress};
pub(super) use recovery_plan::{JournaledRange, RecoveryInput, RecoveryPlan};
pub(crate) use retention::{Release, Retention};
