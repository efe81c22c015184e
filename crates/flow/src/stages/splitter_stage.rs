//! Separate splitters between the writers of an edge and its operator: one, several, or a tree of them; and the second
//! level of a tree of window routers.

use std::sync::Arc;

use tidemill_core::counters::Counter;
use tidemill_split::cost::nodes_of_level;
use tidemill_split::{Placement, Share, SplitPlan, Splitter};
use timely::container::NoopBuilder;
use timely::dataflow::Stream;
use timely::dataflow::operators::generic::Operator;

use super::StageContext;
use super::edge_writer::split_guarded;
use crate::error::Failure;
use crate::run_state::RunState;
use crate::run_state::work::Part;
use crate::topology::{EdgeKind, Layout, SplitEdge, Topology};
use crate::transport::bulk_channels::BulkChannels;
use crate::transport::distribute::by_target;
use crate::transport::parcel::Parcel;
use crate::transport::parcels::Parcels;

/// Adds the splitters that an edge's split plan needs, or may need while it runs; returns the stream behind them.
pub(crate) fn build<'scope>(
    context: &StageContext<'_>,
    edge: usize,
    mut stream: Stream<'scope, u64, Parcels>,
) -> Stream<'scope, u64, Parcels> {
    let EdgeKind::Split(split) = &context.topology.edges[edge].kind else { return stream };
    for level in 1..=split.levels {
        let (split, run_state) = (split.clone(), Arc::clone(context.run_state));
        let (all_columns, workers) = (all_columns(context.topology, edge), context.topology.workers);
        let (layout, bulk) = (context.topology.layout, Arc::clone(context.bulk));
        stream = add_level(
            stream,
            SplitterStage {
                edge,
                worker: context.worker,
                level,
                split,
                all_columns,
                workers,
                layout,
                run_state,
                bulk,
                splitter: None,
            },
        );
    }
    stream
}

fn all_columns(topology: &Topology, edge: usize) -> usize {
    topology.plan.schema(topology.edges[edge].stream).map_or(0, |schema| schema.fields().len())
}

/// A worker's splitters of one level.
struct SplitterStage {
    edge: usize,
    worker: usize,
    level: usize,
    split: Box<SplitEdge>,
    all_columns: usize,
    workers: u32,
    layout: Layout,
    run_state: Arc<RunState>,
    bulk: Arc<BulkChannels>,
    /// The splitters of the last parcel, by its plan and placement.
    splitter: Option<(Arc<SplitPlan>, Arc<Placement>, Splitter)>,
}

fn add_level<'scope>(
    stream: Stream<'scope, u64, Parcels>,
    mut stage: SplitterStage,
) -> Stream<'scope, u64, Parcels> {
    let name = format!("splitters of level {} of {}", stage.level, stage.split.name);
    let pact = by_target(stage.layout, &stage.run_state, &stage.bulk);
    stream.unary::<NoopBuilder<Parcels>, _, _, _>(pact, &name, move |_, _| {
        move |input, output| {
            input.for_each(|time, parcels| {
                // Rows are passed on as they come: it is the operator that waits for the whole cycle.
                match stage.split(std::mem::take(parcels), *time.time()) {
                    Ok(sent) if sent.0.is_empty() => {}
                    Ok(mut sent) => output.session_with_builder(&time).give_container(&mut sent),
                    Err(failure) => stage.run_state.fail(failure),
                }
            });
        }
    })
}

impl SplitterStage {
    fn split(&mut self, parcels: Parcels, cycle: u64) -> Result<Parcels, Failure> {
        let mut sent = Vec::new();
        for parcel in parcels.arrived(&self.bulk)? {
            let plan = parcel.plan.as_ref().filter(|plan| self.is_level_of(plan)).cloned();
            match plan {
                Some(plan) if self.level <= plan.levels_of_routers() => {
                    sent.push(self.route_window(parcel, &plan, cycle));
                }
                Some(plan) => sent.extend(self.split_parcel(parcel, &plan, cycle)?.0),
                // It has been split.
                None => sent.push(parcel),
            }
        }
        Ok(Parcels::new(sent))
    }

    /// Whether a plan has splitters on this level.
    fn is_level_of(&self, plan: &SplitPlan) -> bool {
        plan.needs_splitters(self.workers) && self.level <= plan.levels()
    }

    /// Passes a window on to the splitter whose number it carries.
    fn route_window(&self, mut parcel: Parcel, plan: &SplitPlan, cycle: u64) -> Parcel {
        let clock = self.split.cost_clock(&*self.run_state.clock);
        let start_ns = clock.now_ns();
        for run in &mut parcel.rows.runs {
            parcel.target = self.worker_of(plan, self.level + 1, run.partition);
            run.partition = 0;
        }
        let rows = parcel.rows.batch.len() as u64;
        self.add_work(cycle, clock.now_ns() - start_ns, rows, rows);
        parcel
    }

    fn worker_of(&self, plan: &SplitPlan, level: usize, process: u32) -> u32 {
        (self.split.first_worker + plan.worker_of(level, process, self.workers)) % self.workers
    }

    fn add_work(&self, cycle: u64, time_ns: u64, rows_in: u64, rows_out: u64) {
        let part = Part::Split { edge: self.edge, stage: self.level };
        self.run_state.work.add(part, time_ns, rows_in, rows_out);
        self.run_state.window_costs.add_time(self.edge, self.worker, cycle, time_ns);
        self.run_state.counters.add(Counter::SplitTime, time_ns);
    }

    fn split_parcel(
        &mut self,
        parcel: Parcel,
        plan: &Arc<SplitPlan>,
        cycle: u64,
    ) -> Result<Parcels, Failure> {
        let start_ns = self.split.cost_clock(&*self.run_state.clock).now_ns();
        let placement = Arc::clone(parcel.placement.as_ref().unwrap_or(&self.split.placement));
        let mut splitter = match self.splitter.take() {
            Some((known, places, splitter)) if is_same(&known, plan) && is_same(&places, &placement) => {
                splitter
            }
            _ => self.splitter_of(plan, &placement),
        };
        let shares = split_guarded(&self.split.name, cycle, || splitter.split_level(&parcel.rows))?;
        self.splitter = Some((Arc::clone(plan), Arc::clone(&placement), splitter));
        let part = |share: Share| Parcel {
            window: parcel.window,
            ..Parcel::new(share.worker, parcel.chunk, share.rows).by(plan, &placement)
        };
        let rows_in = (parcel.rows.batch.len() + parcel.rows.shared_rows()) as u64;
        let sent =
            Parcels::new(shares.into_iter().map(part).collect()).hold_copies(rows_in, &self.run_state.credit);
        self.run_state.credit.release(parcel.held_bytes);
        let time_ns = self.split.cost_clock(&*self.run_state.clock).now_ns() - start_ns;
        self.add_work(cycle, time_ns, rows_in, sent.rows());
        Ok(sent)
    }

    /// The splitters of this level. All levels but the last pass on all columns, because the routing function sees them
    /// all.
    fn splitter_of(&self, plan: &SplitPlan, placement: &Arc<Placement>) -> Splitter {
        let (fan_outs, level) = (plan.fan_outs(), self.level - plan.levels_of_routers());
        let nodes = nodes_of_level(&fan_outs, level, plan.partitions);
        let (placement, columns) = if level == fan_outs.len() {
            (Arc::clone(placement), self.split.columns.clone())
        } else {
            let outputs = nodes_of_level(&fan_outs, level + 1, plan.partitions);
            let worker_of = |node| self.worker_of(plan, self.level + 1, node);
            let placement = Placement::new(self.workers, (0..outputs).map(worker_of).collect());
            (Arc::new(placement), (0..self.all_columns).collect())
        };
        Splitter::of_level(Arc::clone(&self.split.route), plan.partitions, nodes, placement, columns)
    }
}

/// What comes from another process is equal, but not the same object.
fn is_same<T: PartialEq>(known: &Arc<T>, other: &Arc<T>) -> bool {
    Arc::ptr_eq(known, other) || known == other
}
