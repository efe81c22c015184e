//! Executes kept definitions again.

use std::sync::Arc;

use tidemill_engine::Cause;

use super::Planner;
use crate::catalog::{Definition, FailedDefinition, defined};
use crate::statement::{Statement, parse};
use crate::text::TextError;

impl Planner {
    /// Executes definitions again, as they were kept. Settings stay as they are. Returns those that give an error in this
    /// program: they count in the version of the catalogue, their names stay taken, and the others are there.
    ///
    /// # Errors
    /// If the definitions do not follow the version of the catalogue.
    ///
    /// ```
    /// use tidemill_sql::{Planner, parse};
    /// let mut planner = Planner::new();
    /// planner.execute(&parse("CREATE PLACES two (0, 1)", "example").unwrap()[0]).unwrap();
    /// let mut again = Planner::new();
    /// assert!(again.replay(planner.catalog().definitions()).unwrap().is_empty());
    /// assert_eq!(again.catalog().definitions(), planner.catalog().definitions());
    /// ```
    pub fn replay(&mut self, definitions: &[Arc<Definition>]) -> Result<Vec<FailedDefinition>, Cause> {
        let (idle_after, keeps_dependencies) = (self.settings.idle_after, self.keeps_dependencies);
        // Earlier versions dropped and replaced what others read.
        self.keeps_dependencies = false;
        let replayed = definitions.iter().map(|definition| self.replay_one(definition));
        let failed = replayed.collect::<Result<Vec<_>, _>>();
        (self.settings.idle_after, self.keeps_dependencies) = (idle_after, keeps_dependencies);
        Ok(failed?.into_iter().flatten().collect())
    }

    fn replay_one(&mut self, definition: &Arc<Definition>) -> Result<Option<FailedDefinition>, Cause> {
        let (version, due) = (definition.version, self.catalog.version() + 1);
        if version != due {
            return Err(Cause::operation(format!(
                "definition {version} of the catalogue is where definition {due} should be"
            )));
        }
        self.settings.idle_after = definition.idle_after;
        let (statement, wrong) = match parse(&definition.statement, &format!("definition {version}")) {
            Ok(statements) => {
                let definition = statements.into_iter().find(|statement| statement.kind.is_definition());
                let statement = definition.ok_or_else(|| {
                    Cause::operation(format!("definition {version} of the catalogue defines nothing"))
                })?;
                let wrong = self.execute(&statement).err();
                (Some(statement), wrong)
            }
            Err(error) => (None, Some(error)),
        };
        Ok(wrong.map(|error| self.note_failed(definition, statement.as_ref(), error)))
    }

    fn note_failed(
        &mut self,
        definition: &Arc<Definition>,
        statement: Option<&Statement>,
        error: TextError,
    ) -> FailedDefinition {
        let failed = FailedDefinition {
            definition: Arc::clone(definition),
            defines: statement.and_then(defined).map(|(kind, name)| (kind, name.to_owned())),
            reason: error.message.clone(),
            cause: error.into(),
        };
        let read = self.take_read();
        self.catalog.note_failed(failed.clone(), statement, read);
        failed
    }
}
