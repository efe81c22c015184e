//! Makes the next version of the catalogue, and ends what it drops.

use std::collections::BTreeSet;

use tidemill_engine::Cause;
use tidemill_sql::{Catalog, StatementKind};

use crate::Runtime;
use crate::catalog::record::StartedQuery;
use crate::error::Error;
use crate::runtime::entry::Entry;
use crate::runtime::is_starting;

impl Runtime {
    /// Makes the next version of the catalogue out of the newest one. It counts once its definitions are in the log. `plan`
    /// is called again if another session was faster. The `announced` query is to be started next.
    pub(crate) fn define<T>(
        &self,
        kind: &StatementKind,
        announced: Option<StartedQuery>,
        is_cancelled: &dyn Fn() -> bool,
        plan: impl FnMut(Catalog) -> Result<(T, Catalog), Error>,
    ) -> Result<T, Error> {
        let dropped = match kind {
            StatementKind::Drop { name, .. } => Some(name.as_str()),
            _ => None,
        };
        let _change = dropped.map(|name| self.changes().begin(name, "dropped")).transpose()?;
        // With `CASCADE`, there are others besides the one that is named.
        let mut outputs = BTreeSet::new();
        let check = |before: &Catalog, next: &Catalog| {
            let Some(name) = dropped else { return Ok(Vec::new()) };
            let left: BTreeSet<&str> = next.output_names().collect();
            outputs =
                before.output_names().filter(|output| !left.contains(output)).map(str::to_owned).collect();
            outputs.insert(name.to_owned());
            let ended = outputs.iter().map(|output| self.queries_that_end_with(output));
            ended.collect::<Result<Vec<_>, _>>().map(|ended| ended.concat())
        };
        // What reads a source that gets columns means what it meant.
        let keeps_views = matches!(kind, StatementKind::AddColumns(_));
        let (defined, ended) = self.catalog_store().define((announced, keeps_views), plan, check)?;
        for name in &ended {
            let entry = self.entries().remove(name);
            if let Some(Entry::Started(query)) = entry {
                query.abandon();
                self.clock().forget(query.clock_name());
            }
        }
        if dropped.is_some() {
            ended.iter().chain(&outputs).for_each(|query| self.remove_folder(query));
            self.remove_streams();
            outputs.iter().for_each(|dropped| self.follow_at_gateways(dropped, is_cancelled));
        }
        Ok(defined)
    }

    /// The queries that end if this sink or view is dropped: those that write to nothing else.
    fn queries_that_end_with(&self, output: &str) -> Result<Vec<String>, Cause> {
        let queries = self.entries();
        let mut ended = Vec::new();
        for (name, entry) in queries.iter() {
            match entry.outputs() {
                [only] if only == output => match entry {
                    Entry::Starting(_) => return Err(is_starting(name)),
                    Entry::Started(_) => ended.push(name.clone()),
                },
                outputs if outputs.iter().any(|other| other == output) && !entry.is_over() => {
                    return Err(Cause::user(format!(
                        "query '{name}' writes '{output}' together with others; stop that query first"
                    )));
                }
                _ => {}
            }
        }
        Ok(ended)
    }
}
