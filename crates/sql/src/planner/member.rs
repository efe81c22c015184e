//! The other processes of a query: their instructions, and how they make the same plan from them.

use tidemill_engine::{Cause, WorkerProcess};

use super::{Planner, Reply};
use crate::catalog::{Instructions, Requested};
use crate::query::prepared::Prepared;
use crate::settings::Settings;
use crate::statement::parse;

impl Planner {
    /// What another process must know to have the plan of what is requested. Empty if there is no other process.
    pub(super) fn instructions(&self, requested: impl FnOnce() -> Requested) -> Vec<u8> {
        if self.settings.processes == 1 {
            return Vec::new();
        }
        let instructions = Instructions {
            settings: self.settings.encode(),
            definitions: self.catalog.definitions().to_vec(),
            requested: requested(),
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
        let prepared = self.prepare_as_told(member.instructions())?;
        Ok(member.memory(prepared.memory).run(prepared.dataflow.plan)?)
    }

    fn prepare_as_told(&mut self, instructions: &[u8]) -> Result<Prepared, Cause> {
        let wrong =
            |text: String| Cause::bug(format!("process 0 asks this process to do what it cannot do: {text}"));
        let Ok(instructions) = Instructions::decode(instructions) else {
            return Err(wrong("its instructions are of another version, or damaged".into()));
        };
        // A definition that fails here has failed in process 0 as well, so that the query does not need it.
        self.replay(&instructions.definitions).map_err(|cause| wrong(cause.to_string()))?;
        self.settings = Settings::decode(&instructions.settings, &self.settings)?;
        let text = match instructions.requested {
            Requested::Query(text) => text,
            Requested::Outputs(names) => {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                return Ok(self.pipeline_of(&names)?.into_prepared());
            }
        };
        for statement in parse(&text, "process 0").map_err(|error| wrong(error.to_string()))? {
            match self.execute(&statement).map_err(|error| wrong(error.to_string()))? {
                Reply::Query(prepared) | Reply::Analyze(prepared) => return Ok(*prepared),
                Reply::Done(_) | Reply::Rows(_) | Reply::Batches(_) | Reply::Text(_) => {}
            }
        }
        Err(wrong("it contains no query".into()))
    }
}
