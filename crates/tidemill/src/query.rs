//! A query under construction.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use arrow_schema::{Schema, SchemaRef};
use tidemill_engine::{Engine, FaultLog, FeedSettings, Launch, Plan, Source};
use tidemill_operators::watermark::LateRows;
#[cfg(feature = "sql")]
use tidemill_sql::EmbeddedQueries;

use crate::build::{Build, SourceBuild, duplicate};
use crate::error::Error;
use crate::names::Names;
use crate::row::Row;
use crate::row_source::RowSource;
use crate::run::Run;
use crate::stream::Stream;

/// A continuous query written in Rust: sources, what is done with their streams, and sinks.
///
/// Streams are handles. If something is wrong with one of them, for example a column that does not exist, the fault is
/// kept and [`Engine::start`] returns it. No call in between has to be checked.
///
/// See the [crate's examples](crate).
pub struct Query {
    pub(crate) build: Rc<RefCell<Build>>,
    /// The queries in SQL among its operators.
    #[cfg(feature = "sql")]
    pub(crate) queries: EmbeddedQueries,
}

impl Query {
    /// A query that has no sources and sinks yet. Each operator has 16 partitions and at most ten million keys.
    pub fn new(name: impl Into<String>) -> Query {
        let (late, failed) = (LateRows::default(), FaultLog::default());
        let mut plan = Plan::new(name);
        plan.left_out.faults.push(failed.clone());
        plan.left_out.rows.push(late.counter());
        let build = Build {
            plan,
            sources: Vec::new(),
            sinks: Vec::new(),
            partitions: 16,
            keys_max: 10_000_000,
            late,
            failed,
            #[cfg(feature = "sql")]
            texts: Vec::new(),
            #[cfg(feature = "sql")]
            sources_named: 0,
            journal: None,
            fault: None,
        };
        Query {
            build: Rc::new(RefCell::new(build)),
            #[cfg(feature = "sql")]
            queries: EmbeddedQueries::new(),
        }
    }

    /// Sets the number of logical partitions of each operator with keys. Choose several for each core that the query
    /// may ever use. The number is part of the query: with another number, existing state cannot be used. Affects
    /// operators that are added later.
    #[must_use]
    pub fn partitions(self, partitions: u32) -> Query {
        {
            let mut build = self.build.borrow_mut();
            build.partitions = partitions;
            if partitions == 0 {
                build.fail("partitions(0): an operator needs at least 1 partition".to_owned());
            }
        }
        self
    }

    /// Sets how many keys each operator may hold. An operator that needs more stops the query. Affects operators that
    /// are added later.
    #[must_use]
    pub fn keys_max(self, keys_max: usize) -> Query {
        self.build.borrow_mut().keys_max = keys_max;
        self
    }

    /// Makes the query durable: what it takes in is kept in a journal in this folder, and a run that starts after the end
    /// of this one, or after the death of its process, continues where it stopped. Give the same query and the same folder
    /// again.
    ///
    /// A push then returns once its rows are on the disk. [`Input::push_once`](crate::Input::push_once) numbers them, so
    /// that a program that does not know whether they are can push them again. Sinks that know what they have committed,
    /// such as files and databases, have each row exactly once; functions may be called again with the rows of the last
    /// cycles before a crash, and rows that were [collected](Stream::collect) are gone with their process.
    ///
    /// ```
    /// use tidemill::{Engine, Query};
    /// # let folder = std::env::temp_dir().join(format!("tidemill-durable-{}", std::process::id()));
    /// let sums = |first: i64, second: i64| -> Result<Vec<i64>, tidemill::Error> {
    ///     let mut query = Query::new("sums").durable(&folder);
    ///     let numbers = query.rows::<(i64,)>("numbers", "number");
    ///     let sums = numbers
    ///         .key_by(())
    ///         .scan("sum", "number", "sum", |sum: &mut i64, (number,): (i64,)| { *sum += number; [(*sum,)] })
    ///         .collect("sums", 100);
    ///     let run = Engine::new().start(query)?;
    ///     run.input(&numbers)?.push([(first,), (second,)])?;
    ///     run.stop()?;
    ///     Ok(tidemill::rows_of::<(i64,)>(&sums.read()?, "sum")?.into_iter().map(|(sum,)| sum).collect())
    /// };
    /// assert_eq!(sums(1, 2)?, [1, 3]);
    /// assert_eq!(sums(3, 4)?, [6, 10]); // another run, with the state of the first
    /// # std::fs::remove_dir_all(&folder).unwrap();
    /// # Ok::<(), tidemill::Error>(())
    /// ```
    #[must_use]
    pub fn durable(self, folder: impl AsRef<Path>) -> Query {
        self.build.borrow_mut().journal = Some(folder.as_ref().to_owned());
        self
    }

    /// Adds a source whose rows the program pushes; see [`Run::input`].
    pub fn source(&mut self, name: &str, schema: &SchemaRef) -> Stream {
        self.add_source(name, SourceBuild::new(Arc::clone(schema), FeedSettings::default(), None))
    }

    /// Adds a source whose rows the program pushes as tuples.
    ///
    /// ```
    /// use tidemill::{Engine, Query};
    /// let mut query = Query::new("temperatures");
    /// let readings = query.rows::<(String, f64)>("readings", ["place", "celsius"]);
    /// let warm = readings.filter(["celsius"], |(celsius,): (f64,)| celsius > 20.0).collect("warm", 100);
    /// let run = Engine::new().start(query)?;
    /// run.input(&readings)?.push([("roof".to_owned(), 21.5), ("cellar".to_owned(), 12.0)])?;
    /// run.finish()?;
    /// assert_eq!(warm.len(), 1);
    /// # Ok::<(), tidemill::Error>(())
    /// ```
    pub fn rows<R: Row>(&mut self, name: &str, columns: impl Names) -> RowSource<R> {
        let fields = R::fields(&columns.names()).unwrap_or_else(|reason| {
            self.build.borrow_mut().fail(format!("source '{name}': {reason}"));
            Vec::new()
        });
        RowSource::new(self.source(name, &Arc::new(Schema::new(fields))))
    }

    /// Adds a source that is read on its own thread: a file, a socket, or a source that the program implements.
    ///
    /// If the source does not end by itself, it counts as idle after 5 seconds without rows, and rows whose event time
    /// is more than an hour ahead of the clock are refused. [`Stream::idle_after`] and [`Stream::max_ahead`] change
    /// that.
    pub fn read(&mut self, name: &str, source: impl Source + 'static) -> Stream {
        let feed = FeedSettings::usual_of(&source);
        self.add_source(name, SourceBuild::new(source.schema(), feed, Some(Box::new(source))))
    }

    fn add_source(&mut self, name: &str, source: SourceBuild) -> Stream {
        let mut build = self.build.borrow_mut();
        if let Some(twice) = duplicate(&source.schema) {
            build.fail(format!("source '{name}' has two columns named '{twice}'; rename one of them"));
        }
        let schema = Arc::clone(&source.schema);
        let stream = build.plan.source(name, [Arc::clone(&schema)])[0];
        let sources = vec![build.sources.len()];
        build.sources.push(source);
        Stream {
            build: Rc::clone(&self.build),
            stream,
            schema,
            sources,
            times: Vec::new(),
            delay_ns: 0,
            unbounded: None,
            window_end_delay_ns: None,
            table_key: None,
        }
    }
}

impl Launch for Query {
    type Run = Run;
    type Error = Error;

    fn launch(self, engine: Engine) -> Result<Run, Error> {
        // The program may keep handles of streams to push rows. From now on they cannot change the query.
        let build = self.build.replace(Query::new("started").into_build());
        match build.fault {
            Some(reason) => Err(Error::Query { query: build.plan.name, reason }),
            None => Run::start(build, engine),
        }
    }
}

impl Query {
    fn into_build(self) -> Build {
        Rc::into_inner(self.build).expect("a query without streams has one owner").into_inner()
    }
}
