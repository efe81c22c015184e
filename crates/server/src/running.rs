//! What a definition makes run: a server has no prompt at which one says start.

use tidemill_engine::Cause;
use tidemill_service::{QueryState, Session};
use tidemill_sql::{SinkInput, Statement, StatementKind};

use crate::report::{Report, SUCCESSFUL};

/// Executes a statement that replaces what a query writes to that runs, and the query with it. Returns a notice for its client.
/// `None` if the statement replaces nothing that runs, so nothing was done.
pub(crate) fn replace(session: &mut Session, statement: &Statement) -> Option<Result<Report, Report>> {
    if session.replaces_at_gateways(statement) {
        let replaced = session.replace_at_gateways(statement).map_err(Report::from);
        return Some(replaced.map(|said| Report::notice(SUCCESSFUL, said)));
    }
    let name = session.replaces(statement)?;
    let replaced = session.replace(statement).map_err(Report::from);
    Some(replaced.map(|inherited| Report::notice(SUCCESSFUL, inherited.describe(name))))
}

/// Whether the client gets a notice of what a statement has done: what its query keeps, and what it misses.
pub(crate) fn is_told(kind: &StatementKind) -> bool {
    matches!(
        kind,
        StatementKind::Stop(_)
            | StatementKind::Start(_)
            | StatementKind::Alter(_)
            | StatementKind::AddColumns(_)
    )
}

/// Whether a statement drops more than it names. Its client is told what.
pub(crate) fn takes_others_along(kind: &StatementKind) -> bool {
    matches!(kind, StatementKind::Drop { cascade: true, .. })
}

/// Starts what a definition has added, under its name, and ends what it has replaced or dropped.
pub(crate) fn follow(session: &mut Session, statement: &Statement) -> Result<(), Report> {
    match &statement.kind {
        StatementKind::CreateMaterializedView(view) => start(session, view.name.as_str()),
        StatementKind::CreateSink(sink) if has_input(sink.input.as_ref()) => {
            start(session, sink.name.as_str())
        }
        StatementKind::InsertInto { sink, .. } => start(session, sink.as_str()),
        StatementKind::Drop { name, .. } => end(session, name.as_str()).map_err(Report::from),
        _ => Ok(()),
    }
}

fn has_input(input: Option<&SinkInput>) -> bool {
    match input {
        Some(SinkInput::Query(_) | SinkInput::Relation(_)) => true,
        None => false,
    }
}

fn start(session: &mut Session, name: &str) -> Result<(), Report> {
    if session.runtime().is_at_gateways(name) {
        return session.start_at_gateways(name).map_err(|cause| defined_only(name, Report::from(cause)));
    }
    let pipeline = session.pipeline_by_itself(name).map_err(Report::from);
    let started = pipeline.and_then(|pipeline| {
        end(session, name)?;
        let is_strict = session.is_strict();
        session.runtime().start(name, pipeline, is_strict).map_err(Report::from)
    });
    if let Err(report) = &started {
        session.runtime().withdraw(name, &report.message)?;
    }
    started.map_err(|report| defined_only(name, report))
}

fn defined_only(name: &str, report: Report) -> Report {
    let message = format!("'{name}' is defined, but it is not running: {}", report.message);
    let hint = report.hint.unwrap_or_else(|| "START it once the cause is fixed, or DROP it".to_owned());
    Report { message, hint: Some(hint), ..report }
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
