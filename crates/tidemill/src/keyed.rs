//! Streams with a key, and operators that keep a state for each key.

use std::sync::Arc;

use arrow_schema::{Schema, SchemaRef};
use tidemill_engine::{Cause, Operator, State, StreamRef};
use tidemill_operators::scan::{KeyedRows, Scan};

use crate::names::Names;
use crate::row::{Row, each};
use crate::stream::Stream;

/// A stream whose rows are partitioned by some columns: [`Stream::key_by`].
#[derive(Clone)]
pub struct KeyedStream {
    pub(crate) stream: Stream,
    pub(crate) keys: Vec<usize>,
}

/// An operator of your own that says which columns it writes.
///
/// Each instance is one logical partition and gets all columns of the rows of its keys. See
/// `docs/guide/own-operator.md`.
///
/// ```
/// use std::sync::Arc;
/// use tidemill::arrow::schema::{Schema, SchemaRef};
/// use tidemill::{Cause, Engine, KeyedOperator, Operator, Output, Query, Rows, SnapshotReader, SnapshotWriter};
///
/// /// Leaves out the first row of its partition.
/// #[derive(Default)]
/// struct SkipFirst(u8);
///
/// impl Operator for SkipFirst {
///     fn rows(&mut self, _input: usize, rows: Rows<'_>, output: &mut Output) -> Result<(), Cause> {
///         let from = usize::from(self.0 == 0 && rows.len() > 0);
///         self.0 |= from as u8;
///         output.port(0).push_batch(rows.to_batch().slice(from, rows.len() - from), &rows.positions()[from..])
///     }
///     fn snapshot(&self, writer: &mut SnapshotWriter) {
///         writer.u8(self.0);
///     }
///     fn restore(&mut self, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
///         self.0 = reader.u8()?;
///         Ok(())
///     }
/// }
///
/// impl KeyedOperator for SkipFirst {
///     fn output(&self, input: &SchemaRef) -> Result<SchemaRef, Cause> {
///         Ok(Arc::clone(input))
///     }
/// }
///
/// let mut query = Query::new("rest");
/// let rows = query.rows::<(i64,)>("rows", "value");
/// let rest = rows.key_by(()).apply("skip first", SkipFirst::default).collect("rest", 10);
/// let run = Engine::new().start(query)?;
/// run.input(&rows)?.push([(1,), (2,), (3,)])?;
/// run.finish()?;
/// assert_eq!(rest.len(), 2);
/// # Ok::<(), tidemill::Error>(())
/// ```
pub trait KeyedOperator: Operator + 'static {
    /// The columns that it writes, given the columns that it reads.
    ///
    /// # Errors
    /// If it cannot read these columns. The text says why.
    fn output(&self, input: &SchemaRef) -> Result<SchemaRef, Cause>;
}

impl Stream {
    /// Partitions the rows by these columns: the next operator gets rows with equal values in one partition, in their
    /// order. `()` keeps all rows together.
    #[must_use]
    pub fn key_by(&self, columns: impl Names) -> KeyedStream {
        let keys = self.columns("key_by", columns).unwrap_or_default();
        KeyedStream { stream: self.clone(), keys }
    }
}

impl KeyedStream {
    /// Runs an operator of your own, with one instance for each logical partition.
    #[must_use]
    pub fn apply<O, F>(&self, name: &str, factory: F) -> Stream
    where
        O: KeyedOperator,
        F: Fn() -> O + Send + Sync + 'static,
    {
        match factory().output(&self.stream.schema) {
            Ok(output) => self.operator(name, &output, move |_| Box::new(factory())),
            Err(cause) => self.failed(format!("operator '{name}': {cause}")),
        }
    }

    /// Keeps a state for each key. The function gets the state and some columns of a row, changes the state, and
    /// returns the rows to emit: `Some(row)`, `None`, an array or a vector. The state of a new key is `S::default()`.
    /// The state is part of snapshots.
    ///
    /// ```
    /// use tidemill::{Engine, Query};
    /// let mut query = Query::new("differences");
    /// let meters = query.rows::<(u32, f64)>("meters", ["meter", "kwh"]);
    /// let used = meters.key_by("meter").scan(
    ///     "use since the last reading",
    ///     ["meter", "kwh"],
    ///     ["meter", "used_kwh"],
    ///     |last: &mut Option<f64>, (meter, kwh): (u32, f64)| last.replace(kwh).map(|last| (meter, kwh - last)),
    /// );
    /// let used = used.collect("used", 10);
    /// let run = Engine::new().workers(2).start(query)?;
    /// run.input(&meters)?.push([(7, 10.0), (8, 99.0), (7, 12.5)])?;
    /// run.finish()?;
    /// assert_eq!(used.len(), 1);
    /// # Ok::<(), tidemill::Error>(())
    /// ```
    #[must_use]
    pub fn scan<S, R, I, F>(&self, name: &str, columns: impl Names, output: impl Names, function: F) -> Stream
    where
        S: State + Default,
        R: Row,
        I: IntoIterator,
        I::Item: Row,
        F: Fn(&mut S, R) -> I + Send + Sync + 'static,
    {
        let place = format!("scan '{name}'");
        let Some(columns) = self.stream.typed::<R>(&place, columns) else { return self.stream.clone() };
        let Some(schema) = self.stream.written::<I::Item>(&place, &[], output) else {
            return self.stream.clone();
        };
        let keys_max = self.stream.build.borrow().keys_max_for(self.keys.len());
        let (function, output) = (Arc::new(function), Arc::clone(&schema));
        let (input, keys) = (Arc::clone(&self.stream.schema), self.keys.clone());
        let instance = move || {
            let (function, columns, output) = (Arc::clone(&function), columns.clone(), Arc::clone(&output));
            Scan::new(&input, &keys, keys_max, move |rows: KeyedRows<'_, S>, port| {
                let KeyedRows { rows, positions, keys, states } = rows;
                let (mut made, mut caused_by) = (Vec::new(), Vec::new());
                each::<R>(rows, &columns, |row, values| {
                    made.extend(function(&mut states[keys[row] as usize], values));
                    caused_by.resize(made.len(), positions[row]);
                    Ok(())
                })?;
                let rows = made.len();
                port.push_batch(crate::functions::batch(&output, I::Item::arrays(made), rows)?, &caused_by)
            })
        };
        if let Err(cause) = instance() {
            return self.failed(format!("{place}: {cause}"));
        }
        self.operator(name, &schema, move |_| Box::new(instance().expect("checked when it was planned")))
    }

    /// Adds an operator over this stream, with its keys.
    pub(crate) fn operator(
        &self,
        name: &str,
        output: &SchemaRef,
        factory: impl Fn(u32) -> Box<dyn Operator> + Send + Sync + 'static,
    ) -> Stream {
        self.operator_with(name, &[], output, factory)
    }

    /// The same, of which all partitions also get the rows of other streams.
    pub(crate) fn operator_with(
        &self,
        name: &str,
        for_all: &[StreamRef],
        output: &SchemaRef,
        factory: impl Fn(u32) -> Box<dyn Operator> + Send + Sync + 'static,
    ) -> Stream {
        let mut build = self.stream.build.borrow_mut();
        let stream = build.operator_with(name, &[self.stream.input(&self.keys)], for_all, output, factory);
        drop(build);
        let schema = Arc::clone(output);
        Stream {
            stream,
            schema,
            times: Vec::new(),
            window_end_delay_ns: None,
            table_key: None,
            ..self.stream.clone()
        }
    }

    pub(crate) fn failed(&self, reason: String) -> Stream {
        self.stream.fail(reason);
        self.stream.clone()
    }

    /// The names of the key's columns.
    pub(crate) fn key_names(&self) -> Vec<String> {
        let schema: &Schema = &self.stream.schema;
        self.keys.iter().map(|key| schema.field(*key).name().clone()).collect()
    }
}
