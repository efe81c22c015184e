//! The messages between process 0 and the others on their control connection.

use std::collections::BTreeMap;

use tidemill_core::error::{Cause, Fault};
use tidemill_core::fields;
use tidemill_core::snapshot::{SnapshotReader, SnapshotWriter};
use tidemill_core::{Cut, Faults, Notices, OperatorError, SinkError, SplitChange};

use super::report::Report;
use crate::error::Failure;

/// From process 0.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ToMember {
    /// The layout of the run.
    Start(Start),
    /// The state of one partition that belongs to this process.
    State { operator: String, partition: u32, bytes: Vec<u8> },
    /// The event time with which an operator's timers were compared.
    Watermark { operator: String, watermark: i64 },
    /// Everything is sent: connect to the others and begin.
    Go,
    /// A cycle was closed.
    Cycle(CycleNotice),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Start {
    /// Workers of each process.
    pub workers: u32,
    pub spin_ns: u64,
    pub first_cycle: u64,
    /// Where each process listens.
    pub ports: Vec<u16>,
}

/// A closed cycle, without its rows: they come through the dataflow.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CycleNotice {
    pub cut: Cut,
    pub events: u32,
    /// The first cycle that some sink has not committed.
    pub committed: u64,
}

/// To process 0.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ToLeader {
    /// A process with this plan, which others may call at this port.
    Join { port: u16, plan: String },
    /// All of its workers have built their operators.
    Ready,
    /// The work since the last report.
    Report(Report),
    /// One operator's partitions on one worker.
    Contribution { cycle: u64, operator: String, watermark: i64, partitions: BTreeMap<u32, Vec<u8>> },
    /// Its part of the query failed.
    Failed(Failure),
    /// Its part of the query has ended.
    Ended,
}

impl ToMember {
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut to = SnapshotWriter::default();
        match self {
            ToMember::Start(start) => {
                to.u8(1);
                to.u32(start.workers);
                to.u64(start.spin_ns);
                to.u64(start.first_cycle);
                put_all(&mut to, &start.ports, |to, port| to.u16(*port));
            }
            ToMember::State { operator, partition, bytes } => {
                to.u8(2);
                to.bytes(operator.as_bytes());
                to.u32(*partition);
                to.bytes(bytes);
            }
            ToMember::Watermark { operator, watermark } => {
                to.u8(3);
                to.bytes(operator.as_bytes());
                to.i64(*watermark);
            }
            ToMember::Go => to.u8(4),
            ToMember::Cycle(post) => {
                to.u8(5);
                put_post(&mut to, post);
            }
        }
        to.finish()
    }

    /// Reads a message; `None` if it is invalid.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        parse(bytes, |from| match from.u8()? {
            1 => Ok(ToMember::Start(Start {
                workers: from.u32()?,
                spin_ns: from.u64()?,
                first_cycle: from.u64()?,
                ports: take_all(from, SnapshotReader::u16)?,
            })),
            2 => Ok(ToMember::State {
                operator: from.text()?,
                partition: from.u32()?,
                bytes: from.bytes()?.to_vec(),
            }),
            3 => Ok(ToMember::Watermark { operator: from.text()?, watermark: from.i64()? }),
            4 => Ok(ToMember::Go),
            5 => Ok(ToMember::Cycle(take_post(from)?)),
            _ => Err(unknown()),
        })
    }
}

impl ToLeader {
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut to = SnapshotWriter::default();
        match self {
            ToLeader::Join { port, plan } => {
                to.u8(1);
                to.u16(*port);
                to.bytes(plan.as_bytes());
            }
            ToLeader::Ready => to.u8(2),
            ToLeader::Report(report) => {
                to.u8(3);
                to.i64(report.held_bytes);
                put_all(&mut to, &report.counters, |to, value| to.u64(*value));
                put_all(&mut to, &report.work, |to, value| to.u64(*value));
                put_all(&mut to, &report.faults, put_faults);
                put_all(&mut to, &report.left_out, |to, value| to.u64(*value));
                put_all(&mut to, &report.clock_timers, |to, value| to.u64(*value));
            }
            ToLeader::Contribution { cycle, operator, watermark, partitions } => {
                to.u8(4);
                to.u64(*cycle);
                to.bytes(operator.as_bytes());
                to.i64(*watermark);
                put_all(&mut to, partitions, |to, (partition, bytes)| {
                    to.u32(*partition);
                    to.bytes(bytes);
                });
            }
            ToLeader::Failed(failure) => {
                to.u8(5);
                put_failure(&mut to, failure);
            }
            ToLeader::Ended => to.u8(6),
        }
        to.finish()
    }

    /// Reads a message; `None` if it is invalid.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        parse(bytes, |from| match from.u8()? {
            1 => Ok(ToLeader::Join { port: from.u16()?, plan: from.text()? }),
            2 => Ok(ToLeader::Ready),
            3 => Ok(ToLeader::Report(Report {
                held_bytes: from.i64()?,
                counters: take_all(from, SnapshotReader::u64)?,
                work: take_all(from, SnapshotReader::u64)?,
                faults: take_all(from, take_faults)?,
                left_out: take_all(from, SnapshotReader::u64)?,
                clock_timers: take_all(from, SnapshotReader::u64)?,
            })),
            4 => Ok(ToLeader::Contribution {
                cycle: from.u64()?,
                operator: from.text()?,
                watermark: from.i64()?,
                partitions: take_all(from, |from| Ok((from.u32()?, from.bytes()?.to_vec())))?
                    .into_iter()
                    .collect(),
            }),
            5 => Ok(ToLeader::Failed(take_failure(from)?)),
            6 => Ok(ToLeader::Ended),
            _ => Err(unknown()),
        })
    }
}

fn put_post(to: &mut SnapshotWriter, post: &CycleNotice) {
    let cut = &post.cut;
    to.u64(cut.cycle);
    put_all(to, &cut.positions, |to, position| to.u64(*position));
    put_all(to, &cut.watermarks, |to, watermark| to.i64(*watermark));
    put_all(to, &cut.idle, |to, idle| to.u8((*idle).into()));
    put_all(to, &cut.ended_at, |to, time| to.i64(*time));
    to.u64(cut.closed_at_ns);
    to.u8(u8::from(cut.snapshot) | u8::from(cut.stands_still_when_idle) << 1);
    to.u8(cut.last.into());
    put_all(to, &cut.splits, |to, change| {
        to.bytes(change.operator.as_bytes());
        to.u32(change.input);
        to.bytes(&change.plan);
    });
    to.u32(post.events);
    to.u64(post.committed);
}

fn take_post(from: &mut SnapshotReader<'_>) -> Result<CycleNotice, Cause> {
    let mut cut = Cut {
        cycle: from.u64()?,
        positions: take_all(from, SnapshotReader::u64)?,
        watermarks: take_all(from, SnapshotReader::i64)?,
        idle: take_all(from, |from| Ok(from.u8()? != 0))?,
        ended_at: take_all(from, SnapshotReader::i64)?,
        closed_at_ns: from.u64()?,
        ..Cut::first()
    };
    let flags = from.u8()?;
    (cut.snapshot, cut.stands_still_when_idle) = (flags & 1 != 0, flags & 2 != 0);
    let cut = Cut {
        last: from.u8()? != 0,
        splits: take_all(from, |from| {
            Ok(SplitChange { operator: from.text()?, input: from.u32()?, plan: from.bytes()?.to_vec() })
        })?,
        ..cut
    };
    Ok(CycleNotice { cut, events: from.u32()?, committed: from.u64()? })
}

fn put_faults(to: &mut SnapshotWriter, faults: &Faults) {
    to.u64(faults.count);
    put_all(to, &faults.samples, |to, text| to.bytes(text.as_bytes()));
    to.u64(faults.notices.count());
    put_all(to, faults.notices.newest(), |to, text| to.bytes(text.as_bytes()));
}

fn take_faults(from: &mut SnapshotReader<'_>) -> Result<Faults, Cause> {
    Ok(Faults {
        count: from.u64()?,
        samples: take_all(from, SnapshotReader::text)?,
        notices: Notices::of(from.u64()?, take_all(from, SnapshotReader::text)?),
        records: None,
    })
}

fn put_failure(to: &mut SnapshotWriter, failure: &Failure) {
    match failure {
        Failure::Operator(error) => {
            to.u8(1);
            to.bytes(error.operator.as_bytes());
            to.u32(error.partition);
            to.u64(error.cycle);
            to.u32(error.events.len() as u32);
            error.events.iter().for_each(|event| to.u32(*event));
            put_cause(to, &error.cause);
        }
        Failure::Sink(error) => {
            to.u8(2);
            to.bytes(error.sink.as_bytes());
            to.u64(error.cycle);
            put_cause(to, &error.cause);
        }
        Failure::Engine { part, cause } => {
            to.u8(3);
            to.bytes(part.as_bytes());
            put_cause(to, cause);
        }
        Failure::Aborted => to.u8(4),
    }
}

fn take_failure(from: &mut SnapshotReader<'_>) -> Result<Failure, Cause> {
    Ok(match from.u8()? {
        1 => Failure::Operator(OperatorError {
            operator: from.text()?,
            partition: from.u32()?,
            cycle: from.u64()?,
            events: {
                let count = from.u32()?;
                fields::take_all(from, count.into(), SnapshotReader::u32)?
            },
            cause: take_cause(from)?,
        }),
        2 => Failure::Sink(SinkError { sink: from.text()?, cycle: from.u64()?, cause: take_cause(from)? }),
        3 => Failure::Engine { part: from.text()?, cause: take_cause(from)? },
        4 => Failure::Aborted,
        _ => return Err(unknown()),
    })
}

fn put_cause(to: &mut SnapshotWriter, cause: &Cause) {
    to.u8(match cause.fault {
        Fault::User => 1,
        Fault::Operation => 2,
        Fault::Resource => 3,
        Fault::Bug => 4,
    });
    to.bytes(cause.message.as_bytes());
}

fn take_cause(from: &mut SnapshotReader<'_>) -> Result<Cause, Cause> {
    let fault = match from.u8()? {
        1 => Fault::User,
        2 => Fault::Operation,
        3 => Fault::Resource,
        4 => Fault::Bug,
        _ => return Err(unknown()),
    };
    Ok(Cause::new(fault, from.text()?))
}

fn put_all<T>(
    to: &mut SnapshotWriter,
    values: impl IntoIterator<Item = T, IntoIter: ExactSizeIterator>,
    put: impl Fn(&mut SnapshotWriter, T),
) {
    let values = values.into_iter();
    to.u64(values.len() as u64);
    values.for_each(|value| put(to, value));
}

fn take_all<'a, T>(
    from: &mut SnapshotReader<'a>,
    take: impl Fn(&mut SnapshotReader<'a>) -> Result<T, Cause>,
) -> Result<Vec<T>, Cause> {
    let count = from.u64()?;
    fields::take_all(from, count, take)
}

/// Reads a complete message, with nothing after it.
fn parse<T>(bytes: &[u8], take: impl FnOnce(&mut SnapshotReader<'_>) -> Result<T, Cause>) -> Option<T> {
    let mut from = SnapshotReader::new(bytes).ok()?;
    let message = take(&mut from).ok()?;
    from.is_empty().then_some(message)
}

fn unknown() -> Cause {
    Cause::operation("a control message is of an unknown kind")
}

#[cfg(test)]
mod tests {
    use tidemill_split::SplitPlan;

    use super::*;

    fn to_member() -> Vec<ToMember> {
        let cut = Cut {
            cycle: 7,
            positions: vec![1, u64::MAX],
            watermarks: vec![i64::MIN, 5],
            idle: vec![true, false],
            ended_at: vec![i64::MIN, 7],
            stands_still_when_idle: true,
            closed_at_ns: 99,
            snapshot: true,
            last: false,
            splits: vec![SplitChange {
                operator: "o".into(),
                input: 1,
                plan: SplitPlan::exptree(9).to_bytes(),
            }],
        };
        vec![
            ToMember::Start(Start { workers: 2, spin_ns: 5, first_cycle: 6, ports: vec![1, 65535] }),
            ToMember::State { operator: "o".into(), partition: 3, bytes: vec![1, 2] },
            ToMember::Watermark { operator: "ö".into(), watermark: -5 },
            ToMember::Go,
            ToMember::Cycle(CycleNotice { cut, events: 5, committed: 6 }),
        ]
    }

    fn to_leader() -> Vec<ToLeader> {
        let causes = [Cause::user("u"), Cause::operation("o"), Cause::resource("r"), Cause::bug("b")];
        let failures = causes.into_iter().map(|cause| {
            ToLeader::Failed(Failure::Operator(OperatorError {
                operator: "x".into(),
                partition: 1,
                cycle: 2,
                events: vec![3, 5],
                cause,
            }))
        });
        let sink = SinkError { sink: "s".into(), cycle: 4, cause: Cause::user("full") };
        let partitions = BTreeMap::from([(1, vec![1]), (5, vec![])]);
        let others = [
            ToLeader::Join { port: 9, plan: "a\nb".into() },
            ToLeader::Ready,
            ToLeader::Report(Report {
                held_bytes: -3,
                counters: vec![1, 2],
                work: vec![3],
                faults: vec![Faults { count: 9, samples: vec!["ä".into()], ..Faults::default() }],
                left_out: vec![4],
                clock_timers: vec![u64::MAX],
            }),
            ToLeader::Contribution { cycle: 7, operator: "x".into(), watermark: i64::MAX, partitions },
            ToLeader::Failed(Failure::Sink(sink)),
            ToLeader::Failed(Failure::Engine { part: "p".into(), cause: Cause::bug("b") }),
            ToLeader::Failed(Failure::Aborted),
            ToLeader::Ended,
        ];
        failures.chain(others).collect()
    }

    #[test]
    fn messages_survive_the_way() {
        for message in to_member() {
            assert_eq!(ToMember::from_bytes(&message.to_bytes()), Some(message));
        }
        for message in to_leader() {
            assert_eq!(ToLeader::from_bytes(&message.to_bytes()), Some(message));
        }
    }

    #[test]
    fn damaged_messages_are_none() {
        let mut all: Vec<_> = to_member().iter().map(ToMember::to_bytes).collect();
        all.extend(to_leader().iter().map(ToLeader::to_bytes));
        for bytes in all {
            for at in 0..bytes.len() {
                let mut other = bytes.clone();
                other[at] ^= 0x41;
                assert_eq!((ToMember::from_bytes(&other), ToLeader::from_bytes(&other)), (None, None));
                assert_eq!(
                    (ToMember::from_bytes(&bytes[..at]), ToLeader::from_bytes(&bytes[..at])),
                    (None, None)
                );
            }
        }
        // Well-formed bytes that announce more than they contain.
        let mut to = SnapshotWriter::default();
        to.u8(3);
        to.i64(0);
        to.u64(u64::MAX);
        assert_eq!(ToLeader::from_bytes(&to.finish()), None);
    }
}
