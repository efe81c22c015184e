//! Executes statements: definitions, immediate answers, and queries from start to end with their rows on standard
//! output.

use std::thread;
use std::time::{Duration, Instant};

use tidemill_connect::standard_streams::is_output_closed;
use tidemill_engine::arrow::array::RecordBatch;
use tidemill_engine::{Cause, Sink};
use tidemill_sql::{
    Opened, Output, Prepared, QueryStatus, Reply, RunningQuery, Session, Statement, StatementKind,
};

use super::background::Background;
use super::changing::Changing;
use super::counted::Counted;
use super::live::Live;
use super::notices::Notices;
use super::rows::RowFormat;
use super::{Failed, script, summary, user_error};
use crate::exit::Exit;
use crate::interrupt::Interrupt;
use crate::{quantity, terminal};

/// The receivers of a query's rows, in the order of its outputs.
type Sinks = Vec<Box<dyn Sink>>;

/// Where statements come from, which determines what is printed besides the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
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
    pub manner: Manner,
    /// Whether a query ends at what cannot be done as it was asked for.
    pub strict: bool,
    /// The pipeline that runs in the background.
    pub background: Option<Background>,
}

/// How watching a query ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Watched {
    /// By itself.
    Ended,
    /// Its sources were told to stop.
    Stopped,
    /// Nobody waits for its remaining results.
    Abandoned,
    /// Nobody reads its rows any more.
    Unread,
}

/// The result of a query: its last status, and its answer if that comes at the end.
type QueryEnd = (QueryStatus, Option<RecordBatch>);

impl Executor {
    /// Starts the sinks and materialized views in the background.
    pub fn start(&mut self) -> anyhow::Result<Exit> {
        self.check_background(true)?;
        self.background = Some(Background::start(&mut self.session, self.strict)?);
        Ok(Exit::Done)
    }

    /// Ends what runs in the background.
    pub fn stop(&mut self) -> anyhow::Result<Exit> {
        match self.background.take() {
            Some(background) => background.end(|| self.interrupt.is_asked()).map(|()| Exit::Done),
            None => Err(user_error("nothing runs in the background; \\start starts it".into())),
        }
    }

    /// Reports the outcome of a pipeline that has ended by itself; an error if one runs and none `may` run.
    pub fn check_background(&mut self, must_be_free: bool) -> anyhow::Result<()> {
        if let Some(ended) = self.background.take_if(|background| background.has_ended()) {
            terminal::tell("what ran in the background has ended:");
            ended.end(|| false)?;
        }
        match self.background.is_some() && must_be_free {
            true => Err(user_error("a pipeline runs in the background already; \\stop ends it".into())),
            false => Ok(()),
        }
    }

    /// Executes a statement and shows its result.
    pub fn statement(&mut self, statement: &Statement) -> anyhow::Result<Exit> {
        let start = Instant::now();
        match self.session.execute(statement).map_err(script::Wrong::from)? {
            Reply::Done(text) => self.done(&text, &statement.kind),
            Reply::Rows(rows) => {
                self.format.show(&rows)?;
                self.took(rows.num_rows() as u64, start);
            }
            Reply::Text(text) => terminal::show(text.trim_end())?,
            Reply::Query(prepared) => return self.query(*prepared, start),
            Reply::Analyze(prepared) => return self.analyze(*prepared),
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
        match self.manner {
            Manner::Script => {}
            Manner::Prompt if starts && self.session.has_pipeline() => {
                terminal::tell(&format!("{text}; \\start runs it in the background"));
            }
            _ => terminal::tell(text),
        }
    }

    /// At a prompt: the number of rows and the time taken.
    fn took(&self, rows: u64, start: Instant) {
        if self.manner == Manner::Prompt {
            terminal::tell(&format!(
                "({} in {})",
                quantity::counted(rows, "row"),
                quantity::time(start.elapsed())
            ));
        }
    }

    /// Runs a query and shows its rows.
    fn query(&self, prepared: Prepared, start: Instant) -> anyhow::Result<Exit> {
        let bound = prepared.max_latency();
        let streams = !prepared.outputs().is_empty();
        let counted = Counted::default();
        let (sinks, mut changing) = self.sinks(&prepared, &counted)?;
        let running = prepared.open(sinks).and_then(Opened::start).map_err(Failed)?;
        let watched = self.watch(&running, &mut Live::of_query(streams), changing.as_mut())?;
        let (exit, left) = self.finish(running, watched)?;
        let Some((status, answer)) = left else { return Ok(exit) };
        self.check_strict(&status)?;
        if let Some(rows) = &answer {
            self.format.show(rows)?;
        }
        let rows = match changing {
            Some(changing) => changing.end()?,
            None => answer.map_or(counted.rows(), |rows| rows.num_rows() as u64),
        };
        self.took(rows, start);
        match bound {
            Some(_) => summary::whole(&status, bound),
            None => summary::left_out(&status),
        }
        Ok(exit)
    }

    /// The sinks of a query whose rows are shown; and the display for them, if they form a table that changes.
    fn sinks(&self, prepared: &Prepared, counted: &Counted) -> anyhow::Result<(Sinks, Option<Changing>)> {
        if let [Output { table_key: Some(Some(key)), schema, .. }] = prepared.outputs() {
            let rows_max = self.session.settings().max_result_rows;
            let (sink, changing) = Changing::new(self.format, schema, key, rows_max)?;
            return Ok((vec![sink], Some(changing)));
        }
        let sinks =
            prepared.outputs().iter().map(|output| Ok(counted.sink(self.format.sink(&output.schema)?)));
        Ok((sinks.collect::<anyhow::Result<_>>()?, None))
    }

    /// Runs a query without showing its rows, and describes the measurements.
    fn analyze(&self, prepared: Prepared) -> anyhow::Result<Exit> {
        let bound = prepared.max_latency();
        let explained = prepared.explained();
        let discard = |_| Box::new(tidemill_sql::Discard) as Box<dyn tidemill_engine::Sink>;
        let sinks = prepared.outputs().iter().map(discard).collect();
        let running = prepared.open(sinks).and_then(Opened::start).map_err(Failed)?;
        let watched = self.watch(&running, &mut Live::of_query(false), None)?;
        let (exit, left) = self.finish(running, watched)?;
        if let Some((status, _)) = left {
            self.check_strict(&status)?;
            terminal::show(explained.with(&status).trim_end())?;
            summary::whole(&status, bound);
        }
        Ok(exit)
    }

    /// Runs the sinks and materialized views of the session until their end; `None` if there are none.
    pub fn pipeline(&self) -> anyhow::Result<Option<Exit>> {
        let Some(pipeline) = self.session.pipeline().map_err(Failed)? else { return Ok(None) };
        let bound = pipeline.max_latency();
        let names: Vec<&str> = pipeline.outputs().iter().map(|output| output.name.as_str()).collect();
        let journal = pipeline.journal().map(|folder| format!(", journal in {}", folder.display()));
        let journal = journal.unwrap_or_default();
        let notice = format!("running {}{journal}; Ctrl-C ends it in order", names.join(", "));
        let opened = pipeline.open().map_err(Failed)?;
        terminal::tell(&notice);
        let running = opened.start().map_err(Failed)?;
        if let Some(recovered) = running.recovered() {
            summary::recovered(recovered);
        }
        let mut live = Live::of_pipeline(self.session.writes_to_standard_output());
        let watched = self.watch(&running, &mut live, None)?;
        let (exit, left) = self.finish(running, watched)?;
        if let Some((status, _)) = left {
            summary::whole(&status, bound);
            self.check_strict(&status)?;
        }
        Ok(Some(exit))
    }

    /// An error if something could not be done as it was asked for, and that counts as one here.
    fn check_strict(&self, status: &QueryStatus) -> anyhow::Result<()> {
        match self.strict && summary::is_against_strict(status) {
            true => Err(user_error(summary::refused(status))),
            false => Ok(()),
        }
    }

    /// Shows the progress of a query, and its changes, until it has taken in everything; tells it to stop on request,
    /// or if it has met a row that ends it.
    fn watch(
        &self,
        running: &RunningQuery,
        live: &mut Live,
        mut changing: Option<&mut Changing>,
    ) -> anyhow::Result<Watched> {
        let mut watched = Watched::Ended;
        let mut is_refused = false;
        let mut notices = Notices::default();
        while !running.has_ended() && watched != Watched::Abandoned {
            let was_stopped = watched == Watched::Stopped;
            if (!was_stopped || self.interrupt.stays()) && self.interrupt.is_asked() {
                watched = if was_stopped { Watched::Abandoned } else { Watched::Stopped };
                running.stop();
            }
            let is_against = |status: &QueryStatus| summary::is_against_strict(status);
            if self.strict && !is_refused && running.status().as_ref().is_some_and(is_against) {
                is_refused = true;
                running.stop();
            }
            if let Some(changing) = &mut changing
                && !changing.look()?
            {
                return Ok(Watched::Unread);
            }
            live.look(|| running.status());
            notices.look(live, || running.status());
            thread::sleep(Live::LOOK);
        }
        live.end();
        if let Some(changing) = changing {
            changing.clear()?;
        }
        Ok(watched)
    }

    /// Waits for the remaining work of a query; `None` if nobody needs it any more, or its reader has gone.
    fn finish(&self, running: RunningQuery, watched: Watched) -> anyhow::Result<(Exit, Option<QueryEnd>)> {
        let exit = if watched == Watched::Ended { Exit::Done } else { Exit::Interrupted };
        let left = match watched {
            Watched::Unread => return Ok((Exit::Done, None)),
            Watched::Abandoned => None,
            _ if self.interrupt.stays() => self.wait_at_prompt(running),
            _ => Some(running.wait()),
        };
        match left {
            None => {
                terminal::tell("ended at once; what was not answered by then is lost");
                Ok((Exit::Interrupted, None))
            }
            Some(Ok(left)) => {
                if exit == Exit::Interrupted {
                    terminal::tell("interrupted; what was taken in by then is answered");
                }
                Ok((exit, Some(left)))
            }
            // The reader of the rows has seen enough.
            Some(Err(cause)) if is_output_closed(&cause) => Ok((Exit::Done, None)),
            Some(Err(cause)) => Err(Failed(cause).into()),
        }
    }

    /// Waits on a separate thread, so that the prompt can return before the end; `None` if it was asked to.
    fn wait_at_prompt(&self, running: RunningQuery) -> Option<Result<QueryEnd, Cause>> {
        let waiting = thread::spawn(move || running.wait());
        while !waiting.is_finished() {
            if self.interrupt.is_asked() {
                return None;
            }
            thread::sleep(Duration::from_millis(1));
        }
        Some(waiting.join().unwrap_or_else(|_| Err(Cause::bug("the query's thread panicked"))))
    }
}
