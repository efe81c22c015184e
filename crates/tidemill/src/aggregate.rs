//! Aggregate functions and their calls.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use arrow_schema::DataType;
use tidemill_engine::{Cause, FaultLog};
use tidemill_operators::aggregate::{
    Aggregate, AggregateCall, AggregateSpec, Average, Count, CountDistinct, Extreme, Spread, Sum, Variance,
};
use tidemill_operators::over::{Frame, Function as RunningFunction, FunctionSpec, RunningAggregate};
use tidemill_operators::{
    Combine, EmptyWindows, FailedResults, SessionAggregate, SessionSpec, TableAggregate, WindowAggregate,
    WindowSpec, combined_schema,
};

use crate::keyed::KeyedStream;
use crate::row_windows::{complete_windows, row_windows};
use crate::stream::Stream;
use crate::window::{ResolvedWindow, WindowedStream};

pub(crate) const WINDOW_START: &str = "window_start";
pub(crate) const WINDOW_END: &str = "window_end";

/// A call of an aggregate function.
#[derive(Clone, Debug)]
pub struct Aggregation {
    function: Function,
    arguments: Vec<String>,
    name: String,
    filter: Option<String>,
}

#[derive(Clone, Debug)]
enum Function {
    CountRows,
    CountValues,
    CountDistinct,
    Sum,
    Average,
    Minimum,
    Maximum,
    Variance(Spread),
    Own(Arc<dyn Aggregate>),
}

fn call(function: Function, name: &str, column: &str) -> Aggregation {
    Aggregation {
        function,
        arguments: vec![column.to_owned()],
        name: format!("{name}({column})"),
        filter: None,
    }
}

/// The number of rows.
pub fn count() -> Aggregation {
    Aggregation { function: Function::CountRows, arguments: vec![], name: "count".to_owned(), filter: None }
}

/// The number of values of a column that are not NULL.
pub fn count_of(column: &str) -> Aggregation {
    call(Function::CountValues, "count", column)
}

/// The number of different values of a column that are not NULL.
pub fn count_distinct(column: &str) -> Aggregation {
    call(Function::CountDistinct, "count_distinct", column)
}

/// The sum of a column. A sum that its type cannot hold is NULL, and is counted as a fault.
pub fn sum(column: &str) -> Aggregation {
    call(Function::Sum, "sum", column)
}

/// The mean of a column.
pub fn average(column: &str) -> Aggregation {
    call(Function::Average, "average", column)
}

/// The smallest value of a column.
pub fn minimum(column: &str) -> Aggregation {
    call(Function::Minimum, "minimum", column)
}

/// The largest value of a column.
pub fn maximum(column: &str) -> Aggregation {
    call(Function::Maximum, "maximum", column)
}

/// The sample variance of a column.
pub fn variance(column: &str) -> Aggregation {
    call(Function::Variance(Spread::SampleVariance), "variance", column)
}

/// The sample standard deviation of a column.
pub fn standard_deviation(column: &str) -> Aggregation {
    call(Function::Variance(Spread::SampleDeviation), "standard_deviation", column)
}

/// An aggregate function of your own, called with these columns. `docs/guide/sql-your-own-code.md` shows how to write
/// one.
pub fn own(function: Arc<dyn Aggregate>, columns: &[&str]) -> Aggregation {
    let arguments: Vec<String> = columns.iter().map(|column| (*column).to_owned()).collect();
    let name = format!("{}({})", function.name(), arguments.join(", "));
    Aggregation { function: Function::Own(function), arguments, name, filter: None }
}

impl Aggregation {
    /// Names the column of its results.
    ///
    /// ```
    /// let revenue = tidemill::aggregate::sum("price").named("revenue");
    /// ```
    #[must_use]
    pub fn named(self, name: &str) -> Aggregation {
        Aggregation { name: name.to_owned(), ..self }
    }

    /// Aggregates only the rows for which this boolean column is true.
    ///
    /// ```
    /// let paid = tidemill::aggregate::count().only_if("is_paid").named("paid");
    /// ```
    #[must_use]
    pub fn only_if(self, column: &str) -> Aggregation {
        Aggregation { filter: Some(column.to_owned()), ..self }
    }

    /// The name of the column of its results.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The same over the rows of a frame. A fault is kept.
    pub(crate) fn running(&self, stream: &Stream, frame: Frame) -> Option<FunctionSpec> {
        let aggregate = match self.function {
            Function::CountRows | Function::CountValues => RunningAggregate::Count,
            Function::Sum => RunningAggregate::Sum,
            Function::Average => RunningAggregate::Avg,
            Function::Minimum => RunningAggregate::Min,
            Function::Maximum => RunningAggregate::Max,
            Function::CountDistinct | Function::Variance(_) | Function::Own(_) => {
                stream.fail(format!(
                    "{}: of trailing rows, only count, count_of, sum, average, minimum and maximum can be computed; \
                     use a window, or scan",
                    self.name
                ));
                return None;
            }
        };
        let (arguments, filter) = self.columns(stream)?;
        let function =
            RunningFunction::Aggregate { aggregate, column: arguments.first().copied(), filter, frame };
        Some(FunctionSpec { name: self.name.clone(), function })
    }

    /// The columns of its arguments and of its filter.
    fn columns(&self, stream: &Stream) -> Option<(Vec<usize>, Option<usize>)> {
        let arguments = self.arguments.iter().map(|argument| stream.columns(&self.name, argument.as_str()));
        let arguments = arguments.map(|column| column.map(|column| column[0])).collect::<Option<_>>()?;
        match &self.filter {
            None => Some((arguments, None)),
            Some(column) => Some((arguments, Some(self.filter_column(stream, column)?))),
        }
    }

    fn resolve(&self, stream: &Stream, keys_max: usize) -> Option<AggregateCall> {
        let (arguments, filter) = self.columns(stream)?;
        let data_type = |argument: usize| stream.schema.field(arguments[argument]).data_type().clone();
        match self.function(&arguments, data_type, keys_max) {
            Ok(function) => Some(AggregateCall { function, arguments, filter }),
            Err(cause) => {
                stream.fail(format!("{}: {cause}", self.name));
                None
            }
        }
    }

    fn filter_column(&self, stream: &Stream, column: &str) -> Option<usize> {
        let index = stream.columns(&self.name, column)?[0];
        let data_type = stream.schema.field(index).data_type();
        if *data_type != DataType::Boolean {
            stream.fail(format!(
                "{}: only_if: column '{column}' is {data_type}; it must be Boolean",
                self.name
            ));
            return None;
        }
        Some(index)
    }

    fn function(
        &self,
        arguments: &[usize],
        data_type: impl Fn(usize) -> DataType,
        keys_max: usize,
    ) -> Result<Arc<dyn Aggregate>, Cause> {
        debug_assert!(
            !arguments.is_empty() || matches!(self.function, Function::CountRows | Function::Own(_))
        );
        Ok(match &self.function {
            Function::CountRows => Arc::new(Count::rows()),
            Function::CountValues => Arc::new(Count::values()),
            Function::CountDistinct => Arc::new(CountDistinct::new(&data_type(0), keys_max)?),
            Function::Sum => Arc::new(Sum::new(&data_type(0))?),
            Function::Average => Arc::new(Average::new(&data_type(0))?),
            Function::Minimum => Arc::new(Extreme::minimum(&data_type(0))?),
            Function::Maximum => Arc::new(Extreme::maximum(&data_type(0))?),
            Function::Variance(spread) => Arc::new(Variance::new(*spread, &data_type(0))?),
            Function::Own(function) => Arc::clone(function),
        })
    }
}

impl KeyedStream {
    /// Aggregates the rows of each key without end. Each cycle emits the new results of every key that had rows in it.
    /// The output has the key's columns, then one for each call.
    ///
    /// ```
    /// use tidemill::aggregate::{count, maximum};
    /// use tidemill::{Engine, Query};
    /// let mut query = Query::new("bids");
    /// let bids = query.rows::<(String, f64)>("bids", ["item", "price"]);
    /// let best = bids.key_by("item").aggregate([maximum("price"), count().named("bids")]);
    /// assert_eq!(best.schema().field(2).name(), "bids");
    /// ```
    #[must_use]
    pub fn aggregate(&self, calls: impl Into<Vec<Aggregation>>) -> Stream {
        running(self, &calls.into())
    }
}

impl WindowedStream {
    /// Aggregates the rows of each key and window, and emits one row when event time has passed the window's end. The
    /// output has the key's columns, `window_start` and `window_end`, and one column for each call.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidemill::aggregate::{average, count};
    /// use tidemill::{Engine, Query, Timestamp, Window};
    ///
    /// let mut query = Query::new("speeds");
    /// let reports = query.rows::<(u32, Timestamp, f64)>("reports", ["segment", "time", "speed"]);
    /// let reports = reports.event_time("time", Duration::from_secs(2));
    /// let speeds = reports
    ///     .key_by("segment")
    ///     .window(Window::tumbling("time", Duration::from_secs(60)))
    ///     .aggregate([count(), average("speed").named("speed")])
    ///     .collect("speeds", 100);
    /// let run = Engine::new().start(query)?;
    /// let second = |second: i64| Timestamp(second * 1_000_000_000);
    /// run.input(&reports)?.push([(1, second(0), 80.0), (1, second(59), 60.0), (1, second(60), 50.0)])?;
    /// run.finish()?;
    /// assert_eq!(speeds.len(), 2);
    /// # Ok::<(), tidemill::Error>(())
    /// ```
    #[must_use]
    pub fn aggregate(&self, calls: impl Into<Vec<Aggregation>>) -> Stream {
        windowed(self, &calls.into())
    }
}

/// Results that are never final.
pub(crate) fn running(keyed: &KeyedStream, calls: &[Aggregation]) -> Stream {
    let Some(spec) = spec(keyed, calls, &[]) else { return keyed.stream.clone() };
    let table_key = keyed.key_names();
    let name = name(keyed, calls);
    let planned = combined(keyed, spec, None).and_then(|(keyed, spec)| {
        TableAggregate::new(&spec)?;
        Ok((TableAggregate::output_schema(&spec)?, keyed, spec))
    });
    let (output, keyed, spec) = match planned {
        Ok(planned) => planned,
        Err(cause) => return keyed.failed(format!("{name}: {cause}")),
    };
    let failed = keyed.stream.build.borrow().failed.clone();
    let results = keyed.operator(&name, &output, move |_| {
        let table = TableAggregate::new(&spec).expect("checked when it was planned");
        Box::new(table.failed_results(FailedResults::Null(failed.clone())))
    });
    Stream { table_key: Some(table_key), ..results }
}

/// Results of windows, emitted when the windows close.
pub(crate) fn windowed(windowed: &WindowedStream, calls: &[Aggregation]) -> Stream {
    let keyed = &windowed.keyed;
    let name = name(keyed, calls);
    let of_times = || spec(keyed, calls, &[WINDOW_START, WINDOW_END]);
    let planned = windowed.window.resolve(&keyed.stream).and_then(|window| match window {
        None => Ok(None),
        Some(ResolvedWindow::Regular(window, empty)) => {
            of_times().map(|spec| regular(keyed, &name, spec, (window, empty))).transpose()
        }
        Some(ResolvedWindow::Session(session)) => {
            of_times().map(|spec| sessions(keyed, &name, spec, session)).transpose()
        }
        Some(ResolvedWindow::Rows(window)) => {
            let rows = row_windows(keyed, window)?;
            spec(&rows, calls, &[]).map(|spec| complete_windows(&rows, &name, spec)).transpose()
        }
    });
    match planned {
        Ok(results) => results.unwrap_or_else(|| keyed.stream.clone()),
        Err(cause) => keyed.failed(format!("{name}: {cause}")),
    }
}

fn regular(
    keyed: &KeyedStream,
    name: &str,
    spec: AggregateSpec,
    (window, empty): (WindowSpec, Option<EmptyWindows>),
) -> Result<Stream, Cause> {
    let (keyed, spec) = combined(keyed, spec, Some(&window))?;
    let output = WindowAggregate::output_schema(&spec, &window)?;
    let (failed, late) = faults(&keyed);
    let watermark = keyed.stream.watermark();
    let instance = move || {
        let aggregate = WindowAggregate::new(&spec, &window, watermark.clone(), Arc::clone(&late))?;
        let aggregate = aggregate.failed_results(FailedResults::Null(failed.clone()));
        match &empty {
            Some(empty) => aggregate.empty_windows(empty, &window),
            None => Ok(aggregate),
        }
    };
    instance()?;
    let times = match empty {
        Some(_) => keyed.stream.source_times(&window)?,
        None => Vec::new(),
    };
    let closed = keyed.operator_with(name, &times, &output, move |_| {
        Box::new(instance().expect("checked when it was planned"))
    });
    // A row is emitted when its window has ended, so the window's start lies that far back.
    let delay_ns = keyed.stream.delay_ns.saturating_add(window.size_ns);
    let (times, end) = (vec![WINDOW_START.to_owned(), WINDOW_END.to_owned()], Some(keyed.stream.delay_ns));
    Ok(Stream { delay_ns, times, window_end_delay_ns: end, ..closed })
}

fn sessions(
    keyed: &KeyedStream,
    name: &str,
    spec: AggregateSpec,
    session: SessionSpec,
) -> Result<Stream, Cause> {
    let output = SessionAggregate::output_schema(&spec, &session)?;
    let (failed, late) = faults(keyed);
    let watermark = keyed.stream.watermark();
    let instance = move || {
        let aggregate = SessionAggregate::new(&spec, &session, watermark.clone(), Arc::clone(&late))?;
        Ok::<_, Cause>(aggregate.failed_results(FailedResults::Null(failed.clone())))
    };
    instance()?;
    let closed =
        keyed.operator(name, &output, move |_| Box::new(instance().expect("checked when it was planned")));
    // A session is known to be over one instant after its end.
    let delay_ns = keyed.stream.delay_ns.saturating_add(1);
    let (times, unbounded) = (vec![WINDOW_END.to_owned()], Some(WINDOW_START.to_owned()));
    Ok(Stream { delay_ns, times, unbounded, window_end_delay_ns: Some(delay_ns), ..closed })
}

fn faults(keyed: &KeyedStream) -> (FaultLog, Arc<AtomicU64>) {
    let build = keyed.stream.build.borrow();
    (build.failed.clone(), build.late.counter())
}

/// What is computed. If a column or a function does not fit, the fault is kept and the result is `None`.
fn spec(keyed: &KeyedStream, calls: &[Aggregation], bounds: &[&str]) -> Option<AggregateSpec> {
    let stream = &keyed.stream;
    let groups_max = stream.build.borrow().keys_max_for(keyed.keys.len());
    let resolved: Option<Vec<AggregateCall>> =
        calls.iter().map(|call| call.resolve(stream, groups_max)).collect();
    let bounds = bounds.iter().map(|bound| (*bound).to_owned());
    let results = calls.iter().map(|call| call.name.clone());
    let names: Vec<String> = keyed.key_names().into_iter().chain(bounds).chain(results).collect();
    let twice = (0..names.len()).find(|index| names[..*index].contains(&names[*index]));
    if let Some(name) = twice.map(|index| &names[index]) {
        stream.fail(format!(
            "aggregate: two columns would be named '{name}'; call .named() on one of the calls"
        ));
        return None;
    }
    let input = Arc::clone(&stream.schema);
    Some(AggregateSpec {
        keys: keyed.keys.clone(),
        calls: resolved?,
        names,
        input,
        partial_input: false,
        groups_max,
    })
}

/// Combines rows before they are partitioned, where that cannot change a result.
fn combined(
    keyed: &KeyedStream,
    spec: AggregateSpec,
    window: Option<&WindowSpec>,
) -> Result<(KeyedStream, AggregateSpec), Cause> {
    if !spec.is_exact() {
        return Ok((keyed.clone(), spec));
    }
    let output = combined_schema(&spec, window)?;
    Combine::new(&spec, window)?;
    let (combining, window) = (spec.clone(), window.copied());
    let stream =
        keyed.stream.build.borrow_mut().transform("combine", keyed.stream.stream, &output, move || {
            Box::new(Combine::new(&combining, window.as_ref()).expect("checked when it was planned"))
        });
    let stream = Stream { stream, schema: output, ..keyed.stream.clone() };
    let keys = (0..spec.keys.len()).collect();
    Ok((KeyedStream { stream, keys }, AggregateSpec { partial_input: true, ..spec }))
}

/// The name of the operator: what it computes.
fn name(keyed: &KeyedStream, calls: &[Aggregation]) -> String {
    let calls: Vec<&str> = calls.iter().map(|call| call.name.as_str()).collect();
    let keys = keyed.key_names();
    if keys.is_empty() { calls.join(", ") } else { format!("{} by {}", calls.join(", "), keys.join(", ")) }
}
