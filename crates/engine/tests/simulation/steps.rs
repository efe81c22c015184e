//! What the parts of a process do, one step at a time, and how the process ends.

use super::process::Process;

/// What a part of the process does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Write(usize),
    Forward(usize),
    Cut,
    Work,
    Sink(usize),
    SyncCuts,
    AskSnapshot,
    StoreSnapshot,
    Release,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// The process ends: what was written is there.
    Kill,
    /// The machine loses power: what was not synced may be there, or not, or in part.
    PowerLoss,
    /// It is stopped in order.
    Stop,
}

/// A step, and the positions of all parts after it.
pub fn tell(step: Step, process: &Process) -> String {
    let at = match step {
        Step::Write(source) => {
            let progress = &process.kept.progress[source];
            format!("{} to {}, synced {}", progress.first(), progress.end(), progress.synced())
        }
        Step::Forward(source) => {
            let next = process.forwarders[source].as_ref().map(|forwarder| forwarder.forwarding.next());
            next.map_or("ended".into(), |next| format!("up to {next}"))
        }
        Step::Cut | Step::SyncCuts => {
            let last = process.kept.cuts.last().map(|cut| format!("{} at {:?}", cut.cycle, cut.positions));
            format!("last {}, synced {:?}", last.unwrap_or_default(), process.kept.cuts.synced())
        }
        Step::Sink(sink) => {
            let sink = &process.flow.sinks[sink];
            let last = sink.last.as_ref().map(|cut| cut.cycle);
            format!("given up to {last:?}, next {}, not noted {:?}", sink.progress.next(), sink.unnoted)
        }
        Step::StoreSnapshot | Step::Release => {
            format!("{:?}", process.kept.journal.snapshots().cycles())
        }
        Step::Work | Step::AskSnapshot => String::new(),
    };
    format!("{step:?}: {at}")
}
