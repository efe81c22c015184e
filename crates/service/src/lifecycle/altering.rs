//! `ALTER`: changes options of a query that runs or is stopped, and keeps its state (decision 0099).

use tidemill_engine::Cause;
use tidemill_sql::{Alter, Planner, Reply as Planned, Statement, parse};

use crate::lifecycle::query_lifecycle::QueryLifecycle;
use crate::lifecycle::replacement::replaced_by;
use crate::{Error, QueryState};

impl QueryLifecycle<'_> {
    /// Carries out `ALTER`; the text says what was done. The query ends behind a cycle, and continues under the changed definition
    /// with the next one. One that is stopped stays so.
    pub(crate) fn alter(&mut self, statement: &Statement, alter: &Alter) -> Result<String, Error> {
        let name = self.query_named(statement)?;
        let runtime = self.runtime;
        if runtime.is_at_gateways(name) {
            return self.at_gateways().alter(statement, alter);
        }
        let _change = runtime.changes().begin(name, "altered")?;
        let altered = self.altered(statement, alter)?;
        match runtime.state(name)? {
            QueryState::Stopped => self.redefine_stopped(&altered, name)?,
            _ => drop(self.replace_alone(&altered)?),
        }
        Ok(format!("'{name}' keeps its state and its rows"))
    }

    /// The plan of an altered definition, and what would become of its query. Nothing is done.
    pub(crate) fn explain_alter(&mut self, statement: &Statement, alter: &Alter) -> Result<String, Error> {
        let name = self.query_named(statement)?;
        if self.runtime.is_at_gateways(name) {
            let planner = Planner::at(self.runtime.defined_catalog(), self.planner.settings().clone());
            let mut planned = Planner::at(self.runtime.defined_catalog(), self.planner.settings().clone());
            planned.execute(&planner.altered(statement)?)?;
            return Ok(format!(
                "alters '{name}' at all of its gateways, if it keeps its state at each of them"
            ));
        }
        let altered = self.altered(statement, alter)?;
        let explained = parse(&format!("EXPLAIN {}", altered.text), "the altered definition")?;
        let mut planner = Planner::at(self.runtime.defined_catalog(), self.planner.settings().clone());
        let plan = match explained.first().map(|explained| planner.execute(explained)).transpose()? {
            Some(Planned::Text(plan)) => plan,
            _ => return Err(Cause::bug("a definition is explained by a text").into()),
        };
        let then = match self.runtime.state(name)? {
            QueryState::Stopped => "and stays stopped",
            _ => "and continues behind the last cycle that it has",
        };
        Ok(format!("{plan}\nalters '{name}': keeps its state and its rows, {then}"))
    }

    /// The definition that replaces the one which is altered, if the query then keeps its state.
    fn altered(&mut self, statement: &Statement, alter: &Alter) -> Result<Statement, Error> {
        let runtime = self.runtime;
        let altered =
            Planner::at(runtime.defined_catalog(), self.planner.settings().clone()).altered(statement)?;
        let name = alter.name.as_str();
        if replaced_by(runtime, &altered).is_none() {
            let error = statement
                .error(alter.name.span, format!("`{name}` has no query of its own that was started"));
            return Err(error
                .with_hint("SHOW QUERIES lists those that were; DROP it, and create it again")
                .into());
        }
        match self.keeps_state(&altered) {
            Ok(true) => Ok(altered),
            Ok(false) => {
                let message = format!("`{name}` cannot keep its state, because its sources keep no rows");
                let error = statement.error(alter.name.span, message);
                let hint = format!(
                    "CREATE OR REPLACE {} {name} begins it again with other options",
                    alter.kind.keyword()
                );
                Err(error.with_hint(hint).into())
            }
            Err(Error::Statement(error)) => Err(alter.error(statement, &error).into()),
            Err(other) => Err(other),
        }
    }
}
