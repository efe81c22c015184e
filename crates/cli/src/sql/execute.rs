//! Executing statements: definitions, answers at once, and queries from start to end with their rows on standard
//! output.

use std::io::{self, IsTerminal};
use std::thread;
use std::time::{Duration, Instant};

use tidemill_connect::sinks::is_output_closed;
use tidemill_engine::Cause;
use tidemill_engine::arrow::array::RecordBatch;
use tidemill_sql::{Prepared, QueryStatus, Reply, RunningQuery, Session, Statement, StatementKind};

use super::background::Background;
use super::counted::Counted;
use super::live::Live;
use super::rows::RowFormat;
use super::{Failed, script, summary, user_error};
use crate::exit::Exit;
use crate::interrupt::Interrupt;
use crate::{quantity, terminal};

/// Where statements come from, and so what is said besides the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// A script for `tidemill run`: definitions pass in silence.
    Script,
    /// `-c`, `-f` or a pipe: what was defined is said.
    Command,
    /// A prompt: how long it took is said, too.
    Prompt,
}

/// A session, and how what it does is shown.
pub(crate) struct Executor {
    pub session: Session,
    pub format: RowFormat,
    pub interrupt: Interrupt,
    pub manner: Manner,
    /// What runs meanwhile.
    pub background: Option<Background>,
}

/// How watching a query ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Watched {
    /// By itself.
    Ended,
    /// Its sources were told to stop.
    Stopped,
    /// Nobody waits for what it has left.
    Abandoned,
}

/// What a query leaves: its last status, and its answer if that comes at the end.
pub(crate) type Left = (QueryStatus, Option<RecordBatch>);

impl Executor {
    /// Starts the sinks and materialized views in the background.
    pub fn start(&mut self) -> anyhow::Result<Exit> {
        self.check_background(true)?;
        self.background = Some(Background::start(&mut self.session)?);
        Ok(Exit::Done)
    }

    /// Ends what runs in the background.
    pub fn stop(&mut self) -> anyhow::Result<Exit> {
        match self.background.take() {
            Some(background) => background.end(|| self.interrupt.is_asked()).map(|()| Exit::Done),
            None => Err(user_error("nothing runs in the background; \\start starts it".into())),
        }
    }

    /// Says what has become of a pipeline that has ended by itself; an error if one runs and none `may` run.
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

    /// Executes a statement and shows what comes of it.
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

    /// At a prompt: how many rows there were and how long they took.
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
        let sinks =
            prepared.outputs().iter().map(|output| Ok(counted.sink(self.format.sink(&output.schema)?)));
        let sinks = sinks.collect::<anyhow::Result<Vec<_>>>()?;
        let running = prepared.start(sinks).map_err(Failed)?;
        let watched = self.watch(&running, &mut Live::of_query(streams));
        let (exit, left) = self.finish(running, watched)?;
        let Some((status, answer)) = left else { return Ok(exit) };
        if let Some(rows) = &answer {
            self.format.show(rows)?;
        }
        self.took(answer.map_or(counted.rows(), |rows| rows.num_rows() as u64), start);
        match bound {
            Some(_) => summary::whole(&status, bound),
            None => summary::left_out(&status),
        }
        Ok(exit)
    }

    /// Runs a query without showing its rows, and describes what was measured.
    fn analyze(&self, prepared: Prepared) -> anyhow::Result<Exit> {
        let bound = prepared.max_latency();
        let explained = prepared.explained();
        let discard = |_| Box::new(tidemill_sql::Discard) as Box<dyn tidemill_engine::Sink>;
        let sinks = prepared.outputs().iter().map(discard).collect();
        let running = prepared.start(sinks).map_err(Failed)?;
        let watched = self.watch(&running, &mut Live::of_query(false));
        let (exit, left) = self.finish(running, watched)?;
        if let Some((status, _)) = left {
            terminal::show(explained.with(&status).trim_end())?;
            summary::whole(&status, bound);
        }
        Ok(exit)
    }

    /// Runs the sinks and materialized views of the session until their end; `None` if there are none.
    pub fn pipeline(&self) -> anyhow::Result<Option<Exit>> {
        let Some((prepared, sinks)) = self.session.pipeline().map_err(Failed)? else { return Ok(None) };
        let bound = prepared.max_latency();
        let names: Vec<&str> = prepared.outputs().iter().map(|output| output.name.as_str()).collect();
        let journal = prepared.journal().map(|folder| format!(", journal in {}", folder.display()));
        let journal = journal.unwrap_or_default();
        terminal::tell(&format!("running {}{journal}; Ctrl-C ends it in order", names.join(", ")));
        let running = prepared.start(sinks).map_err(Failed)?;
        if let Some(recovered) = running.recovered() {
            summary::recovered(recovered);
        }
        let watched = self.watch(&running, &mut Live::of_pipeline(self.session.writes_to_standard_output()));
        let (exit, left) = self.finish(running, watched)?;
        if let Some((status, _)) = left {
            summary::whole(&status, bound);
        }
        Ok(Some(exit))
    }

    /// Shows how far a query is until it has taken in all that it will; tells it to stop if that is asked for.
    fn watch(&self, running: &RunningQuery, live: &mut Live) -> Watched {
        let mut watched = Watched::Ended;
        while !running.has_ended() && watched != Watched::Abandoned {
            let was_stopped = watched == Watched::Stopped;
            if (!was_stopped || self.interrupt.stays()) && self.interrupt.is_asked() {
                watched = if was_stopped { Watched::Abandoned } else { Watched::Stopped };
                running.stop();
            }
            live.look(|| running.status());
            thread::sleep(Live::LOOK);
        }
        live.end();
        watched
    }

    /// Waits for what a query has left to do; `None` if nobody wants it any more, or its reader has gone.
    fn finish(&self, running: RunningQuery, watched: Watched) -> anyhow::Result<(Exit, Option<Left>)> {
        let exit = if watched == Watched::Ended { Exit::Done } else { Exit::Interrupted };
        let left = match watched {
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
            // Who reads the rows has seen enough.
            Some(Err(cause)) if is_output_closed(&cause) => Ok((Exit::Done, None)),
            Some(Err(cause)) => Err(Failed(cause).into()),
        }
    }

    /// Waits on a thread of its own, so that the prompt can come back before the end; `None` if it was asked to.
    fn wait_at_prompt(&self, running: RunningQuery) -> Option<Result<Left, Cause>> {
        let waiting = thread::spawn(move || running.wait());
        while !waiting.is_finished() {
            if self.interrupt.is_asked() {
                return None;
            }
            thread::sleep(Duration::from_millis(1));
        }
        Some(waiting.join().unwrap_or_else(|_| Err(Cause::Bug("the query's thread panicked".into()))))
    }
}

/// Whether rows on standard output and a line that changes would write over each other.
pub(crate) fn shares_terminal() -> bool {
    io::stdout().is_terminal() && io::stderr().is_terminal()
}
