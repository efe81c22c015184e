//! What clients of PostgreSQL read of sessions, and how they end them.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use tidemill_engine::arrow::array::cast::AsArray;
use tidemill_engine::arrow::array::types::Int64Type;
use tidemill_engine::arrow::array::{ArrayRef, BooleanArray, TimestampMicrosecondArray};
use tidemill_engine::arrow::schema::{DataType, TimeUnit};
use tidemill_sql::Planner;

use super::functions::{numbers, texts};
use super::relations::Relations;
use super::table::CellKind::{Flag, Moment, Number, Text};
use super::table::{Cell, Table};
use crate::sessions::activity::{Activity, Ending};
use crate::sessions::directory::Sessions;

/// The functions that there are.
pub(super) const NAMES: [&str; 7] = [
    "inet_client_addr",
    "inet_client_port",
    "inet_server_addr",
    "inet_server_port",
    "pg_backend_pid",
    "pg_cancel_backend",
    "pg_terminate_backend",
];

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
            activity.client().as_str().into(),
            i64::from(activity.client_address.port()).into(),
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
            ("client_port", Number),
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

/// `pg_stat_ssl` or `pg_stat_gssapi`: how the connections of the sessions are protected.
pub(super) fn encryption(sessions: &Sessions, name: &str) -> Table {
    let is_of_tls = name == "pg_stat_ssl";
    let row = |activity: Activity| {
        let process = i64::from(activity.process).into();
        if is_of_tls {
            vec![process, activity.is_encrypted.into()]
        } else {
            vec![process, false.into(), false.into()]
        }
    };
    Table {
        columns: if is_of_tls {
            &[("pid", Number), ("ssl", Flag)]
        } else {
            &[("pid", Number), ("gss_authenticated", Flag), ("encrypted", Flag)]
        },
        values: sessions.connections.activities().into_iter().map(row).collect(),
    }
}

/// Registers the functions that say between which addresses the session's connection is.
fn register_addresses(planner: &mut Planner, sessions: &Sessions) {
    let own = sessions.connections.activities().into_iter().find(|one| one.process == sessions.own);
    let (client, server) = own.map(|own| (own.client_address, own.server_address)).unzip();
    for (side, address) in [("client", client), ("server", server)] {
        let text = address.map(|address| address.ip().to_canonical().to_string());
        planner.register_function(&format!("inet_{side}_addr"), vec![], DataType::Utf8, move |_| {
            Ok(texts([text.clone()]))
        });
        let port = address.map(|address| i64::from(address.port()));
        planner.register_function(&format!("inet_{side}_port"), vec![], DataType::Int64, move |_| {
            Ok(numbers([port]))
        });
    }
}

/// Registers the functions.
pub(super) fn register(planner: &mut Planner, sessions: &Sessions) {
    register_addresses(planner, sessions);
    let began =
        sessions.connections.began().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros() as i64;
    let moment = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    for name in ["pg_postmaster_start_time", "pg_conf_load_time"] {
        planner.register_function(name, vec![], moment.clone(), move |_| {
            Ok(Arc::new(TimestampMicrosecondArray::from(vec![began]).with_timezone("UTC")) as ArrayRef)
        });
    }
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
