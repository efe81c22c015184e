//! Streams, and what can be done with their rows one by one.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use tidemill_connect::memory::{CallbackSink, MemoryRows, MemorySink};
use tidemill_engine::{Cause, Sink, StreamRef, Transform};
use tidemill_operators::forward::{Forward, ForwardSpec};

use crate::build::{Build, BuildInput, OpenSink, SinkBuild, duplicate};
use crate::functions::{Filter, FlatMap, Map, Select};
use crate::names::Names;
use crate::row::Row;
use crate::sinks::{IntoSink, SinkOpening};

/// A stream of a [`Query`](crate::Query): a sequence of rows with the same columns.
///
/// A stream is a handle. It can be cloned, read by several operators and sinks, and kept while the query runs.
///
/// Functions that are given to a stream run on the workers, several at the same time. Their results must depend only on
/// their arguments: no clock, no random numbers. A panic in one of them stops the query.
#[derive(Clone)]
pub struct Stream {
    pub(crate) build: Rc<RefCell<Build>>,
    pub(crate) stream: StreamRef,
    pub(crate) schema: SchemaRef,
    /// The sources from which its rows come.
    pub(crate) sources: Vec<usize>,
    /// The columns that are known to be event times.
    pub(crate) times: Vec<String>,
    /// How far its rows may be behind the event time of its sources.
    pub(crate) delay_ns: i64,
    /// A time column that cannot be event time, because nothing bounds how late its rows come.
    pub(crate) unbounded: Option<String>,
    /// How far its rows may be behind by their column `window_end`, if that is the end of a window.
    pub(crate) window_end_delay_ns: Option<i64>,
    /// If a row replaces the previous one with the same key: the columns of the key.
    pub(crate) table_key: Option<Vec<String>>,
}

impl Stream {
    /// Its columns.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Keeps the rows for which the function is true.
    #[must_use]
    pub fn filter<R, F>(&self, columns: impl Names, keep: F) -> Stream
    where
        R: Row,
        F: Fn(R) -> bool + Send + Sync + 'static,
    {
        let Some(columns) = self.typed::<R>("filter", columns) else { return self.clone() };
        let keep = Arc::new(keep);
        self.transformed("filter", &Arc::clone(&self.schema), move || {
            Box::new(Filter::<R, F>::new(columns.clone(), Arc::clone(&keep)))
        })
    }

    /// Turns each row into one new row. The function gets some columns, and its result is the whole new row.
    #[must_use]
    pub fn map<R, O, F>(&self, columns: impl Names, output: impl Names, function: F) -> Stream
    where
        R: Row,
        O: Row,
        F: Fn(R) -> O + Send + Sync + 'static,
    {
        self.mapped("map", columns, output, false, function)
    }

    /// Adds columns to each row. The function gets some columns, and its result is added behind all columns.
    ///
    /// ```
    /// use tidemill::{Engine, Query};
    /// let mut query = Query::new("areas");
    /// let fields = query.rows::<(f64, f64)>("fields", ["width", "length"]);
    /// let areas = fields.with(["width", "length"], "area", |(width, length): (f64, f64)| (width * length,));
    /// assert_eq!(areas.schema().fields().len(), 3);
    /// ```
    #[must_use]
    pub fn with<R, O, F>(&self, columns: impl Names, added: impl Names, function: F) -> Stream
    where
        R: Row,
        O: Row,
        F: Fn(R) -> O + Send + Sync + 'static,
    {
        self.mapped("with", columns, added, true, function)
    }

    fn mapped<R, O, F>(
        &self,
        name: &str,
        columns: impl Names,
        output: impl Names,
        keeps_all: bool,
        function: F,
    ) -> Stream
    where
        R: Row,
        O: Row,
        F: Fn(R) -> O + Send + Sync + 'static,
    {
        let Some(columns) = self.typed::<R>(name, columns) else { return self.clone() };
        let kept = if keeps_all { self.schema.fields().to_vec() } else { Vec::new() };
        let Some(schema) = self.written::<O>(name, &kept, output) else { return self.clone() };
        let (function, output) = (Arc::new(function), Arc::clone(&schema));
        let mapped = self.transformed(name, &schema, move || {
            Box::new(Map::<R, O, F>::new(
                columns.clone(),
                Arc::clone(&output),
                keeps_all,
                Arc::clone(&function),
            ))
        });
        if keeps_all { mapped } else { mapped.rewritten() }
    }

    /// Turns each row into any number of rows: those that the function returns.
    #[must_use]
    pub fn flat_map<R, I, F>(&self, columns: impl Names, output: impl Names, function: F) -> Stream
    where
        R: Row,
        I: IntoIterator + 'static,
        I::Item: Row,
        F: Fn(R) -> I + Send + Sync + 'static,
    {
        let Some(columns) = self.typed::<R>("flat_map", columns) else { return self.clone() };
        let Some(schema) = self.written::<I::Item>("flat_map", &[], output) else { return self.clone() };
        let (function, output) = (Arc::new(function), Arc::clone(&schema));
        self.transformed("flat_map", &schema, move || {
            Box::new(FlatMap::<R, I, F>::new(columns.clone(), Arc::clone(&output), Arc::clone(&function)))
        })
        .rewritten()
    }

    /// Keeps these columns, in this order.
    #[must_use]
    pub fn select(&self, columns: impl Names) -> Stream {
        let Some(columns) = self.columns("select", columns) else { return self.clone() };
        let fields: Vec<_> =
            columns.iter().map(|column| Arc::clone(&self.schema.fields()[*column])).collect();
        let schema = Arc::new(Schema::new(fields));
        if let Some(twice) = duplicate(&schema) {
            self.fail(format!("select: column '{twice}' is selected twice"));
            return self.clone();
        }
        let output = Arc::clone(&schema);
        self.transformed("select", &schema, move || {
            Box::new(Select::new(columns.clone(), Arc::clone(&output)))
        })
    }

    /// Passes the rows through a [`Transform`] of your own, batch by batch.
    #[must_use]
    pub fn transform<T>(
        &self,
        name: &str,
        output: &SchemaRef,
        factory: impl Fn() -> T + Send + Sync + 'static,
    ) -> Stream
    where
        T: Transform + 'static,
    {
        self.transformed(name, output, move || Box::new(factory())).rewritten()
    }

    /// The rows of this stream and of another one with the same columns, in one partition.
    ///
    /// ```
    /// use tidemill::{Engine, Query};
    /// let mut query = Query::new("both");
    /// let left = query.rows::<(i64,)>("left", "value");
    /// let right = query.rows::<(i64,)>("right", "value");
    /// let both = left.union(&right).collect("both", 100);
    /// let run = Engine::new().start(query)?;
    /// run.input(&left)?.push([(1,)])?;
    /// run.input(&right)?.push([(2,), (3,)])?;
    /// run.finish()?;
    /// assert_eq!(both.len(), 3);
    /// # Ok::<(), tidemill::Error>(())
    /// ```
    #[must_use]
    pub fn union(&self, other: &Stream) -> Stream {
        let types = |stream: &Stream| -> Vec<(String, DataType)> {
            let fields = stream.schema.fields().iter();
            fields.map(|field| (field.name().clone(), field.data_type().clone())).collect()
        };
        if !self.is_of_same_query("union", other) {
            return self.clone();
        }
        if types(self) != types(other) {
            let (left, right) = (describe(&self.schema), describe(&other.schema));
            self.fail(format!("union: the streams have different columns: {left}, and {right}"));
            return self.clone();
        }
        let fields = self.schema.fields().iter().zip(other.schema.fields());
        let either = |(left, right): (&Arc<Field>, &Arc<Field>)| {
            left.as_ref().clone().with_nullable(left.is_nullable() || right.is_nullable())
        };
        let schema: SchemaRef = Arc::new(Schema::new(fields.map(either).collect::<Vec<_>>()));
        let spec = ForwardSpec { schema: Arc::clone(&schema) };
        let stream = self.build.borrow_mut().operator(
            "union",
            &[self.input(&[]), other.input(&[])],
            &schema,
            move |_| Box::new(Forward::new(spec.clone())),
        );
        let times = self.times.iter().filter(|time| other.times.contains(time)).cloned().collect();
        Stream { stream, schema, times, ..self.with_time_of(other) }
    }

    /// Sends the rows to a sink: one that the program has made, or one of [`sinks`](crate::sinks), which is opened when the
    /// query starts.
    ///
    /// ```
    /// use tidemill::{Engine, Query, sinks};
    /// # let folder = std::env::temp_dir().join(format!("tidemill-to-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder).unwrap();
    /// let mut query = Query::new("copy");
    /// let numbers = query.rows::<(i64,)>("numbers", "number");
    /// # let path = folder.join("numbers.csv");
    /// numbers.to("file", sinks::file(&path));
    /// let run = Engine::new().start(query)?;
    /// run.input(&numbers)?.push([(1,), (2,)])?;
    /// run.finish()?;
    /// assert_eq!(std::fs::read_to_string(&path).unwrap(), "number\n1\n2\n");
    /// # std::fs::remove_dir_all(&folder).unwrap();
    /// # Ok::<(), tidemill::Error>(())
    /// ```
    pub fn to(&self, name: &str, sink: impl IntoSink) {
        self.add_sink(name, Box::new(|opening: &SinkOpening<'_>| sink.into_sink(opening)));
    }

    /// Sends the rows to a sink that must know their columns before it can be made, such as those of
    /// [`connect`](crate::connect). It is made when the query starts. If the query is durable, it should be one that
    /// resumes.
    ///
    /// ```
    /// use tidemill::Query;
    /// use tidemill::connect::file::{DirectorySink, DirectorySinkSettings, FileFormat};
    /// let mut query = Query::new("copy");
    /// let rows = query.rows::<(i64,)>("rows", "value");
    /// let settings = DirectorySinkSettings { rows_max: 1000, ..DirectorySinkSettings::new(FileFormat::csv()) };
    /// rows.to_with("folder", move |schema| DirectorySink::create("rows".as_ref(), schema, &settings));
    /// ```
    pub fn to_with<S: Sink + 'static>(
        &self,
        name: &str,
        make: impl FnOnce(&SchemaRef) -> Result<S, Cause> + 'static,
    ) {
        self.add_sink(name, Box::new(|opening: &SinkOpening<'_>| Ok(Box::new(make(opening.schema)?))));
    }

    fn add_sink(&self, name: &str, open: Box<OpenSink>) {
        let names = self.table_key.iter().flatten();
        let key = if names.clone().all(|name| self.schema.index_of(name).is_ok()) {
            names.cloned().collect()
        } else {
            Vec::new()
        };
        let mut build = self.build.borrow_mut();
        build.plan.sink(name, [self.stream]);
        build.sinks.push(SinkBuild { schema: Arc::clone(&self.schema), key, open });
    }

    /// Keeps the rows in memory. A query that has more than `rows_max` rows stops. Returns the handle that reads the
    /// rows, during the run or after it.
    pub fn collect(&self, name: &str, rows_max: usize) -> MemoryRows {
        let (sink, rows) = MemorySink::new(&self.schema, rows_max);
        self.to(name, sink);
        rows
    }

    /// Calls a function with some columns of each row when the row's cycle is committed. The function runs on its own
    /// thread.
    pub fn for_each<R, F>(&self, name: &str, columns: impl Names, mut function: F)
    where
        R: Row,
        F: FnMut(R) + Send + 'static,
    {
        let Some(columns) = self.typed::<R>("for_each", columns) else { return };
        self.for_each_batch(name, move |rows| {
            crate::row::each::<R>(rows, &columns, |_, row| {
                function(row);
                Ok(())
            })
        });
    }

    /// Calls a function with the rows of each cycle when the cycle is committed. An error stops the query.
    pub fn for_each_batch<F>(&self, name: &str, function: F)
    where
        F: FnMut(&RecordBatch) -> Result<(), Cause> + Send + 'static,
    {
        self.to(name, CallbackSink::new(&self.schema, function));
    }

    /// The stream as the input of an operator.
    pub(crate) fn input<'a>(&'a self, keys: &'a [usize]) -> BuildInput<'a> {
        BuildInput { stream: self.stream, schema: &self.schema, keys }
    }

    pub(crate) fn fail(&self, reason: String) {
        self.build.borrow_mut().fail(reason);
    }

    /// The columns of these names; keeps the fault if there is one.
    pub(crate) fn columns(&self, what: &str, names: impl Names) -> Option<Vec<usize>> {
        let column = |name: String| {
            let found = self.schema.index_of(&name);
            found.map_err(|_| {
                format!("{what}: there is no column '{name}'; the columns are {}", describe(&self.schema))
            })
        };
        let columns = names.names().into_iter().map(column).collect::<Result<Vec<_>, _>>();
        columns.map_err(|reason| self.fail(reason)).ok()
    }

    /// The columns of these names as rows of a type; keeps the fault if there is one.
    pub(crate) fn typed<R: Row>(&self, what: &str, names: impl Names) -> Option<Vec<usize>> {
        let columns = self.columns(what, names)?;
        match R::check(&self.schema, &columns) {
            Ok(()) => Some(columns),
            Err(reason) => {
                self.fail(format!("{what}: {reason}"));
                None
            }
        }
    }

    /// The schema of rows that a function writes behind other columns; keeps the fault if there is one.
    pub(crate) fn written<O: Row>(
        &self,
        what: &str,
        kept: &[Arc<Field>],
        names: impl Names,
    ) -> Option<SchemaRef> {
        let fields = match O::fields(&names.names()) {
            Ok(fields) => fields,
            Err(reason) => {
                self.fail(format!("{what}: {reason}"));
                return None;
            }
        };
        let schema =
            Schema::new(kept.iter().cloned().chain(fields.into_iter().map(Arc::new)).collect::<Vec<_>>());
        if let Some(twice) = duplicate(&schema) {
            self.fail(format!("{what}: two columns would be named '{twice}'; rename one of them"));
            return None;
        }
        Some(Arc::new(schema))
    }

    pub(crate) fn is_of_same_query(&self, what: &str, other: &Stream) -> bool {
        let is_same = Rc::ptr_eq(&self.build, &other.build);
        if !is_same {
            self.fail(format!("{what}: the two streams belong to different queries"));
        }
        is_same
    }

    /// Without what is known about the meaning of its columns, for a function has written them.
    fn rewritten(self) -> Stream {
        // Rows of a table still replace others, by a key that is no longer known.
        let table_key = self.table_key.map(|_| Vec::new());
        Stream { times: Vec::new(), window_end_delay_ns: None, table_key, ..self }
    }

    pub(crate) fn transformed(
        &self,
        name: &str,
        output: &SchemaRef,
        factory: impl Fn() -> Box<dyn Transform> + Send + Sync + 'static,
    ) -> Stream {
        let stream = self.build.borrow_mut().transform(name, self.stream, output, factory);
        Stream { stream, schema: Arc::clone(output), ..self.clone() }
    }
}

/// The columns of a schema, for messages.
pub(crate) fn describe(schema: &Schema) -> String {
    let columns: Vec<String> =
        schema.fields().iter().map(|field| format!("{} ({})", field.name(), field.data_type())).collect();
    if columns.is_empty() { "no columns".to_owned() } else { columns.join(", ") }
}
