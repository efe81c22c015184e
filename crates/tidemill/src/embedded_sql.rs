//! Queries in SQL among typed streams.

use std::rc::Rc;
use std::sync::Arc;

use tidemill_sql::{EmbeddedQuery, EmbeddedSource, PlanStream, Planner, Surroundings};

use crate::aggregate::WINDOW_END;
use crate::build::{Build, SourceBuild};
use crate::error::Error;
use crate::functions::Select;
use crate::query::Query;
use crate::stream::Stream;

impl Query {
    /// The rows of a query in SQL, as a stream like any other. The query reads the sources of this one by their names,
    /// and streams that were given a name with [`define`](Query::define).
    ///
    /// Statements may come before it that define more sources, tables and views; later texts can use them too.
    /// Results that replace earlier ones (an aggregate without a window) come as in
    /// [`KeyedStream::aggregate`](crate::KeyedStream::aggregate): each changed row once per cycle.
    ///
    /// ```
    /// use tidemill::{Engine, Query, Timestamp, rows_of};
    /// let minute = std::time::Duration::from_secs(60);
    /// let mut query = Query::new("traffic");
    /// let reports = query.rows::<(Timestamp, u32, f64)>("reports", ["time", "segment", "speed"]).event_time("time", minute);
    /// let jams = query.sql(
    ///     "SELECT segment, avg(speed) AS speed, window_end FROM tumble(TABLE(reports), time, INTERVAL '1 minute')
    ///      GROUP BY segment, window_start, window_end HAVING avg(speed) < 40",
    /// )?;
    /// let jams = jams.collect("jams", 100);
    /// let run = Engine::new().workers(2).start(query)?;
    /// run.input(&reports)?.push([(Timestamp(0), 7, 20.0), (Timestamp(1), 7, 30.0), (Timestamp(2), 8, 90.0)])?;
    /// run.finish()?;
    /// assert_eq!(rows_of::<(Option<u32>, Option<f64>)>(&jams.read()?, ["segment", "speed"])?, [(Some(7), Some(25.0))]);
    /// # Ok::<(), tidemill::Error>(())
    /// ```
    ///
    /// # Errors
    /// What is wrong with the text, with the place; or that a source which it defines cannot be opened.
    pub fn sql(&mut self, text: &str) -> Result<Stream, Error> {
        self.name_sources()?;
        let added = self.add(text)?;
        let own = self.build.borrow().plan.schema(added.stream).map(Arc::clone);
        let rows = self.stream_of(&added);
        let is_named = own.is_some_and(|own| own.fields() == added.schema.fields());
        Ok(if is_named { rows } else { renamed(&rows) })
    }

    fn add(&mut self, text: &str) -> Result<PlanStream, Error> {
        let build = &mut *self.build.borrow_mut();
        if let Some(reason) = &build.fault {
            return Err(fault(build, reason));
        }
        let around = Surroundings {
            partitions: build.partitions.max(1),
            groups_max: build.keys_max,
            late: build.late.clone(),
            faults: build.failed.clone(),
        };
        let added = self.queries.add(text, &build.plan, &around);
        let EmbeddedQuery { plan, stream, sources } =
            added.map_err(|cause| fault(build, &cause.to_string()))?;
        build.plan = plan;
        build.sources.extend(sources.into_iter().map(source_of));
        build.sources_named = build.sources.len();
        build.texts.push(text.to_owned());
        Ok(stream)
    }

    /// Gives a stream a name, by which queries in [SQL](Query::sql) read it. Sources have one.
    ///
    /// ```
    /// use tidemill::{Engine, Query};
    /// let mut query = Query::new("words");
    /// let lines = query.rows::<(String,)>("lines", "line");
    /// let words = lines.flat_map("line", "word", |(line,): (String,)| -> Vec<(String,)> {
    ///     line.split(' ').map(|word| (word.to_owned(),)).collect()
    /// });
    /// query.define("words", &words)?;
    /// let counts = query.sql("SELECT word, count(*) AS count FROM words GROUP BY word")?.collect("counts", 100);
    /// let run = Engine::new().start(query)?;
    /// run.input(&lines)?.push([("in and out".to_owned(),)])?;
    /// run.finish()?;
    /// assert_eq!(counts.len(), 3);
    /// # Ok::<(), tidemill::Error>(())
    /// ```
    ///
    /// # Errors
    /// If something has the name already, or the stream belongs to another query.
    pub fn define(&mut self, name: &str, stream: &Stream) -> Result<(), Error> {
        self.name_sources()?;
        let build = self.build.borrow();
        if !Rc::ptr_eq(&self.build, &stream.build) {
            return Err(fault(&build, &format!("define '{name}': the stream belongs to another query")));
        }
        if let Some(reason) = &build.fault {
            return Err(fault(&build, reason));
        }
        let described = described(&build, stream);
        self.queries
            .define(name, &described)
            .map_err(|cause| fault(&build, &format!("define '{name}': {cause}")))
    }

    /// The planner of the queries in SQL, with which functions, operators and connectors of the program's own are
    /// registered.
    pub fn planner(&mut self) -> &mut Planner {
        self.queries.planner()
    }

    /// Gives the sources that have been added their names.
    fn name_sources(&mut self) -> Result<(), Error> {
        let build = &mut *self.build.borrow_mut();
        for source in build.sources_named..build.sources.len() {
            let SourceBuild { schema, feed, .. } = &build.sources[source];
            let stream =
                tidemill_engine::StreamRef { producer: tidemill_engine::Producer::Source(source), port: 0 };
            let times = feed.event_time.iter().map(|time| (time.column, 0)).collect();
            let described = PlanStream { sources: vec![source], times, ..PlanStream::new(stream, schema) };
            let name = &build.plan.sources[source].name;
            let defined = self.queries.define(name, &described);
            defined.map_err(|cause| fault(build, &format!("source '{name}': {cause}")))?;
            build.sources_named = source + 1;
        }
        Ok(())
    }

    /// A stream that SQL has added to the plan.
    fn stream_of(&self, added: &PlanStream) -> Stream {
        let name = |column: &usize| added.schema.field(*column).name().clone();
        Stream {
            build: Rc::clone(&self.build),
            stream: added.stream,
            schema: Arc::clone(&added.schema),
            sources: added.sources.clone(),
            times: added.times.iter().map(|(column, _)| name(column)).collect(),
            delay_ns: added.times.iter().map(|(_, delay_ns)| *delay_ns).max().unwrap_or(0),
            window_end_delay_ns: added
                .times
                .iter()
                .find_map(|(column, delay_ns)| (name(column) == WINDOW_END).then_some(*delay_ns)),
            unbounded: added.session_start.as_ref().map(name),
            table_key: added.table_key.as_ref().map(|key| key.iter().flatten().map(name).collect()),
        }
    }
}

/// What queries have to know about a stream.
fn described(build: &Build, stream: &Stream) -> PlanStream {
    let index = |name: &String| stream.schema.index_of(name).ok();
    // Without event time at every source there is no watermark, and a column with times is like any other.
    let is_timed = stream.sources.iter().all(|source| build.sources[*source].feed.event_time.is_some());
    let times = stream.times.iter().filter(|_| is_timed).filter_map(index);
    let key = |names: &Vec<String>| names.iter().map(index).collect::<Option<Vec<usize>>>();
    PlanStream {
        sources: stream.sources.clone(),
        times: times.map(|column| (column, stream.delay_ns)).collect(),
        session_start: stream.unbounded.as_ref().and_then(index),
        table_key: stream.table_key.as_ref().map(|names| key(names).filter(|key| !key.is_empty())),
        ..PlanStream::new(stream.stream, &stream.schema)
    }
}

/// A stream whose columns get the names that its handle has.
fn renamed(rows: &Stream) -> Stream {
    let columns: Vec<usize> = (0..rows.schema.fields().len()).collect();
    let (schema, output) = (Arc::clone(&rows.schema), Arc::clone(&rows.schema));
    rows.transformed("names", &schema, move || Box::new(Select::new(columns.clone(), Arc::clone(&output))))
}

fn source_of(added: EmbeddedSource) -> SourceBuild {
    let EmbeddedSource { source, feed, stream, sync } = added;
    SourceBuild { schema: source.schema(), feed, source: Some(source), stream, sync }
}

fn fault(build: &Build, reason: &str) -> Error {
    Error::Query { query: build.plan.name.clone(), reason: reason.to_owned() }
}
