//! The output side of a source or an operator: the transforms of its streams, and the edges behind them.

use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_buffer::ScalarBuffer;
use arrow_schema::SchemaRef;
use tidemill_core::error::Cause;
use tidemill_core::{Batch, Transform, Transformed};
use tidemill_plan::{Producer, StreamRef};
use tidemill_split::merge_by_position;
use tidemill_split::order::Sorter;

use super::batch_context::BatchContext;
use super::edge_writer::EdgeWriter;
use super::made_pieces::{MadeMemory, MadePieces};
use crate::error::Failure;
use crate::panics::guard;
use crate::run_state::RunState;
use crate::run_state::work::Part;
use crate::topology::Topology;
use crate::transport::parcels::Parcels;

/// Everything that reads one producer, on one worker.
pub(crate) struct Outlets {
    /// For each of the producer's streams.
    streams: Vec<Vec<Outlet>>,
    edges: Vec<usize>,
    worker: usize,
    made: MadeMemory,
}

enum Outlet {
    /// An edge: its index among the producer's edges, how it is written, and what transforms have made for it.
    Edge {
        slot: usize,
        writer: EdgeWriter,
        made: MadePieces,
    },
    Transform(TransformOutlet),
}

/// A transform, and its readers.
struct TransformOutlet {
    index: usize,
    name: String,
    schema: SchemaRef,
    transform: Box<dyn Transform>,
    /// `None`: its input is in the total order already, or need not be.
    sorter: Option<Sorter>,
    readers: Vec<Outlet>,
}

impl Outlets {
    pub fn new(
        topology: &Topology,
        producer: Producer,
        streams: usize,
        worker: usize,
        run_state: &RunState,
    ) -> Result<Self, Failure> {
        let made = MadeMemory::new(&run_state.memory);
        let mut outlets = Outlets { streams: Vec::new(), edges: Vec::new(), worker, made };
        for port in 0..streams.max(1) {
            let is_ordered = matches!(producer, Producer::Source(_));
            let readers = outlets.readers(topology, StreamRef { producer, port }, is_ordered)?;
            outlets.streams.push(readers);
        }
        Ok(outlets)
    }

    /// The producer's edges, in the order in which [`write`](Outlets::write) fills them.
    pub fn edges(&self) -> &[usize] {
        &self.edges
    }

    /// `is_ordered`: the rows of the stream are in the total order. Those of a source are, and transforms do not change the order.
    fn readers(
        &mut self,
        topology: &Topology,
        stream: StreamRef,
        is_ordered: bool,
    ) -> Result<Vec<Outlet>, Failure> {
        let mut readers = Vec::new();
        for (index, edge) in topology.edges.iter().enumerate().filter(|(_, edge)| edge.stream == stream) {
            readers.push(Outlet::Edge {
                slot: self.edges.len(),
                writer: EdgeWriter::new(index, edge, self.worker, topology.workers),
                made: MadePieces::default(),
            });
            self.edges.push(index);
        }
        for (index, plan) in topology.plan.transforms.iter().enumerate().filter(|(_, p)| p.input == stream) {
            let own = StreamRef { producer: Producer::Transform(index), port: 0 };
            let behind = self.readers(topology, own, is_ordered)?;
            if behind.is_empty() {
                continue;
            }
            let transform = guard(|| Ok((plan.factory)())).map_err(|cause| failure(&plan.name, 0, cause))?;
            let sorter = (transform.combines_rows() && !is_ordered).then(Sorter::default);
            let (name, schema) = (plan.name.clone(), Arc::clone(&plan.output));
            readers.push(Outlet::Transform(TransformOutlet {
                index,
                name,
                schema,
                transform,
                sorter,
                readers: behind,
            }));
        }
        Ok(readers)
    }

    /// Writes a batch of a stream, and adds the output for each edge to `sent`.
    pub fn write(
        &mut self,
        stream: usize,
        batch: &Batch,
        context: &BatchContext<'_>,
        run_state: &RunState,
        sent: &mut [Parcels],
    ) -> Result<(), Failure> {
        self.made.begin(context.cut.cycle);
        let outlets = &mut self.streams[stream];
        for outlet in outlets.iter_mut() {
            match outlet {
                Outlet::Edge { slot, writer, .. } => {
                    sent[*slot].0.extend(writer.parcels(batch, context, run_state)?.0);
                }
                Outlet::Transform(transform) => transform.write(batch, context, run_state, &mut self.made)?,
            }
        }
        send(outlets, context, run_state, &mut self.made, sent)
    }
}

/// Keeps a piece of what a transform has made for the edges behind it, and passes it through the transforms.
fn pass(
    outlets: &mut [Outlet],
    piece: &Batch,
    context: &BatchContext<'_>,
    run_state: &RunState,
    memory: &mut MadeMemory,
) -> Result<(), Failure> {
    for outlet in outlets {
        match outlet {
            Outlet::Edge { made, .. } => {
                made.add(piece.clone(), memory).map_err(|cause| too_much(context, cause))?;
            }
            Outlet::Transform(transform) => transform.write(piece, context, run_state, memory)?,
        }
    }
    Ok(())
}

/// Sends what transforms have made of a batch, as one batch for each edge.
fn send(
    outlets: &mut [Outlet],
    context: &BatchContext<'_>,
    run_state: &RunState,
    memory: &mut MadeMemory,
    sent: &mut [Parcels],
) -> Result<(), Failure> {
    for outlet in outlets {
        match outlet {
            Outlet::Edge { slot, writer, made } => {
                let made = made.take(memory).map_err(|cause| too_much(context, cause))?;
                if let Some(batch) = made {
                    sent[*slot].0.extend(writer.parcels(&batch, context, run_state)?.0);
                }
            }
            Outlet::Transform(transform) => send(&mut transform.readers, context, run_state, memory, sent)?,
        }
    }
    Ok(())
}

impl TransformOutlet {
    /// Applies the transform, and passes each piece that it makes on before the next one is made.
    fn write(
        &mut self,
        batch: &Batch,
        context: &BatchContext<'_>,
        run_state: &RunState,
        memory: &mut MadeMemory,
    ) -> Result<(), Failure> {
        let TransformOutlet { index, name, schema, transform, sorter, readers } = self;
        let part = Part::Transform(*index);
        let (mut start_ns, mut begun) = (run_state.clock.now_ns(), run_state.costs.begin());
        let (mut rows_in, mut stopped) = (batch.len() as u64, None);
        let applied = guard(|| {
            let ordered = sorter.as_mut().and_then(|sorter| in_order(batch, sorter));
            debug_assert!(
                !transform.combines_rows() || ordered.as_ref().unwrap_or(batch).positions.is_sorted()
            );
            let batch = ordered.as_ref().unwrap_or(batch);
            transform.apply_in_pieces(&batch.rows, context.cut, &mut |piece| {
                let made = caused(batch, piece, schema)?;
                let time_ns = run_state.clock.now_ns() - start_ns;
                run_state.costs.add(part, begun);
                run_state.work.add(part, time_ns, std::mem::take(&mut rows_in), made.len() as u64);
                let passed = if run_state.is_stopped() {
                    Err(Failure::Aborted)
                } else if made.is_empty() {
                    Ok(())
                } else {
                    pass(readers, &made, context, run_state, memory)
                };
                (start_ns, begun) = (run_state.clock.now_ns(), run_state.costs.begin());
                passed.map_err(|failure| {
                    stopped = Some(failure);
                    Cause::operation("what is behind a transform has failed")
                })
            })
        });
        match (stopped, applied) {
            (Some(failure), _) => Err(failure),
            (None, Err(cause)) => Err(failure(name, context.cut.cycle, cause)),
            (None, Ok(())) => Ok(()),
        }
    }
}

/// A batch in the total order. What an operator writes in a cycle stands partition by partition.
fn in_order(batch: &Batch, sorter: &mut Sorter) -> Option<Batch> {
    let positions_end = batch.positions.iter().max()?.saturating_add(1);
    merge_by_position(std::slice::from_ref(batch), positions_end, sorter)
}

/// The rows that a transform made of a batch, with the positions and origins of their causes.
fn caused(batch: &Batch, made: Transformed, declared: &SchemaRef) -> Result<Batch, Cause> {
    let made = Transformed { rows: as_declared(made.rows, declared)?, ..made };
    let rows = made.rows.num_rows();
    let Some(causes) = made.causes else {
        if rows != batch.len() {
            let given = batch.len();
            return Err(Cause::bug(format!("it made {rows} rows from {given} without stating from which")));
        }
        let (positions, origins) = (batch.positions.clone(), batch.origins.clone());
        return Ok(Batch { rows: made.rows, positions, origins });
    };
    let ascending = causes.windows(2).fold(true, |all, pair| all & (pair[0] <= pair[1]));
    let within = causes.last().is_none_or(|last| (*last as usize) < batch.len());
    if causes.len() != rows || !ascending || !within {
        return Err(Cause::bug("it does not name an input row for each of its rows, ascending"));
    }
    let gather = |values: &ScalarBuffer<u32>| {
        if values.is_empty() {
            values.clone()
        } else {
            causes.iter().map(|cause| values[*cause as usize]).collect()
        }
    };
    Ok(Batch { rows: made.rows, positions: gather(&batch.positions), origins: gather(&batch.origins) })
}

/// The same rows with the declared schema, on which all readers rely.
fn as_declared(rows: RecordBatch, declared: &SchemaRef) -> Result<RecordBatch, Cause> {
    if Arc::ptr_eq(rows.schema_ref(), declared) {
        return Ok(rows);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    let (_, columns, _) = rows.into_parts();
    RecordBatch::try_new_with_options(Arc::clone(declared), columns, &options)
        .map_err(|error| Cause::bug(format!("its rows do not match the plan: {error}")).with_source(error))
}

fn failure(name: &str, cycle: u64, cause: Cause) -> Failure {
    Failure::Engine { part: format!("transform '{name}', cycle {cycle}"), cause }
}

fn too_much(context: &BatchContext<'_>, cause: Cause) -> Failure {
    Failure::Engine { part: format!("what transforms make of a batch, cycle {}", context.cut.cycle), cause }
}

/// Empty parcels for this many edges.
pub(crate) fn nothing_sent(edges: usize) -> Vec<Parcels> {
    (0..edges).map(|_| Parcels::default()).collect()
}
