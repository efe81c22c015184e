//! `EXPLAIN WHY`: the rows of the sources that make an answer over a materialized view.

use std::sync::Arc;

use tidemill_engine::{Cause, Past};
use tidemill_sql::{Statement, Turns as _, WhyQuestion, why};

use crate::runtime::past_query::past_of_started;
use crate::runtime::query::NamedQuery;
use crate::runtime::readers::planning;
use crate::{Error, Reply, Runtime, Session};

/// After how many replays a search ends.
const REPLAYS_MAX: usize = 2_000;

/// Explains the answer of a query: by replays of the query that keeps the view which it reads, while that continues.
pub(super) fn explain_why(session: &mut Session, query: &Statement) -> Result<Reply, Error> {
    drop(session.stopped_views(query)?);
    let turns = Arc::clone(&session.turns);
    let _planning = planning(&turns, query)?;
    session.refresh();
    let runtime = session.runtime().clone();
    let named = the_query(&runtime, query)?;
    let journal = runtime.clock().journal_folder().ok_or_else(not_durable)?.to_owned();
    let (catalog, started) = (runtime.defined_catalog(), &named.identity.kept);
    let open = || {
        let (pipeline, folder) =
            past_of_started(catalog.clone(), runtime.defaults(), &journal, &started.name, Some(started))?;
        Ok((pipeline, Past::open(&folder)?))
    };
    let witness = why(&WhyQuestion {
        open: &open,
        planner: &session.planner,
        query,
        last: None,
        replays_max: REPLAYS_MAX,
        progress: &|_, _| turns.go_on(),
    })?;
    // In the journal, a source has its name and the version of the catalogue that defined it.
    let name_of = |stream: &str| stream.rsplit_once('-').map_or(stream, |(name, _)| name).to_owned();
    Ok(Reply::Rows(witness.shown(&journal, name_of)?))
}

/// The query that keeps the view which a query reads: one that it names, or one that the views which it names read.
fn the_query(runtime: &Runtime, query: &Statement) -> Result<Arc<NamedQuery>, Cause> {
    let running = runtime.running();
    let of_names = |names: &dyn Fn(&String) -> bool| -> Vec<&Arc<NamedQuery>> {
        running.iter().filter(|named| named.outputs().iter().any(names)).collect()
    };
    let named = query.possible_relations();
    let mut found = of_names(&|output| named.contains(output));
    if found.is_empty() {
        let read = runtime.defined_catalog().read_by(query);
        found = of_names(&|output| read.contains(output));
    }
    match found[..] {
        [only] => Ok(Arc::clone(only)),
        [] => Err(Cause::user(
            "the query reads no materialized view that runs, so no past made its answer; CREATE MATERIALIZED VIEW \
             keeps one",
        )),
        [first, second, ..] => Err(Cause::user(format!(
            "the query reads what '{}' and '{}' keep; ask for one of them at a time",
            first.identity.kept.name, second.identity.kept.name
        ))),
    }
}

fn not_durable() -> Cause {
    Cause::user(
        "the database has no journal, so the rows that made the answer are not kept; `tidemill serve --data` has one",
    )
}
