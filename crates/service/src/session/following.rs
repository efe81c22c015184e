//! What a definition makes run: whoever has no prompt at which one says start runs each definition under its own name.

use tidemill_engine::Cause;
use tidemill_sql::{Statement, StatementKind};

use crate::{Error, QueryState, Session};

/// Starts what a definition has added, and ends what it has replaced or dropped.
pub(super) fn follow(session: &mut Session, statement: &Statement) -> Result<(), Error> {
    match &statement.kind {
        StatementKind::CreateMaterializedView(view) => start(session, view.name.as_str()),
        StatementKind::CreateSink(sink) if sink.input.is_some() => start(session, sink.name.as_str()),
        StatementKind::InsertInto { sink, .. } => start(session, sink.as_str()),
        StatementKind::Drop { name, .. } => Ok(end(session, name.as_str())?),
        _ => Ok(()),
    }
}

fn start(session: &mut Session, name: &str) -> Result<(), Error> {
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
