//! Splitters of their own between the writers of an edge and its operator: one, several, or a tree of them.

use std::sync::Arc;

use tidemill_core::counters::Counter;
use tidemill_split::cost::nodes_of_level;
use tidemill_split::{Placement, Share, Splitter};
use timely::container::NoopBuilder;
use timely::dataflow::Stream;
use timely::dataflow::operators::generic::Operator;

use super::Site;
use super::edge_writer::split_guarded;
use crate::distribute::by_target;
use crate::parcel::{Parcel, Parcels};
use crate::shared::{Failure, Shared};
use crate::topology::{EdgeKind, SplitEdge, Topology};

/// Adds the splitters that an edge's split plan asks for; the stream behind them.
pub(crate) fn build<'scope>(
    site: &Site<'_>,
    edge: usize,
    mut stream: Stream<'scope, u64, Parcels>,
) -> Stream<'scope, u64, Parcels> {
    let EdgeKind::Split(split) = &site.topology.edges[edge].kind else { return stream };
    for splitter in splitters(split, site.topology, edge) {
        let (name, shared) = (split.name.clone(), Arc::clone(site.shared));
        stream = add_level(stream, SplitterStage { splitter, name, shared });
    }
    stream
}

/// A worker's splitters of one level.
struct SplitterStage {
    splitter: Splitter,
    name: String,
    shared: Arc<Shared>,
}

/// The splitters of each level. All but the last hand on all columns, for the routing function sees them all.
fn splitters(split: &SplitEdge, topology: &Topology, edge: usize) -> Vec<Splitter> {
    let Some(plan) = &split.plan else { return Vec::new() };
    let fan_outs = plan.fan_outs();
    let all_columns =
        topology.plan.schema(topology.edges[edge].stream).map_or(0, |schema| schema.fields().len());
    let level = |level: usize| {
        let nodes = nodes_of_level(&fan_outs, level, plan.partitions);
        let (placement, columns) = match level == fan_outs.len() {
            true => (Arc::clone(&split.placement), split.columns.clone()),
            false => {
                let outputs = nodes_of_level(&fan_outs, level + 1, plan.partitions);
                let worker_of = |node| (split.first_worker + node % topology.workers) % topology.workers;
                let placement = Placement::new(topology.workers, (0..outputs).map(worker_of).collect());
                (Arc::new(placement), (0..all_columns).collect())
            }
        };
        Splitter::of_level(Arc::clone(&split.route), plan.partitions, nodes, placement, columns)
    };
    (1..=fan_outs.len()).map(level).collect()
}

fn add_level<'scope>(
    stream: Stream<'scope, u64, Parcels>,
    mut stage: SplitterStage,
) -> Stream<'scope, u64, Parcels> {
    let name = format!("splitters of {}", stage.name);
    stream.unary::<NoopBuilder<Parcels>, _, _, _>(by_target(), &name, move |_, _| {
        move |input, output| {
            input.for_each(|time, parcels| {
                // Rows go on as they come: it is the operator that waits for the whole cycle.
                match stage.split(std::mem::take(parcels), *time.time()) {
                    Ok(sent) if sent.0.is_empty() => {}
                    Ok(mut sent) => output.session_with_builder(&time).give_container(&mut sent),
                    Err(failure) => stage.shared.fail(failure),
                }
            });
        }
    })
}

impl SplitterStage {
    fn split(&mut self, parcels: Parcels, cycle: u64) -> Result<Parcels, Failure> {
        let start_ns = self.shared.clock.now_ns();
        let mut sent = Vec::new();
        for parcel in parcels.0 {
            let (chunk, window) = (parcel.chunk, parcel.window);
            let shares = split_guarded(&self.name, cycle, || self.splitter.split_level(&parcel.rows))?;
            let part = |share: Share| Parcel { target: share.worker, chunk, window, rows: share.rows };
            sent.extend(shares.into_iter().map(part));
        }
        self.shared.counters.add(Counter::SplitTime, self.shared.clock.now_ns() - start_ns);
        Ok(Parcels(sent))
    }
}
