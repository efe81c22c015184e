//! The plan of a query.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use arrow_schema::SchemaRef;
use tidemill_core::FaultLog;

use crate::error::PlanError;
use crate::operator::{InputPlan, OperatorPlan};
use crate::stream::{Producer, StreamRef};
use crate::stream_process::StreamProcessPlan;
use crate::transform::TransformPlan;

/// A source: one gateway that feeds one or more streams, which share one order of positions.
#[derive(Clone, Debug)]
pub struct SourcePlan {
    /// Its name.
    pub name: String,
    /// The schema of each stream.
    pub streams: Vec<SchemaRef>,
}

/// A sink with the streams that it takes.
#[derive(Clone, Debug)]
pub struct SinkPlan {
    /// Its name.
    pub name: String,
    /// Its inputs.
    pub inputs: Vec<StreamRef>,
}

/// A query as data. Operators can only read streams that were added before them, so a plan has no loops.
#[derive(Clone, Default)]
pub struct Plan {
    /// The query's name.
    pub name: String,
    /// Its sources.
    pub sources: Vec<SourcePlan>,
    /// Its operators, each after the ones that it reads from.
    pub operators: Vec<OperatorPlan>,
    /// Its transforms, each after the ones that it reads from.
    pub transforms: Vec<TransformPlan>,
    /// Its sinks.
    pub sinks: Vec<SinkPlan>,
    /// Its stream processes, each a set of operators that run in one place.
    pub stream_processes: Vec<StreamProcessPlan>,
    /// What its operators and transforms could not do.
    pub left_out: LeftOut,
}

/// Where operators and transforms count what they leave out. They do so in every process of a query, and what the other
/// processes count is added to these in process 0.
///
/// ```
/// use tidemill_core::FaultLog;
/// let mut plan = tidemill_plan::Plan::new("query");
/// let log = FaultLog::default();
/// plan.left_out.faults.push(log.clone());
/// assert_eq!((plan.left_out.faults.len(), plan.left_out.rows.len()), (1, 0));
/// ```
#[derive(Clone, Debug, Default)]
pub struct LeftOut {
    /// Faults, with examples.
    pub faults: Vec<FaultLog>,
    /// Counts of rows.
    pub rows: Vec<Arc<AtomicU64>>,
}

impl Plan {
    /// An empty plan.
    pub fn new(name: impl Into<String>) -> Self {
        Plan { name: name.into(), ..Plan::default() }
    }

    /// Adds a source; returns its streams.
    pub fn source(
        &mut self,
        name: impl Into<String>,
        streams: impl IntoIterator<Item = SchemaRef>,
    ) -> Vec<StreamRef> {
        let streams: Vec<SchemaRef> = streams.into_iter().collect();
        let producer = Producer::Source(self.sources.len());
        let refs = (0..streams.len()).map(|port| StreamRef { producer, port }).collect();
        self.sources.push(SourcePlan { name: name.into(), streams });
        refs
    }

    /// Adds an operator; returns its output streams.
    pub fn operator(&mut self, operator: OperatorPlan) -> Vec<StreamRef> {
        let producer = Producer::Operator(self.operators.len());
        let refs = (0..operator.outputs.len()).map(|port| StreamRef { producer, port }).collect();
        self.operators.push(operator);
        refs
    }

    /// Adds a stream process, which operators can be [part](OperatorPlan::stream_process) of; returns its number.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use tidemill_core::arrow::schema::Schema;
    /// # use tidemill_core::{error::Cause, Operator, Output, Rows, SnapshotReader, SnapshotWriter};
    /// # struct Copy;
    /// # impl Operator for Copy {
    /// #     fn rows(&mut self, _: usize, _: Rows<'_>, _: &mut Output) -> Result<(), Cause> { Ok(()) }
    /// #     fn snapshot(&self, _: &mut SnapshotWriter) {}
    /// #     fn restore(&mut self, _: &mut SnapshotReader<'_>) -> Result<(), Cause> { Ok(()) }
    /// # }
    /// use tidemill_plan::{OperatorPlan, PlaceChoice, Plan, StreamProcessPlan, places_of};
    /// let mut plan = Plan::new("one process");
    /// let process = plan.stream_process(StreamProcessPlan::new("copies").prefer(vec![PlaceChoice::Place(3)]));
    /// let copy = OperatorPlan::new("copy", 64, |_partition| Box::new(Copy)).stream_process(process);
    /// assert_eq!(copy.stream_process, Some(0));
    /// assert_eq!(places_of(&plan.stream_processes, 4).unwrap(), [3]);
    /// assert_eq!(places_of(&plan.stream_processes, 2).unwrap(), [0]);
    /// ```
    pub fn stream_process(&mut self, process: StreamProcessPlan) -> usize {
        self.stream_processes.push(process);
        self.stream_processes.len() - 1
    }

    /// Adds a transform; returns its stream.
    pub fn transform(&mut self, transform: TransformPlan) -> StreamRef {
        self.transforms.push(transform);
        StreamRef { producer: Producer::Transform(self.transforms.len() - 1), port: 0 }
    }

    /// Adds a sink that takes these streams.
    pub fn sink(&mut self, name: impl Into<String>, inputs: impl IntoIterator<Item = StreamRef>) {
        self.sinks.push(SinkPlan { name: name.into(), inputs: inputs.into_iter().collect() });
    }

    /// The schema of a stream, if it is in the plan.
    pub fn schema(&self, stream: StreamRef) -> Option<&SchemaRef> {
        match stream.producer {
            Producer::Source(index) => self.sources.get(index)?.streams.get(stream.port),
            Producer::Operator(index) => self.operators.get(index)?.outputs.get(stream.port),
            Producer::Transform(index) if stream.port == 0 => Some(&self.transforms.get(index)?.output),
            Producer::Transform(_) => None,
        }
    }

    /// The stream of a source or an operator from which a stream is made.
    pub fn root(&self, stream: StreamRef) -> StreamRef {
        match stream.producer {
            Producer::Transform(index) => self.root(self.transforms[index].input),
            _ => stream,
        }
    }

    /// The sources, ascending, whose events may cause rows of a stream. Their watermarks say how far the stream is.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use tidemill_core::arrow::schema::Schema;
    /// let mut plan = tidemill_plan::Plan::new("two sources");
    /// plan.source("a", [Arc::new(Schema::empty())]);
    /// let b = plan.source("b", [Arc::new(Schema::empty())]);
    /// assert_eq!(plan.sources_of(b[0]), [1]);
    /// ```
    pub fn sources_of(&self, stream: StreamRef) -> Vec<usize> {
        match stream.producer {
            Producer::Source(index) => vec![index],
            Producer::Transform(index) => self.sources_of(self.transforms[index].input),
            Producer::Operator(index) => self.sources_of_operator(index),
        }
    }

    /// The sources, ascending, that an operator's inputs come from.
    pub fn sources_of_operator(&self, operator: usize) -> Vec<usize> {
        let inputs = self.operators[operator].inputs.iter();
        let sources: std::collections::BTreeSet<usize> =
            inputs.flat_map(|input| self.sources_of(input.stream)).collect();
        sources.into_iter().collect()
    }

    /// Whether an operator waits for times of the clock.
    pub fn has_clock_timers(&self) -> bool {
        self.operators.iter().any(|operator| operator.has_clock_timers)
    }

    /// The numbers of an input's columns in its stream.
    ///
    /// # Errors
    /// If the stream or a column does not exist.
    pub fn columns_of(&self, operator: &OperatorPlan, input: &InputPlan) -> Result<Vec<usize>, PlanError> {
        let schema = self.schema(input.stream).ok_or_else(|| no_such_stream(&operator.name, input.stream))?;
        let index_of = |column: &String| {
            schema.index_of(column).map_err(|_| PlanError::NoSuchColumn {
                operator: operator.name.clone(),
                column: column.clone(),
                available: schema.fields().iter().map(|f| f.name().as_str()).collect::<Vec<_>>().join(", "),
            })
        };
        input.columns.iter().map(index_of).collect()
    }

    /// Checks that the plan can run.
    ///
    /// # Errors
    /// The first problem found.
    pub fn validate(&self) -> Result<(), PlanError> {
        if self.sources.is_empty() || self.sinks.is_empty() {
            return Err(PlanError::Empty(self.name.clone()));
        }
        self.validate_order()?;
        for (index, operator) in self.operators.iter().enumerate() {
            self.validate_operator(index, operator)?;
        }
        for sink in &self.sinks {
            if sink.inputs.is_empty() {
                return Err(PlanError::NoInputs(sink.name.clone()));
            }
            for stream in &sink.inputs {
                self.schema(*stream).ok_or_else(|| no_such_stream(&sink.name, *stream))?;
            }
        }
        Ok(())
    }

    /// Checks that every transform and every operator reads only what was added before it.
    fn validate_order(&self) -> Result<(), PlanError> {
        for (index, transform) in self.transforms.iter().enumerate() {
            let later = matches!(transform.input.producer, Producer::Transform(other) if other >= index);
            if later || self.schema(transform.input).is_none() {
                return Err(no_such_stream(&transform.name, transform.input));
            }
        }
        for (index, operator) in self.operators.iter().enumerate() {
            for input in &operator.inputs {
                if self.schema(input.stream).is_none() {
                    return Err(no_such_stream(&operator.name, input.stream));
                }
                let root = self.root(input.stream).producer;
                if matches!(root, Producer::Operator(producer) if producer >= index) {
                    return Err(no_such_stream(&operator.name, input.stream));
                }
            }
        }
        Ok(())
    }

    fn validate_operator(&self, index: usize, operator: &OperatorPlan) -> Result<(), PlanError> {
        if operator.partitions == 0 {
            return Err(PlanError::NoPartitions(operator.name.clone()));
        }
        if self.operators[..index].iter().any(|earlier| earlier.name == operator.name) {
            return Err(PlanError::SameName(operator.name.clone()));
        }
        if operator.inputs.is_empty() {
            return Err(PlanError::NoInputs(operator.name.clone()));
        }
        if let Some(process) =
            operator.stream_process.filter(|process| *process >= self.stream_processes.len())
        {
            let (operator, processes) = (operator.name.clone(), self.stream_processes.len());
            return Err(PlanError::NoSuchStreamProcess { operator, process, processes });
        }
        for (number, input) in operator.inputs.iter().enumerate() {
            self.columns_of(operator, input)?;
            let checked = input.split.as_ref().map_or(Ok(()), |split| split.validate(operator.partitions));
            let name = || operator.name.clone();
            checked.map_err(|error| PlanError::Split { operator: name(), input: number, error })?;
        }
        Ok(())
    }
}

fn no_such_stream(reader: &str, stream: StreamRef) -> PlanError {
    PlanError::NoSuchStream { reader: reader.into(), producer: stream.producer, port: stream.port }
}
