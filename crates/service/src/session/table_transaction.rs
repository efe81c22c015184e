//! The tables that a session's transaction changes.

use std::sync::Arc;
use std::time::Duration;

use tidemill_engine::Cause;
use tidemill_sql::{Catalog, ClientTable};

use crate::Runtime;
use crate::error::Error;
use crate::lifecycle::table_contents::{as_changes, give_together, read_rows, wait_for_view};
use crate::tables::{TableLock, TableRows, Tables, of_arrow};

/// The tables that a session's transaction changes.
pub(crate) struct TableTransaction {
    tables: Arc<Tables>,
    owner: u64,
    changed: Vec<ChangedTable>,
    /// The last cycle that has changes of this session.
    pub own_cycle: Option<u64>,
    /// How long it waits for another transaction.
    pub lock_time_max: Option<Duration>,
}

struct ChangedTable {
    table: ClientTable,
    lock: TableLock,
}

impl ChangedTable {
    fn rows(&mut self) -> Result<&mut TableRows, Cause> {
        self.lock.rows.as_mut().ok_or_else(|| Cause::bug("the rows of a table that is changed are not there"))
    }
}

/// A point of a transaction to which its changes of tables can return.
#[derive(Clone, Debug, Default)]
pub struct TableSavepoint(Vec<usize>);

impl TableTransaction {
    pub fn new(tables: &Arc<Tables>) -> TableTransaction {
        let (tables, owner) = (Arc::clone(tables), tables.new_owner());
        TableTransaction { tables, owner, changed: Vec::new(), own_cycle: None, lock_time_max: None }
    }

    /// Whether it has a table.
    pub fn has_any(&self) -> bool {
        !self.changed.is_empty()
    }

    /// Whether the transaction has this table already.
    pub fn has(&self, table: &ClientTable) -> bool {
        self.changed.iter().any(|changed| changed.table.target.is(&table.target))
    }

    /// Takes a table, once nobody else changes it. Returns its place among those of the transaction.
    pub fn take(
        &mut self,
        runtime: &Runtime,
        table: &ClientTable,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<usize, Error> {
        let known = self.changed.iter().position(|changed| changed.table.target.is(&table.target));
        if let Some(known) = known {
            return Ok(known);
        }
        let mut lock = self.tables.lock(self.owner, &table.target, goes_on, self.lock_time_max)?;
        if lock.rows.is_none() {
            lock.rows = Some(read_rows(runtime, table, goes_on)?);
        }
        self.changed.push(ChangedTable { table: table.clone(), lock });
        Ok(self.changed.len() - 1)
    }

    /// The rows of a table that it has.
    pub fn rows(&mut self, place: usize) -> Result<&mut TableRows, Cause> {
        self.changed[place].rows()
    }

    /// Lets queries read the tables as the transaction has changed them.
    pub fn attach(&mut self, catalog: &mut Catalog) -> Result<(), Cause> {
        for changed in &mut self.changed {
            let columns = Arc::clone(&changed.table.shape.columns);
            let own: Vec<usize> = (0..columns.fields().len()).collect();
            let name = changed.table.name.clone();
            let batches = changed.rows()?.numbered()?;
            let batches = batches.iter().map(|rows| rows.project(&own)).collect::<Result<Vec<_>, _>>();
            let batches = batches.map_err(of_arrow)?;
            catalog.attach_batches(&name, columns, batches);
        }
        Ok(())
    }

    /// The point where the transaction is.
    pub fn savepoint(&self) -> TableSavepoint {
        let steps = |changed: &ChangedTable| changed.lock.rows.as_ref().map_or(0, TableRows::steps);
        TableSavepoint(self.changed.iter().map(steps).collect())
    }

    /// Undoes what it has done since a point. It keeps the tables.
    pub fn return_to(&mut self, point: &TableSavepoint) -> Result<(), Error> {
        for (place, changed) in self.changed.iter_mut().enumerate() {
            let undone = changed.rows()?.undo(point.0.get(place).copied().unwrap_or(0));
            if undone.is_err() {
                changed.lock.rows = None;
                undone?;
            }
        }
        Ok(())
    }

    /// Undoes everything, and lets others change the tables.
    pub fn roll_back(&mut self) {
        for mut changed in self.changed.drain(..) {
            if let Some(rows) = &mut changed.lock.rows
                && rows.undo(0).is_err()
            {
                changed.lock.rows = None;
            }
        }
    }

    /// Gives the changes to the sources of the tables, and waits until they are in a cycle and as durable as promised. All of them are, or
    /// none. Then it waits until the tables have them, so that a query of any session finds them.
    pub fn commit(&mut self, runtime: &Runtime) -> Result<(), Error> {
        let changed = std::mem::take(&mut self.changed);
        let (mut changed, unchanged): (Vec<_>, Vec<_>) = changed
            .into_iter()
            .partition(|changed| changed.lock.rows.as_ref().is_some_and(|rows| rows.steps() > 0));
        drop(unchanged);
        if changed.is_empty() {
            return Ok(());
        }
        match give(runtime, &mut changed) {
            Ok(cycle) => {
                self.own_cycle = Some(cycle);
                for changed in &mut changed {
                    if let Some(rows) = &mut changed.lock.rows
                        && rows.commit().is_err()
                    {
                        changed.lock.rows = None;
                    }
                }
                let names: Vec<String> = changed.iter().map(|changed| changed.table.name.clone()).collect();
                drop(changed);
                for name in names {
                    // They are committed, whatever becomes of the view.
                    let _ = wait_for_view(runtime, &name, Some(cycle), &|| !runtime.is_closing());
                }
                Ok(())
            }
            Err(error) => {
                // What their views have is read again.
                changed.iter_mut().for_each(|changed| changed.lock.rows = None);
                Err(error)
            }
        }
    }
}

impl Drop for TableTransaction {
    fn drop(&mut self) {
        self.roll_back();
    }
}

fn give(runtime: &Runtime, changed: &mut [ChangedTable]) -> Result<u64, Error> {
    let mut all = Vec::new();
    for changed in changed.iter_mut() {
        let target = changed.table.target.clone();
        let changes = changed.rows()?.changes()?;
        let batches = changes.iter().map(|(rows, weight)| as_changes(rows, *weight, None, &target));
        all.push((target.clone(), batches.collect::<Result<Vec<_>, _>>()?));
    }
    give_together(runtime, &all)
}
