//! The edges of a plan: which producer writes to which consumer, and how rows are split in between.

use std::ops::Range;
use std::sync::Arc;

use tidemill_core::{Clock, ThreadTime};
use tidemill_plan::{AutoSplit, OperatorPlan, Plan, PlanError, Producer, StreamRef, places_of};
use tidemill_split::{Placement, Route, SplitPlan};

/// What reads an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Consumer {
    Operator {
        operator: usize,
        input: usize,
    },
    Sink {
        sink: usize,
        input: usize,
    },
    /// The first sink, which waits until the cycle has passed an operator that no one reads.
    Passed {
        operator: usize,
    },
}

/// One edge.
#[derive(Clone)]
pub(crate) struct Edge {
    pub stream: StreamRef,
    pub consumer: Consumer,
    pub kind: EdgeKind,
}

#[derive(Clone)]
pub(crate) enum EdgeKind {
    /// To an operator: split by the route.
    Split(Box<SplitEdge>),
    /// To a sink: as a whole, to the worker that feeds the sink's thread.
    Whole { worker: u32 },
    /// Without rows.
    Empty,
}

/// How an edge to an operator is split.
#[derive(Clone)]
pub(crate) struct SplitEdge {
    pub route: Arc<Route>,
    /// Where the operator's partitions are at first.
    pub placement: Arc<Placement>,
    /// The number of the operator.
    pub operator: usize,
    /// The columns of the stream that the operator receives.
    pub columns: Vec<usize>,
    /// The operator's name.
    pub name: String,
    /// The initial plan.
    pub plan: SplitPlan,
    /// Whether the query gives the plan.
    pub is_given: bool,
    /// How other plans are chosen; `None`: the plan stays.
    pub auto: Option<AutoSplit>,
    /// The number of levels of splitters, used or not.
    pub levels: usize,
    /// The worker of the first splitter: a different one for each operator, so that the roots of several trees are
    /// spread.
    pub first_worker: u32,
}

impl SplitEdge {
    /// The clock that measures splitting: processor time if the cost may be compared with the model, which predicts
    /// processor time. Otherwise the engine's own clock, which is cheaper to read.
    pub fn cost_clock<'a>(&self, clock: &'a dyn Clock) -> &'a dyn Clock {
        if self.is_given || self.auto.is_some() { &ThreadTime } else { clock }
    }

    /// Whether the size of its window is searched while the query runs. What other processes measure does not come back.
    pub fn searches_window(&self, layout: Layout) -> bool {
        let searches = |auto: &AutoSplit| auto.every.is_some() && auto.searches_window;
        layout.processes == 1 && self.auto.as_ref().is_some_and(searches)
    }
}

/// Whether sorting the parcels of an input by chunk puts their rows in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InputOrder {
    /// From a source: the positions of chunks are consecutive.
    ByChunk,
    /// From operators on several workers: rows of the same partition interleave.
    Interleaved,
}

/// How workers are distributed over processes: process 0 has the first ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// The number of workers in each process.
    pub workers: u32,
    pub processes: u32,
    /// The number of this process.
    pub process: u32,
}

impl Layout {
    /// The workers of all processes.
    pub fn all_workers(&self) -> u32 {
        self.workers * self.processes
    }

    /// The first worker of this process.
    pub fn first_worker(&self) -> usize {
        (self.workers * self.process) as usize
    }

    /// The process of a worker.
    pub fn process_of(&self, worker: u32) -> usize {
        (worker / self.workers) as usize
    }

    /// The workers of a process.
    pub fn workers_of(&self, process: usize) -> Range<u32> {
        let first = self.workers * process as u32;
        first..first + self.workers
    }

    /// The worker that feeds a sink: one of process 0.
    pub fn worker_of_sink(&self, sink: usize) -> u32 {
        sink as u32 % self.workers
    }
}

/// A plan with its edges and partition tables, for a number of workers.
pub(crate) struct Topology {
    pub plan: Plan,
    pub edges: Vec<Edge>,
    /// Where the partitions of each operator are at first.
    pub placements: Vec<Arc<Placement>>,
    /// The number of workers in all processes.
    pub workers: u32,
    pub layout: Layout,
}

impl Topology {
    pub fn new(plan: Plan, layout: Layout) -> Result<Self, PlanError> {
        plan.validate()?;
        let workers = layout.all_workers();
        let places = places_of(&plan.stream_processes, workers)?;
        let placement = |operator| Arc::new(placement_of(operator, &places, workers));
        let placements: Vec<_> = plan.operators.iter().map(placement).collect();
        let mut edges = Vec::new();
        for (index, operator) in plan.operators.iter().enumerate() {
            for (input, input_plan) in operator.inputs.iter().enumerate() {
                // Without a plan, every worker splits what it has.
                let every_worker = || SplitPlan::parasplit(operator.partitions, workers);
                let split = input_plan.split.clone().unwrap_or_else(every_worker);
                let kind = EdgeKind::Split(Box::new(SplitEdge {
                    route: Arc::clone(&input_plan.route),
                    placement: Arc::clone(&placements[index]),
                    operator: index,
                    columns: plan.columns_of(operator, input_plan)?,
                    name: operator.name.clone(),
                    levels: levels_of(&split, changes_shape(input_plan.auto_split.as_ref()), workers),
                    plan: split,
                    is_given: input_plan.split.is_some(),
                    auto: input_plan.auto_split.clone(),
                    first_worker: index as u32 % workers,
                }));
                let consumer = Consumer::Operator { operator: index, input };
                edges.push(Edge { stream: input_plan.stream, consumer, kind });
            }
        }
        for (index, sink) in plan.sinks.iter().enumerate() {
            let worker = layout.worker_of_sink(index);
            for (input, stream) in sink.inputs.iter().enumerate() {
                let consumer = Consumer::Sink { sink: index, input };
                edges.push(Edge { stream: *stream, consumer, kind: EdgeKind::Whole { worker } });
            }
        }
        edges.extend(edges_from_unread(&plan));
        Ok(Topology { plan, edges, placements, workers, layout })
    }

    /// The edge into an input.
    pub fn edge_to(&self, consumer: Consumer) -> Option<usize> {
        self.edges.iter().position(|edge| edge.consumer == consumer)
    }

    /// The operator that reads a split edge.
    pub fn operator_of(&self, edge: usize) -> usize {
        match self.edges[edge].consumer {
            Consumer::Operator { operator, .. } | Consumer::Passed { operator } => operator,
            Consumer::Sink { .. } => unreachable!("no edge to a sink is split"),
        }
    }

    /// The edge into an input of an operator.
    pub fn edge_named(&self, operator: &str, input: usize) -> Option<usize> {
        let operator = self.plan.operators.iter().position(|planned| planned.name == operator)?;
        self.edge_to(Consumer::Operator { operator, input })
    }

    /// The name of the operator that reads a split edge, and the number of its input.
    pub fn reader_of(&self, edge: usize) -> (String, usize) {
        let input = match self.edges[edge].consumer {
            Consumer::Operator { input, .. } => input,
            Consumer::Sink { .. } | Consumer::Passed { .. } => 0,
        };
        (self.plan.operators[self.operator_of(edge)].name.clone(), input)
    }

    /// The edges into a sink: its inputs in order, then those that only report how far operators are.
    pub fn edges_to_sink(&self, sink: usize) -> Vec<usize> {
        let leads_to = |consumer| match consumer {
            Consumer::Sink { sink: index, .. } => index == sink,
            Consumer::Passed { .. } => sink == 0,
            Consumer::Operator { .. } => false,
        };
        (0..self.edges.len()).filter(|index| leads_to(self.edges[*index].consumer)).collect()
    }

    /// The order in which an edge's parcels arrive.
    pub fn order_of(&self, edge: usize) -> InputOrder {
        match self.plan.root(self.edges[edge].stream).producer {
            Producer::Source(_) => InputOrder::ByChunk,
            _ => InputOrder::Interleaved,
        }
    }
}

/// The workers that hold an operator's partitions at first: the one of its process, or all.
fn placement_of(operator: &OperatorPlan, places: &[u32], workers: u32) -> Placement {
    match operator.stream_process {
        Some(process) => Placement::new(workers, vec![places[process]; operator.partitions as usize]),
        None => Placement::spread(operator.partitions, workers),
    }
}

/// Whether an edge may get a split of another shape.
fn changes_shape(auto: Option<&AutoSplit>) -> bool {
    auto.is_some_and(|auto| !auto.keeps_shape)
}

/// The levels of splitters of an edge whose plan may change: enough for a tree with fan-outs 2, 4, 8, 16.
const LEVELS_OF_AUTO: usize = 4;

/// The number of levels of splitters that an edge with this initial plan needs.
fn levels_of(split: &SplitPlan, changes_shape: bool, workers: u32) -> usize {
    let own = if split.needs_splitters(workers) { split.levels() } else { 0 };
    if changes_shape { own.max(LEVELS_OF_AUTO) } else { own }
}

/// Without an edge, an operator that no one reads could fall behind the committed cycles, and with it the bytes that it
/// holds.
fn edges_from_unread(plan: &Plan) -> Vec<Edge> {
    let read = |producer| {
        let inputs = plan.operators.iter().flat_map(|operator| &operator.inputs).map(|input| input.stream);
        let mut streams = inputs.chain(plan.sinks.iter().flat_map(|sink| sink.inputs.iter().copied()));
        streams.any(|stream| plan.root(stream).producer == producer)
    };
    let unread = (0..plan.operators.len()).filter(|operator| !read(Producer::Operator(*operator)));
    let edge = |operator| Edge {
        stream: StreamRef { producer: Producer::Operator(operator), port: 0 },
        consumer: Consumer::Passed { operator },
        kind: EdgeKind::Empty,
    };
    unread.map(edge).collect()
}
