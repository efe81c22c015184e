//! Executes statements: definitions, immediate answers, and queries from start to end with their rows on standard
//! output.

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use tidemill_connect::standard_streams::is_output_closed;
use tidemill_engine::arrow::array::RecordBatch;
use tidemill_engine::{Cause, ReplaceFrom, Sink};
use tidemill_service::{Execution, Phase, Query, QueryEnd, Reply, Session};
use tidemill_sql::{Explained, Output, QueryStatus, Statement, StatementKind};

use super::counted::Counted;
use super::notices::Notices;
use super::query_progress::QueryProgress;
use super::rows::RowFormat;
use super::table_display::TableDisplay;
use super::{of_service, pager, replacement, summary, user_error};
use crate::exit::Exit;
use crate::interrupt::Interrupt;
use crate::{quantity, terminal};

/// The receivers of a query's rows, in the order of its outputs.
type Sinks = Vec<Box<dyn Sink>>;

/// Where statements come from, which determines what is printed besides the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatementOrigin {
    /// A script for `tidemill run`: definitions print nothing.
    Script,
    /// `-c`, `-f` or a pipe: definitions are reported.
    Command,
    /// A prompt: the time taken is reported, too.
    Prompt,
}

/// A session, and how its results are shown.
pub(crate) struct Executor {
    pub session: Session,
    pub format: RowFormat,
    pub interrupt: Interrupt,
    pub origin: StatementOrigin,
    /// The folder in which definitions are kept.
    pub database: Option<PathBuf>,
    /// Whether a prompt shows the time that a statement took.
    pub shows_time: bool,
    /// Whether a prompt shows long results in a pager.
    pub pages: bool,
}

/// The result of a query: its last status, and its answer if that comes at the end.
type Finished = (QueryStatus, Option<RecordBatch>);

impl Executor {
    /// Executes a statement and shows its result.
    pub fn statement(&mut self, statement: &Statement) -> anyhow::Result<Exit> {
        if let StatementKind::Stop(_) | StatementKind::Start(_) | StatementKind::Alter(_) = &statement.kind {
            let error = statement.error(statement.span, "no query runs by its name here");
            let hint = "a server runs them: say it to `tidemill serve` with psql";
            return Err(of_service(error.with_hint(hint).into()));
        }
        let start = Instant::now();
        match self.session.execute(statement).map_err(of_service)? {
            Reply::Done(text) => self.done(&text, &statement.kind),
            Reply::Rows(rows) => {
                // Before somebody reads them in a pager.
                let elapsed = start.elapsed();
                self.show(&self.format.all(&rows)?)?;
                self.took(rows.num_rows() as u64, elapsed);
            }
            Reply::Batches(_) => return Err(Cause::bug("nobody has asked for an answer in batches").into()),
            Reply::Text(text) => self.show(format!("{}\n", text.trim_end()).as_bytes())?,
            Reply::Query(query) => return self.query(query, start),
            Reply::Analyze(query) => return self.analyze(query),
            Reply::Changes(_) => {
                let message = "a prompt does not show changes as they come; SUBSCRIBE with psql to a server \
                               (`tidemill serve`), or SELECT from the view's query";
                return Err(user_error(message.to_owned()));
            }
        }
        Ok(Exit::Done)
    }

    fn done(&self, text: &str, kind: &StatementKind) {
        let starts = matches!(
            kind,
            StatementKind::CreateSink(_)
                | StatementKind::InsertInto { .. }
                | StatementKind::CreateMaterializedView(_)
        );
        match self.origin {
            StatementOrigin::Script => {}
            StatementOrigin::Prompt if starts && self.session.has_pipeline() => {
                terminal::tell(&format!("{text}; \\start runs it in the background"));
            }
            _ => terminal::tell(text),
        }
    }

    /// Shows a whole result; at a prompt, a long one in a pager.
    pub fn show(&self, text: &[u8]) -> anyhow::Result<()> {
        if self.origin == StatementOrigin::Prompt && self.pages {
            pager::show(text)
        } else {
            terminal::write(text).map(|_| ())
        }
    }

    /// At a prompt: the number of rows and the time taken.
    fn took(&self, rows: u64, elapsed: Duration) {
        let rows = quantity::counted(rows, "row");
        match (self.origin, self.shows_time) {
            (StatementOrigin::Prompt, true) => {
                terminal::tell(&format!("({rows} in {})", quantity::time(elapsed)));
            }
            (StatementOrigin::Prompt, false) => terminal::tell(&format!("({rows})")),
            _ => {}
        }
    }

    /// Runs a query and shows its rows.
    fn query(&self, query: Query, start: Instant) -> anyhow::Result<Exit> {
        let bound = query.prepared().max_latency();
        let streams = !query.outputs().is_empty();
        let counted = Counted::default();
        let (sinks, mut changing) = self.sinks(query.outputs(), &counted)?;
        let mut execution = query.start(sinks).map_err(of_service)?;
        let watched = self.watch(&mut execution, &mut QueryProgress::of_query(streams), changing.as_mut())?;
        let (exit, left) = self.finish(execution, watched)?;
        let Some((status, answer)) = left else { return Ok(exit) };
        self.check_strict(&status)?;
        let elapsed = start.elapsed();
        if let Some(rows) = &answer {
            self.show(&self.format.all(rows)?)?;
        }
        let rows = match changing {
            Some(changing) => changing.end(|text| self.show(text))?,
            None => answer.map_or(counted.rows(), |rows| rows.num_rows() as u64),
        };
        self.took(rows, elapsed);
        match bound {
            Some(_) => summary::whole(&status, bound),
            None => summary::left_out(&status),
        }
        Ok(exit)
    }

    /// The sinks of a query whose rows are shown; and the display for them, if they form a table that changes.
    fn sinks(&self, outputs: &[Output], counted: &Counted) -> anyhow::Result<(Sinks, Option<TableDisplay>)> {
        if let [output @ Output { table_key: Some(Some(key)), .. }] = outputs {
            let rows_max = self.session.settings().max_result_rows;
            let (sink, changing) = TableDisplay::new(self.format, output, key, rows_max)?;
            return Ok((vec![sink], Some(changing)));
        }
        let sinks = outputs.iter().map(|output| Ok(counted.sink(self.format.sink(&output.schema)?)));
        Ok((sinks.collect::<anyhow::Result<_>>()?, None))
    }

    /// Runs a query without showing its rows, and describes the measurements.
    fn analyze(&self, query: Query) -> anyhow::Result<Exit> {
        let bound = query.prepared().max_latency();
        let explained = query.prepared().explained();
        let mut execution = query.start_without_rows().map_err(of_service)?;
        let watched = self.watch(&mut execution, &mut QueryProgress::of_query(false), None)?;
        let (exit, left) = self.finish(execution, watched)?;
        if let Some((status, _)) = left {
            self.check_strict(&status)?;
            self.show(format!("{}\n", explained.with(&status).trim_end()).as_bytes())?;
            summary::whole(&status, bound);
        }
        Ok(exit)
    }

    /// Runs the sinks and materialized views of the session until their end; `None` if there are none.
    pub fn pipeline(&mut self) -> anyhow::Result<Option<Exit>> {
        self.pipeline_observed(None, |_, _| ())
    }

    /// As [`pipeline`](Executor::pipeline), or in place of the query that its journal belongs to. What `observe` gives when
    /// the pipeline runs is kept until its end.
    pub fn pipeline_observed<T>(
        &mut self,
        replace: Option<ReplaceFrom>,
        observe: impl FnOnce(&Execution, Explained) -> T,
    ) -> anyhow::Result<Option<Exit>> {
        let Some(pipeline) = self.session.pipeline().map_err(of_service)? else { return Ok(None) };
        let (bound, explained) = (pipeline.max_latency(), pipeline.explained());
        let names: Vec<&str> = pipeline.outputs().iter().map(|output| output.name.as_str()).collect();
        let journal = pipeline.journal().map(|folder| format!(", journal in {}", folder.display()));
        let journal = journal.unwrap_or_default();
        let names = names.join(", ");
        let notice = format!("running {names}{journal}; Ctrl-C ends it cleanly");
        let opened = match replace {
            None => pipeline.open()?,
            Some(from) => pipeline.open_replacing(from, |found| replacement::announce(found, &names))?,
        };
        // Whether it can resume from its journal is known only when it runs.
        let mut execution = self.session.run(opened).map_err(of_service)?;
        terminal::tell(&notice);
        let _observed = observe(&execution, explained);
        if let Some(recovered) = execution.running().recovered() {
            summary::recovered(recovered);
        }
        let mut live = QueryProgress::of_pipeline(self.session.writes_to_standard_output());
        live.replaces(execution.running().takeover());
        let watched = self.watch(&mut execution, &mut live, None)?;
        let finished = self.finish(execution, watched);
        live.tell_takeover();
        let (exit, left) = finished?;
        if let Some((status, _)) = left {
            summary::whole(&status, bound);
            self.check_strict(&status)?;
        }
        Ok(Some(exit))
    }

    /// An error if something could not be done as it was asked for, and that counts as one here.
    pub(super) fn check_strict(&self, status: &QueryStatus) -> anyhow::Result<()> {
        if self.session.is_strict() && !status.is_exact() {
            Err(user_error(summary::refused(status)))
        } else {
            Ok(())
        }
    }

    /// Shows the progress of a query, and its changes, until it has taken in everything; passes on requests to stop.
    /// Returns which notices were shown; `None` if nobody reads its rows any more.
    fn watch(
        &self,
        execution: &mut Execution,
        live: &mut QueryProgress,
        mut changing: Option<&mut TableDisplay>,
    ) -> anyhow::Result<Option<Notices>> {
        let cancellation = self.session.cancellation();
        let mut notices = Notices::default();
        while execution.advance() == Phase::Running {
            // Without a prompt the second Ctrl-C ends the process.
            if (!execution.is_interrupted() || self.interrupt.stays()) && self.interrupt.is_asked() {
                cancellation.request();
            }
            if let Some(changing) = &mut changing
                && !changing.look()?
            {
                return Ok(None);
            }
            live.look(|| execution.running().status());
            notices.look(live, || execution.running().status());
            thread::sleep(QueryProgress::LOOK);
        }
        live.end();
        if let Some(changing) = changing {
            changing.clear()?;
        }
        Ok(Some(notices))
    }

    /// Waits for the remaining work of a query; `None` if nobody needs it any more, or its reader has gone.
    fn finish(
        &self,
        execution: Execution,
        watched: Option<Notices>,
    ) -> anyhow::Result<(Exit, Option<Finished>)> {
        let Some(mut notices) = watched else { return Ok((Exit::Done, None)) };
        let cancellation = self.session.cancellation();
        let ended = execution.finish_while(|| {
            // The prompt can return before the end.
            if self.interrupt.stays() && self.interrupt.is_asked() {
                cancellation.request();
            }
        });
        if let Ok(QueryEnd::Finished { status, .. }) = &ended {
            notices.show_new(status, terminal::tell);
        }
        match ended {
            Ok(QueryEnd::Abandoned) => {
                terminal::tell("ended at once; everything not answered by then is lost");
                Ok((Exit::Interrupted, None))
            }
            Ok(QueryEnd::Finished { status, answer, is_interrupted: false }) => {
                Ok((Exit::Done, Some((*status, answer))))
            }
            Ok(QueryEnd::Finished { status, answer, is_interrupted: true }) => {
                terminal::tell("interrupted; everything taken in before is answered");
                Ok((Exit::Interrupted, Some((*status, answer))))
            }
            // The reader of the rows has seen enough.
            Err(cause) if is_output_closed(&cause) => Ok((Exit::Done, None)),
            Err(cause) => Err(cause.into()),
        }
    }
}
