//! What a query consists of, as a graph.

use tidemill_engine::{Plan, Producer, StreamRef};

/// What a part of a query does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartKind {
    /// It takes in rows.
    Source,
    /// It changes rows before they are split.
    Transform,
    /// It has state, and runs in partitions.
    Operator,
    /// It gives rows out.
    Sink,
}

/// A part of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataflowPart {
    /// Its name in the plan.
    pub name: String,
    /// What it does.
    pub kind: PartKind,
    /// In how many partitions it runs; 0 if it has none.
    pub partitions: u32,
    /// The index of its work in [`Status::work`](tidemill_engine::Status::work), if it is measured.
    pub work: Option<usize>,
}

/// What a query consists of, as a graph without cycles: the parts, each after the ones that it reads from, and who reads
/// from whom.
///
/// ```
/// use tidemill_engine::Plan;
/// use tidemill_service::Dataflow;
/// let mut plan = Plan::new("copy");
/// let input = plan.source("input", [std::sync::Arc::new(tidemill_engine::arrow::schema::Schema::empty())]);
/// plan.sink("output", input);
/// let dataflow = Dataflow::of(&plan);
/// assert_eq!((dataflow.parts[0].name.as_str(), dataflow.edges.as_slice()), ("input", &[(0, 1)][..]));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dataflow {
    /// The parts: sources, transforms, operators, sinks.
    pub parts: Vec<DataflowPart>,
    /// Index of the writer, index of the reader.
    pub edges: Vec<(usize, usize)>,
}

impl Dataflow {
    /// The graph of a plan.
    pub fn of(plan: &Plan) -> Dataflow {
        let (transforms, operators) = (plan.sources.len(), plan.sources.len() + plan.transforms.len());
        let sinks = operators + plan.operators.len();
        let of_producer = |stream: &StreamRef| match stream.producer {
            Producer::Source(index) => index,
            Producer::Transform(index) => transforms + index,
            Producer::Operator(index) => operators + index,
        };
        let part = |name: &str, kind, partitions, work| DataflowPart {
            name: name.to_owned(),
            kind,
            partitions,
            work,
        };
        let mut dataflow = Dataflow::default();
        for source in &plan.sources {
            dataflow.parts.push(part(&source.name, PartKind::Source, 0, None));
        }
        for (index, transform) in plan.transforms.iter().enumerate() {
            dataflow.edges.push((of_producer(&transform.input), transforms + index));
            dataflow.parts.push(part(&transform.name, PartKind::Transform, 0, Some(index)));
        }
        for (index, operator) in plan.operators.iter().enumerate() {
            let from = operator.inputs.iter().map(|input| of_producer(&input.stream));
            dataflow.edges.extend(from.map(|from| (from, operators + index)));
            let work = Some(plan.transforms.len() + index);
            dataflow.parts.push(part(&operator.name, PartKind::Operator, operator.partitions, work));
        }
        for (index, sink) in plan.sinks.iter().enumerate() {
            dataflow.edges.extend(sink.inputs.iter().map(|input| (of_producer(input), sinks + index)));
            dataflow.parts.push(part(&sink.name, PartKind::Sink, 0, None));
        }
        dataflow.edges.dedup();
        dataflow
    }
}
