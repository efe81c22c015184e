//! The catalogue as clients of PostgreSQL read it: relations and functions of `pg_catalog` and `information_schema`, built
//! from the catalogue whenever a query names one of them.

mod cell;
mod constant_functions;
mod defined_functions;
mod functions;
mod indexes;
mod information_schema;
mod key_functions;
mod numbers;
mod object_names;
mod open_statements;
mod parsed_names;
mod procedures;
mod relations;
mod sessions;
mod settings;
mod system_columns;
mod table;
mod types;
mod words;
mod zones;

use tidemill_service::Session;
use tidemill_sql::{Planner, Statement};

pub(crate) use self::open_statements::{OpenCursor, OpenPrepared, OpenStatements};
use self::relations::Relations;
use self::table::{Identity, Table};
use crate::postgres::session_settings::SessionSettings;
use crate::sessions::directory::Sessions;

/// Whether a statement names something of PostgreSQL's catalogue.
pub(crate) fn is_named_in(statement: &Statement) -> bool {
    names_any(&statement.names())
}

fn names_any(names: &[String]) -> bool {
    let is_function = |named: &String| {
        let known = functions::NAMES.into_iter().chain(sessions::NAMES).chain(object_names::NAMES);
        let known = known.chain(constant_functions::names());
        known.into_iter().any(|name| named == name)
    };
    names.iter().any(|named| system_columns::is_known(named) || is_function(named))
}

/// A planner for a statement that names something of PostgreSQL's catalogue; `None` if it does not.
pub(crate) fn planner(
    session: &mut Session,
    settings: &SessionSettings,
    sessions: &Sessions,
    open: &OpenStatements,
    statement: &Statement,
) -> Option<Planner> {
    let names = statement.names();
    if !names_any(&names) {
        return None;
    }
    let is_named = |name: &str| names.iter().any(|named| named == name);
    let catalog = session.catalog();
    let version = catalog.version() as i64;
    let mut relations = Relations::new(&catalog, session.runtime().users(), settings);
    if ["pg_get_viewdef", "pg_views", "pg_matviews", "information_schema_views"].into_iter().any(is_named) {
        relations.queries = catalog.queries_of_views();
    }
    relations.lists_materialized = !is_named("pg_attribute");
    let mut planner = Planner::at(catalog, session.settings().clone());
    planner.set_turns(session.turns());
    planner.set_opens_files(session.opens_files());
    let identity = Identity::asked(&statement.text, version);
    for name in names.iter().filter(|name| system_columns::is_known(name)) {
        let table = match name.as_str() {
            "pg_cursors" | "pg_prepared_statements" => open.table(name),
            "pg_stat_activity" => Some(sessions::activity(sessions, &relations)),
            "pg_stat_ssl" | "pg_stat_gssapi" => Some(sessions::encryption(sessions, name)),
            name => relations.table(name),
        };
        planner.add_table(name, table.unwrap_or(Table::EMPTY).rows(name, identity));
    }
    constant_functions::register(&mut planner);
    functions::register(&mut planner, &relations, settings, version);
    defined_functions::register(&mut planner, &relations.functions);
    sessions::register(&mut planner, sessions);
    key_functions::register(&mut planner, &relations);
    object_names::register(&mut planner, &relations);
    parsed_names::register(&mut planner);
    Some(planner)
}
