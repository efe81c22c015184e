//! The catalogue as clients of PostgreSQL read it: relations and functions of `pg_catalog` and `information_schema`, built
//! from the catalogue whenever a query names one of them.

mod defined_functions;
mod functions;
mod indexes;
mod key_functions;
mod numbers;
mod parsed_names;
mod procedures;
mod relations;
mod sessions;
mod table;
mod without_rows;

use tidemill_service::Session;
use tidemill_sql::{Planner, Statement};

use self::relations::Relations;
use crate::session_settings::SessionSettings;
use crate::sessions::Sessions;

/// Whether a statement names something of PostgreSQL's catalogue.
pub(crate) fn is_named_in(statement: &Statement) -> bool {
    names_any(&statement.names())
}

fn names_any(names: &[String]) -> bool {
    let known = relations::NAMES.into_iter().chain(sessions::NAMES).chain(functions::NAMES);
    known.chain(without_rows::names()).any(|name| names.iter().any(|named| named == name))
}

/// A planner for a statement that names something of PostgreSQL's catalogue; `None` if it does not.
pub(crate) fn planner(
    session: &mut Session,
    settings: &SessionSettings,
    sessions: &Sessions,
    statement: &Statement,
) -> Option<Planner> {
    let names = statement.names();
    if !names_any(&names) {
        return None;
    }
    let is_named = |name: &str| names.iter().any(|named| named == name);
    let catalog = session.catalog();
    let mut relations = Relations::new(&catalog, session.runtime().users(), settings);
    relations.lists_materialized = !is_named("pg_attribute");
    let mut planner = Planner::at(catalog, session.settings().clone());
    planner.set_turns(session.turns());
    planner.set_opens_files(session.opens_files());
    for name in relations::NAMES.into_iter().chain(without_rows::names()).filter(|name| is_named(name)) {
        if let Some(table) = relations.table(name).or_else(|| without_rows::table(name)) {
            planner.add_table(name, table.rows());
        }
    }
    if is_named("pg_stat_activity") {
        planner.add_table("pg_stat_activity", sessions::activity(sessions, &relations).rows());
    }
    functions::register(&mut planner, &relations, settings);
    defined_functions::register(&mut planner, &relations.functions);
    sessions::register(&mut planner, sessions);
    key_functions::register(&mut planner, &relations);
    parsed_names::register(&mut planner);
    Some(planner)
}
