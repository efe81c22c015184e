//! What a definition makes run: whoever has no prompt at which one says start runs each definition under its own name.

use tidemill_engine::Cause;
use tidemill_sql::{SinkInput, Statement, StatementKind};

use crate::{Error, QueryState, Session};

/// Runs what a session defines.
pub(super) struct DefinitionRunner<'a>(pub &'a mut Session);

impl DefinitionRunner<'_> {
    /// Starts what a definition has added, and ends what it has replaced or dropped.
    pub fn follow(mut self, statement: &Statement) -> Result<(), Error> {
        match &statement.kind {
            StatementKind::CreateMaterializedView(view) => self.start(view.name.as_str()),
            StatementKind::CreateSink(sink) if has_input(sink.input.as_ref()) => {
                self.start(sink.name.as_str())
            }
            StatementKind::InsertInto { sink, .. } => self.start(sink.as_str()),
            StatementKind::Drop { name, .. } => Ok(end(self.0, name.as_str())?),
            _ => Ok(()),
        }
    }

    fn start(&mut self, name: &str) -> Result<(), Error> {
        let session = &mut *self.0;
        let not_running = |why: Error| Error::NotRunning { name: name.to_owned(), why: Box::new(why) };
        if session.runtime().is_at_gateways(name) {
            return session.start_at_gateways(name).map_err(|cause| not_running(cause.into()));
        }
        let started = session.pipeline_by_itself(name).and_then(|pipeline| {
            end(session, name)?;
            Ok(session.runtime().start(name, pipeline, session.is_strict())?)
        });
        if let Err(error) = &started {
            session.runtime().withdraw(name, &error.message())?;
        }
        started.map_err(not_running)
    }
}

/// Ends the query of this name, if there is one.
fn end(session: &Session, name: &str) -> Result<(), Cause> {
    let runtime = session.runtime();
    match runtime.state(name) {
        Ok(QueryState::Running | QueryState::Ending) => {
            runtime.abandon(name)?;
            runtime.forget(name)
        }
        Ok(QueryState::Ended | QueryState::Stopped | QueryState::Failed) => runtime.forget(name),
        Err(_) => Ok(()),
    }
}

fn has_input(input: Option<&SinkInput>) -> bool {
    match input {
        Some(SinkInput::Query(_) | SinkInput::Relation(_)) => true,
        None => false,
    }
}
