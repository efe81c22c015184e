//! Queries of a session that are executed again and again with other values (decision 0105).

use std::sync::Arc;

use tidemill_engine::arrow::schema::SchemaRef;
use tidemill_sql::{CachedPlan, Parameter, ParameterType, Planner, Statement, StatementKind};

use crate::catalog::plan_cache::Planned;
use crate::runtime::readers::planning;
use crate::{Error, Reply, Session};

impl Session {
    /// Executes a statement with values for its parameters. A query over tables and materialized views is planned once for all
    /// sessions, as long as the catalogue stays as it is.
    ///
    /// ```
    /// use tidemill_service::{Reply, Runtime, Session};
    /// use tidemill_sql::{Parameter, ParameterType, Planner, divide};
    /// let mut session = Session::new(&Runtime::new(Planner::new()));
    /// let statement = divide("SELECT $1 * 2 AS twice", "example").unwrap()[0].read().unwrap();
    /// for value in ["3", "4"] {
    ///     let value = Parameter { kind: ParameterType::BigInt, value: Some(value.to_owned()) };
    ///     let Ok(Reply::Rows(rows)) = session.execute_with(&statement, &[value]) else { panic!() };
    ///     assert_eq!(rows.num_rows(), 1);
    /// }
    /// ```
    ///
    /// # Errors
    /// The error, with its place.
    pub fn execute_with(&mut self, statement: &Statement, values: &[Parameter]) -> Result<Reply, Error> {
        if let StatementKind::Query(..) = statement.kind
            && let Some(reply) = self.answer_with(statement, values)?
        {
            return Ok(reply);
        }
        self.execute(&bound(statement, values)?)
    }

    /// What a query reads with values for its parameters, as EXPLAIN says it; `None`: it is planned each time.
    ///
    /// # Errors
    /// The error, with its place.
    pub fn explain_with(
        &mut self,
        statement: &Statement,
        values: &[Parameter],
    ) -> Result<Option<String>, Error> {
        let kinds = values.iter().map(|value| value.kind).collect();
        let Some(kept) = self.kept_plan(statement, kinds)? else { return Ok(None) };
        let turns = Arc::clone(&self.turns);
        let _planning = planning(&turns, statement)?;
        Ok(self.planner.explain_answer(&kept, statement, values).transpose()?)
    }

    /// The columns of the rows that a statement gives with values of these types; `None` if it gives no rows.
    ///
    /// # Errors
    /// The error, with its place.
    pub fn columns_with(
        &mut self,
        statement: &Statement,
        kinds: &[ParameterType],
    ) -> Result<Option<SchemaRef>, Error> {
        if let Some(kept) = self.kept_plan(statement, kinds.to_vec())? {
            return Ok(Some(Arc::clone(kept.columns())));
        }
        // What the columns are does not depend on the values.
        let values: Vec<Parameter> = kinds.iter().map(|kind| Parameter::null(*kind)).collect();
        self.columns(&bound(statement, &values)?)
    }

    /// The rows of a query whose plan is kept; `None`: it is to be planned with these values.
    fn answer_with(&mut self, statement: &Statement, values: &[Parameter]) -> Result<Option<Reply>, Error> {
        let kinds = values.iter().map(|value| value.kind).collect();
        let Some(kept) = self.kept_plan(statement, kinds)? else { return Ok(None) };
        drop(self.stopped_views(statement)?);
        self.wait_for_own_changes(statement)?;
        let turns = Arc::clone(&self.turns);
        let _planning = planning(&turns, statement)?;
        let answer = self.planner.answer(&kept, statement, values);
        answer.transpose()?.map(|planned| self.reply(planned)).transpose()
    }

    /// The plan of a query against the version of the catalogue that its next query reads; `None`: it is to be planned each time.
    fn kept_plan(
        &mut self,
        statement: &Statement,
        kinds: Vec<ParameterType>,
    ) -> Result<Option<Arc<CachedPlan>>, Error> {
        // What it has changed itself is only in its own catalogue.
        if self.tables.has_any() {
            return Ok(None);
        }
        let Some(planned) = Planned::new(statement, kinds, self.opens_files()) else { return Ok(None) };
        let changes = self.refresh();
        let (runtime, turns) = (self.runtime().clone(), Arc::clone(&self.turns));
        runtime.catalog_store().plans().get(changes, &planned, || {
            let (newest, catalog) = runtime.catalog_store().readable_at();
            // What a transaction reads is not to stay in memory for others.
            if newest != changes {
                return Ok(None);
            }
            let _planning = planning(&turns, statement)?;
            let mut planner = Planner::at(catalog, self.settings().clone());
            planner.set_opens_files(self.opens_files());
            Ok(planner.keep(statement, planned.kinds()))
        })
    }
}

fn bound(statement: &Statement, values: &[Parameter]) -> Result<Statement, Error> {
    Ok(statement.bind(&values.iter().cloned().map(Some).collect::<Vec<_>>())?)
}

#[cfg(test)]
mod tests {
    use tidemill_sql::divide;

    use super::*;
    use crate::Runtime;

    #[test]
    fn plans_are_kept_before_anything_is_defined() {
        let mut session = Session::new(&Runtime::new(Planner::new()));
        let statement = divide("SELECT 1 AS one", "test").unwrap()[0].read().unwrap();
        let mut plan = || session.kept_plan(&statement, Vec::new()).unwrap().expect("it can be kept");
        assert!(Arc::ptr_eq(&plan(), &plan()));
    }
}
