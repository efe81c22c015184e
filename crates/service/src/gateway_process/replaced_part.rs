//! A part of a view takes the place of another one, if the server says that it counts at all gateways.

use std::sync::Arc;

use tidemill_engine::Cause;
use tidemill_sql::{Definition, Settings, Statement, parse};

use super::server_link::{Decision, ServerLink};
use crate::gateways::{Answer, Replacement};
use crate::{Runtime, Session};

/// The statement of the definition that is due.
pub(super) fn next_statement(runtime: &Runtime, definition: &Definition) -> Result<Statement, Cause> {
    let version = definition.version;
    let due = runtime.defined_catalog().version() + 1;
    if version != due {
        return Err(Cause::bug(format!("definition {version} comes where definition {due} is due")));
    }
    let statements = parse(&definition.statement, &format!("definition {version}"))?;
    let defines = statements.into_iter().find(|statement| statement.kind.is_definition());
    defines.ok_or_else(|| Cause::bug(format!("definition {version} defines nothing")))
}

/// Whether a part keeps its state under a definition.
pub(super) fn keeps_state(runtime: &Runtime, definition: &Arc<Definition>) -> Result<bool, Cause> {
    let statement = next_statement(runtime, definition)?;
    let mut session = Session::new(runtime);
    session.settings_mut().idle_after = definition.idle_after;
    if session.replaces(&statement).is_none() {
        return Err(Cause::operation("no query was started there that could be replaced"));
    }
    Ok(session.lifecycle().keeps_state(&statement)?)
}

/// Replaces a part and answers. If that fails after it counts, the process ends: it begins again with the new definition.
/// If the server is gone before it has said whether it counts, it may have written to its log that it does. Then `end` ends the
/// process: when that begins again, it continues with the part that the log names, and removes the other one.
pub(super) fn replace(
    runtime: &Runtime,
    replacement: &Replacement,
    server: &ServerLink,
    end: fn(),
) -> Result<(), Cause> {
    let mut session = session_of(runtime, replacement)?;
    let cancellation = session.cancellation();
    let cancel = move || cancellation.request();
    let (replaced, asked) = server.replace(cancel, end, || replaced(&mut session, runtime, replacement));
    match (replaced, asked) {
        // The server knows it already.
        (_, Decision::NotAsked) => Ok(()),
        (Ok(text), Decision::Taken { .. }) => Ok(server.send(&Answer::Said(text))?),
        (Err(cause), Decision::Taken { counts }) => {
            server.send(&Answer::Failed(cause.clone()))?;
            if counts { Err(cause) } else { Ok(()) }
        }
    }
}

fn session_of(runtime: &Runtime, replacement: &Replacement) -> Result<Session, Cause> {
    let (query, defaults) = (&replacement.query, runtime.defaults());
    let mut session = Session::new(runtime);
    *session.settings_mut() = Settings {
        journal: defaults.journal.clone(),
        idle_after: replacement.definition.idle_after,
        ..Settings::decode(&query.settings, defaults)?
    };
    session.set_strict(query.is_strict);
    Ok(session)
}

fn replaced(session: &mut Session, runtime: &Runtime, replacement: &Replacement) -> Result<String, Cause> {
    let name = &replacement.query.name;
    let statement = next_statement(runtime, &replacement.definition)?;
    if replacement.stays_stopped {
        session.lifecycle().redefine_stopped(&statement, name)?;
        return Ok(format!("'{name}' keeps its state and its rows, and stays stopped"));
    }
    let inherited = if replacement.fills {
        session.lifecycle().replace_by_filling(&statement)
    } else {
        session.replace(&statement)
    };
    Ok(inherited?.describe(name))
}
