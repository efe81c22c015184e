//! One operator of a plan.

use std::sync::Arc;

use arrow_schema::SchemaRef;
use tidemill_core::Operator;
use tidemill_split::{Route, SplitPlan};

use crate::auto_split::AutoSplit;
use crate::stream::StreamRef;

/// Makes the instance of a logical partition.
pub type Factory = dyn Fn(u32) -> Box<dyn Operator> + Send + Sync;

/// An input of an operator.
#[derive(Clone)]
pub struct InputPlan {
    /// Where the rows come from.
    pub stream: StreamRef,
    /// The columns that the operator receives, by name, in this order.
    pub columns: Vec<String>,
    /// Computes the partition of each row; sees all columns of the stream.
    pub route: Arc<Route>,
    /// The split plan; `None`: every worker splits the rows that it has. The results do not depend on it.
    pub split: Option<SplitPlan>,
    /// Whether the engine chooses another split while the query runs; `None`: the split stays as it is.
    pub auto_split: Option<AutoSplit>,
}

/// An operator, run as a fixed number of logical partitions.
#[derive(Clone)]
pub struct OperatorPlan {
    /// Its name. It must be stable, because snapshots find operators by name.
    pub name: String,
    /// The names that it had before, under which older snapshots and journals know it.
    pub former_names: Vec<String>,
    /// What it computes, whatever its name: equal in two plans if its state in one of them is right in the other; `None`:
    /// that is not known. A durable query whose sinks have changed finds by it what it keeps.
    pub identity: Option<String>,
    /// The number of logical partitions, fixed for the life of the query.
    pub partitions: u32,
    /// Makes the instances.
    pub factory: Arc<Factory>,
    /// Its inputs.
    pub inputs: Vec<InputPlan>,
    /// The schema of each output port.
    pub outputs: Vec<SchemaRef>,
    /// The number of the stream process that it is part of; `None`: all workers share its partitions.
    pub stream_process: Option<usize>,
    /// Whether it waits for times of the clock, see [`Operator::next_clock_timer`]. Then all cuts of its database concern the
    /// query, so that which cycles it has depends on the cuts alone.
    pub has_clock_timers: bool,
}

impl OperatorPlan {
    /// An operator that has no inputs and outputs yet.
    pub fn new(
        name: impl Into<String>,
        partitions: u32,
        factory: impl Fn(u32) -> Box<dyn Operator> + Send + Sync + 'static,
    ) -> Self {
        OperatorPlan {
            name: name.into(),
            former_names: Vec::new(),
            identity: None,
            partitions,
            factory: Arc::new(factory),
            inputs: Vec::new(),
            outputs: Vec::new(),
            stream_process: None,
            has_clock_timers: false,
        }
    }

    /// Adds a name that the operator had before. Its state in snapshots with that name is found, and a durable query
    /// resumes from journals with that name.
    #[must_use]
    pub fn formerly(mut self, name: impl Into<String>) -> Self {
        self.former_names.push(name.into());
        self
    }

    /// Finds something by the operator's name, or else by one that it had before.
    ///
    /// ```
    /// # use tidemill_plan::OperatorPlan;
    /// # fn counter(_: u32) -> Box<dyn tidemill_core::Operator> { unimplemented!() }
    /// let operator = OperatorPlan::new("count per car", 16, counter).formerly("count");
    /// assert_eq!(operator.find(|name| (name == "count").then_some(7)), Some(7));
    /// ```
    pub fn find<T>(&self, by_name: impl Fn(&str) -> Option<T>) -> Option<T> {
        by_name(&self.name).or_else(|| self.former_names.iter().find_map(|name| by_name(name)))
    }

    /// Adds an input with these columns of a stream.
    #[must_use]
    pub fn input(mut self, stream: StreamRef, columns: &[&str], route: impl Into<Arc<Route>>) -> Self {
        let columns = columns.iter().map(|column| column.to_string()).collect();
        self.inputs.push(InputPlan { stream, columns, route: route.into(), split: None, auto_split: None });
        self
    }

    /// Sets how the input that was added last is split.
    #[must_use]
    pub fn split(mut self, plan: SplitPlan) -> Self {
        if let Some(input) = self.inputs.last_mut() {
            input.split = Some(plan);
        }
        self
    }

    /// Lets the engine choose how the input that was added last is split, and choose again while the query runs. It
    /// begins with the plan set by [`split`](Self::split).
    #[must_use]
    pub fn auto_split(mut self, auto: AutoSplit) -> Self {
        if let Some(input) = self.inputs.last_mut() {
            input.auto_split = Some(auto);
        }
        self
    }

    /// Lets it wait for times of the clock.
    #[must_use]
    pub fn clock_timers(mut self) -> Self {
        self.has_clock_timers = true;
        self
    }

    /// Makes it part of the stream process with this number, so that one worker holds all of its partitions.
    #[must_use]
    pub fn stream_process(mut self, process: usize) -> Self {
        self.stream_process = Some(process);
        self
    }

    /// Adds an output port.
    #[must_use]
    pub fn output(mut self, schema: SchemaRef) -> Self {
        self.outputs.push(schema);
        self
    }
}
