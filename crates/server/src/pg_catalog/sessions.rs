//! What clients of PostgreSQL read of sessions, and how they end them.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use tidemill_engine::arrow::array::cast::AsArray;
use tidemill_engine::arrow::array::types::Int64Type;
use tidemill_engine::arrow::array::{ArrayRef, BooleanArray};
use tidemill_engine::arrow::schema::DataType;
use tidemill_sql::Planner;

use super::functions::numbers;
use super::relations::Relations;
use super::table::CellKind::{Moment, Number, Text};
use super::table::{Cell, Table};
use crate::activity::{Activity, Ending};
use crate::sessions::Sessions;

/// The relations and functions that there are.
pub(super) const NAMES: [&str; 4] =
    ["pg_backend_pid", "pg_cancel_backend", "pg_stat_activity", "pg_terminate_backend"];

/// `pg_stat_activity`. A session sees what others of its user execute; an owner sees all.
pub(super) fn activity(sessions: &Sessions, relations: &Relations) -> Table {
    let moment = |time: SystemTime| {
        Cell::Moment(time.duration_since(UNIX_EPOCH).unwrap_or_default().as_micros() as i64)
    };
    let row = |activity: Activity| {
        vec![
            1_i64.into(),
            "tidemill".into(),
            i64::from(activity.process).into(),
            relations.number_of(&activity.user).into(),
            activity.user.as_str().into(),
            activity.application.as_str().into(),
            activity.client.as_str().into(),
            moment(activity.began),
            moment(activity.since),
            moment(activity.since),
            activity.state().into(),
            sessions.statement_of(&activity).as_str().into(),
            "client backend".into(),
        ]
    };
    Table {
        columns: &[
            ("datid", Number),
            ("datname", Text),
            ("pid", Number),
            ("usesysid", Number),
            ("usename", Text),
            ("application_name", Text),
            ("client_addr", Text),
            ("backend_start", Moment),
            ("query_start", Moment),
            ("state_change", Moment),
            ("state", Text),
            ("query", Text),
            ("backend_type", Text),
        ],
        values: sessions.connections.activities().into_iter().map(row).collect(),
    }
}

/// Registers the functions.
pub(super) fn register(planner: &mut Planner, sessions: &Sessions) {
    let own = i64::from(sessions.own);
    planner.register_function("pg_backend_pid", vec![], DataType::Int64, move |_| Ok(numbers([Some(own)])));
    for (name, ending) in
        [("pg_cancel_backend", Ending::Statement), ("pg_terminate_backend", Ending::Session)]
    {
        let sessions = sessions.clone();
        planner.register_function(name, vec![DataType::Int64], DataType::Boolean, move |arguments| {
            let processes = arguments[0].as_primitive::<Int64Type>().iter();
            let ended =
                processes.map(|process| process.map(|process| sessions.end(process, ending)).transpose());
            Ok(Arc::new(ended.collect::<Result<BooleanArray, _>>()?) as ArrayRef)
        });
    }
}
