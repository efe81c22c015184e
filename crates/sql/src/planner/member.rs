//! The other processes of a query: their instructions, and how they make the same plan from them.

use tidemill_engine::{Cause, WorkerProcess};

use super::{Planner, Reply};
use crate::catalog::Instructions;
use crate::prepared::Prepared;
use crate::statement::{Statement, parse};

impl Planner {
    /// What another process must know to have the plan of a query, or of the pipeline. Empty if there is none.
    pub(super) fn instructions(&self, query: Option<&Statement>) -> Vec<u8> {
        if self.settings.processes == 1 {
            return Vec::new();
        }
        let instructions = Instructions {
            settings: self.settings_made.clone(),
            definitions: self.catalog.definitions().to_vec(),
            query: query.map(|query| query.text.clone()),
        };
        instructions.encode()
    }

    /// Runs this process's part of a query that another process has started. Call it on a planner with the same
    /// functions, operators and settings as in the other process; definitions are transferred.
    ///
    /// # Errors
    /// If the query fails, here or elsewhere. Process 0 reports why.
    ///
    /// ```no_run
    /// use tidemill_engine::WorkerProcess;
    /// use tidemill_sql::Planner;
    /// let mut planner = Planner::new();
    /// planner.settings_mut().processes = 3;
    /// // Before anything reads standard input.
    /// if let Some(member) = WorkerProcess::from_environment()? {
    ///     return Ok(planner.run_member(member)?);
    /// }
    /// // What the planner prepares from here on runs over three processes.
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn run_member(mut self, member: WorkerProcess) -> Result<(), Cause> {
        let plan = self.prepare_as_told(member.instructions())?.dataflow.plan;
        Ok(member.run(plan)?)
    }

    fn prepare_as_told(&mut self, instructions: &[u8]) -> Result<Prepared, Cause> {
        let wrong = |text: String| Cause::bug(format!("process 0 tells this one what it cannot do: {text}"));
        let Ok(instructions) = Instructions::decode(instructions) else {
            return Err(wrong("its instructions are of another version, or damaged".into()));
        };
        self.replay(&instructions.definitions).map_err(|cause| wrong(cause.to_string()))?;
        let query = instructions.query.iter();
        for text in instructions.settings.iter().chain(query) {
            for statement in parse(text, "process 0").map_err(|error| wrong(error.to_string()))? {
                match self.execute(&statement).map_err(|error| wrong(error.to_string()))? {
                    Reply::Query(prepared) | Reply::Analyze(prepared) => return Ok(*prepared),
                    Reply::Done(_) | Reply::Rows(_) | Reply::Text(_) => {}
                }
            }
        }
        let pipeline = self.pipeline()?.ok_or_else(|| wrong("there is no query in it".into()))?;
        Ok(pipeline.into_prepared())
    }
}
