//! The rows that the materialized views of a query have which does not run.

use tidemill_engine::{Cause, inspect};

use crate::query::opened::{OpenJournal, view_sink};
use crate::query::pipeline::{OutputTarget, Pipeline};
use crate::query::retained::store_config;
use crate::query::view::ViewHandle;

impl Pipeline {
    /// The views of a durable query that does not run, with the rows that they had at its last snapshot; none of a query that
    /// has never run or keeps no rows. No sink and no source is opened.
    ///
    /// # Errors
    /// If the rows cannot be read, or a query runs that has the folder.
    ///
    /// ```
    /// use tidemill_sql::{Planner, parse};
    /// let mut planner = Planner::new();
    /// let view = "CREATE MATERIALIZED VIEW v AS SELECT value FROM sequence(rate => 1)";
    /// planner.execute(&parse(view, "example").unwrap()[0]).unwrap();
    /// assert!(planner.pipeline_of(&["v"]).unwrap().stopped_views().unwrap().is_empty());
    /// ```
    pub fn stopped_views(self) -> Result<Vec<ViewHandle>, Cause> {
        let Pipeline { prepared, targets, durable, .. } = self;
        let Some(durable) = durable else { return Ok(Vec::new()) };
        if !durable.folder.is_dir() || inspect::query(&durable.folder)?.is_none() {
            return Ok(Vec::new());
        }
        let journal = OpenJournal::open(durable)?;
        let mut views = Vec::new();
        for (output, target) in prepared.outputs.iter().zip(targets) {
            let OutputTarget::View(view) = target else { continue };
            let config = store_config(output, &view, &prepared.settings)?;
            let account = prepared.memory.account();
            let (_, store) = view_sink(config, (&output.name, account), None, Some(&journal))?;
            views.push(ViewHandle::new(&output.name, store, view));
        }
        Ok(views)
    }
}
