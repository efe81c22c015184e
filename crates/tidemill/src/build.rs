//! The parts of a query under construction.

use std::path::PathBuf;
use std::sync::Arc;

use arrow_schema::{Schema, SchemaRef};
use tidemill_engine::{
    BROADCAST, Cause, FaultLog, FeedSettings, Operator, OperatorPlan, Plan, Route, Sink, Source, StreamRef,
    StreamSettings, SyncPolicy, Transform, TransformPlan, route_by_hash,
};
use tidemill_operators::partition_limit;
use tidemill_operators::watermark::LateRows;

use crate::sinks::SinkOpening;

/// The parts of a query so far.
pub(crate) struct Build {
    pub plan: Plan,
    pub sources: Vec<SourceBuild>,
    pub sinks: Vec<SinkBuild>,
    pub partitions: u32,
    pub keys_max: usize,
    pub late: LateRows,
    pub failed: FaultLog,
    /// The queries in SQL that it contains. A run that continues must have the same ones.
    #[cfg(feature = "sql")]
    pub texts: Vec<String>,
    /// How many of the sources can be read by queries in SQL. From then on, they have the event time that they have.
    #[cfg(feature = "sql")]
    pub sources_named: usize,
    /// Where the journal is, if the query is durable.
    pub journal: Option<PathBuf>,
    /// The first fault.
    pub fault: Option<String>,
}

/// A sink of a query. It is opened when the query starts.
pub(crate) struct SinkBuild {
    pub schema: SchemaRef,
    /// The columns by which a row replaces the previous one, if it does.
    pub key: Vec<String>,
    pub open: Box<OpenSink>,
}

/// Opens a sink.
pub(crate) type OpenSink = dyn FnOnce(&SinkOpening<'_>) -> Result<Box<dyn Sink>, Cause>;

/// A source of a query.
pub(crate) struct SourceBuild {
    pub schema: SchemaRef,
    pub feed: FeedSettings,
    /// Where its rows come from; `None`: the program pushes them.
    pub source: Option<Box<dyn Source>>,
    /// The limits of its journal, if the query is durable.
    pub stream: StreamSettings,
    /// When its journal is synced.
    pub sync: SyncPolicy,
}

/// An input of an operator.
pub(crate) struct BuildInput<'a> {
    pub stream: StreamRef,
    pub schema: &'a Schema,
    /// The columns by which its rows are partitioned.
    pub keys: &'a [usize],
}

impl SourceBuild {
    /// A source that is journaled like any other if the query is durable.
    pub fn new(schema: SchemaRef, feed: FeedSettings, source: Option<Box<dyn Source>>) -> SourceBuild {
        SourceBuild { schema, feed, source, stream: StreamSettings::default(), sync: SyncPolicy::AtOnce }
    }
}

impl Build {
    /// Whether a query in SQL may have been planned with what is known about a source.
    pub fn is_fixed(&self, _source: usize) -> bool {
        #[cfg(feature = "sql")]
        return _source < self.sources_named;
        #[cfg(not(feature = "sql"))]
        false
    }

    /// What a durable run that continues must have in common with this one, beside the plan.
    pub fn description(&self) -> String {
        let name = format!("typed streams: {}", self.plan.name);
        #[cfg(feature = "sql")]
        return std::iter::once(&name).chain(&self.texts).map(String::as_str).collect::<Vec<_>>().join("\n");
        #[cfg(not(feature = "sql"))]
        name
    }

    /// Keeps the fault, unless there was one before.
    pub fn fail(&mut self, reason: String) {
        self.fault.get_or_insert(reason);
    }

    /// The number of partitions of an operator with this many key columns. Without keys, all rows go to one partition.
    pub fn partitions_for(&self, keys: usize) -> u32 {
        if keys == 0 { 1 } else { self.partitions.max(1) }
    }

    /// The limit of keys for each partition.
    pub fn keys_max_for(&self, keys: usize) -> usize {
        partition_limit(self.keys_max, self.partitions_for(keys))
    }

    /// Adds an operator.
    pub fn operator(
        &mut self,
        name: &str,
        inputs: &[BuildInput<'_>],
        output: &SchemaRef,
        factory: impl Fn(u32) -> Box<dyn Operator> + Send + Sync + 'static,
    ) -> StreamRef {
        self.operator_with(name, inputs, &[], output, factory)
    }

    /// Adds an operator of which all partitions get the rows of further streams, as its last inputs.
    pub fn operator_with(
        &mut self,
        name: &str,
        inputs: &[BuildInput<'_>],
        for_all: &[StreamRef],
        output: &SchemaRef,
        factory: impl Fn(u32) -> Box<dyn Operator> + Send + Sync + 'static,
    ) -> StreamRef {
        let partitions = self.partitions_for(inputs.iter().map(|input| input.keys.len()).max().unwrap_or(0));
        let mut operator = OperatorPlan::new(self.unique(name), partitions, factory);
        for BuildInput { stream, schema, keys } in inputs {
            let columns: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
            operator = operator.input(*stream, &columns, route_by_hash(keys.to_vec(), partitions));
        }
        for stream in for_all {
            let fields = self.plan.schema(*stream).map(|schema| schema.fields().clone()).unwrap_or_default();
            let columns: Vec<&str> = fields.iter().map(|field| field.name().as_str()).collect();
            let to_all: Box<Route> = Box::new(|rows, destinations| {
                destinations.resize(destinations.len() + rows.num_rows(), BROADCAST);
            });
            operator = operator.input(*stream, &columns, to_all);
        }
        self.plan.operator(operator.output(Arc::clone(output)))[0]
    }

    /// Adds a transform.
    pub fn transform(
        &mut self,
        name: &str,
        input: StreamRef,
        output: &SchemaRef,
        factory: impl Fn() -> Box<dyn Transform> + Send + Sync + 'static,
    ) -> StreamRef {
        self.plan.transform(TransformPlan::new(name, input, Arc::clone(output), factory))
    }

    /// A name that no operator has yet. Snapshots identify operators by it.
    fn unique(&self, name: &str) -> String {
        let taken = |name: &str| self.plan.operators.iter().any(|operator| operator.name == name);
        let numbered = (2..).map(|number| format!("{name} {number}"));
        let mut names = std::iter::once(name.to_owned()).chain(numbered);
        names.find(|name| !taken(name)).expect("there are more numbers than operators")
    }
}

/// A name that two columns share.
pub(crate) fn duplicate(schema: &Schema) -> Option<&str> {
    let names = || schema.fields().iter().map(|field| field.name().as_str());
    names()
        .enumerate()
        .find(|(index, name)| names().take(*index).any(|other| other == *name))
        .map(|(_, name)| name)
}
