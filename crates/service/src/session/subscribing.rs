//! `SUBSCRIBE`: which view a session follows.

use tidemill_engine::arrow::schema::SchemaRef;
use tidemill_sql::{Name, Problem, Statement, ViewHandle, closest};

use crate::runtime::gateway_changes::{GatewayChanges, schema_of};
use crate::runtime::subscription::Subscription;
use crate::{Error, Runtime, Session};

/// Follows the view that a statement names.
pub(super) fn subscribe(
    session: &Session,
    name: &Name,
    statement: &Statement,
) -> Result<Subscription, Error> {
    let (runtime, cancellation) = (session.runtime(), session.cancellation());
    let catalog = runtime.catalog();
    if let Some(view) = catalog.gateway_rows(name.as_str()) {
        let names = catalog.gateways_of(name.as_str());
        let held = session.unread_rows();
        return Ok(GatewayChanges::subscription(runtime, (view.clone(), names), held, cancellation));
    }
    Ok(Subscription::here(runtime, subscribed(runtime, name, statement)?, cancellation))
}

/// The columns of the changes of the view that a statement names.
pub(super) fn columns(runtime: &Runtime, name: &Name, statement: &Statement) -> Result<SchemaRef, Error> {
    match runtime.catalog().gateway_rows(name.as_str()) {
        Some(view) => Ok(schema_of(view)),
        None => Ok(SchemaRef::clone(subscribed(runtime, name, statement)?.changes().schema())),
    }
}

/// The view of this process that a statement subscribes to.
fn subscribed(runtime: &Runtime, name: &Name, statement: &Statement) -> Result<ViewHandle, Error> {
    if let Some(view) = runtime.running_view(name.as_str()) {
        return Ok(view);
    }
    if let Some(why) = runtime.why_not_running(name.as_str()) {
        let message = format!("`{name}` has no changes to follow: {why}");
        return Err(statement.error(name.span, message).into());
    }
    let names = runtime.catalog().names();
    if names.iter().any(|known| known == name.as_str()) {
        let message =
            format!("`{name}` is not a materialized view that runs, so it has no changes to follow");
        let error = statement.error(name.span, message);
        let hint = "keep its rows: CREATE MATERIALIZED VIEW name AS SELECT ...; SUBSCRIBE TO name";
        return Err(error.with_hint(hint).into());
    }
    let error = statement.error(name.span, format!("there is no view `{name}`"));
    let mut error = match closest(name.as_str(), names.iter().map(String::as_str)) {
        Some(meant) => error.with_hint(format!("did you mean {meant}?")),
        None => error.with_hint("SHOW VIEWS"),
    };
    error.problem = Problem::UnknownRelation;
    Err(error.into())
}
