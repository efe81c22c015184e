//! The pipeline that runs in the background of the prompt, so that its materialized views can be read meanwhile.

use std::time::Duration;

use tidemill_service::{QueryState, Runtime};
use tidemill_sql::QueryStatus;

use super::execute::Executor;
use super::{of_service, summary, user_error};
use crate::exit::Exit;
use crate::terminal;

/// Its name in the runtime. No sink and no view has this name, so no other query has it.
pub(super) const BACKGROUND_QUERY: &str = "background of the prompt";
/// How often to check for its end.
const LOOK: Duration = Duration::from_millis(5);

impl Executor {
    /// Starts the sinks and materialized views in the background; from then on queries read the rows of these views.
    pub fn start(&mut self) -> anyhow::Result<Exit> {
        self.check_background(true)?;
        let Some(pipeline) = self.session.pipeline().map_err(of_service)? else {
            return Err(user_error(
                "there is nothing to start; first define a materialized view (CREATE MATERIALIZED VIEW name AS \
                 SELECT ...) or a sink"
                    .into(),
            ));
        };
        let names: Vec<String> = pipeline.outputs().iter().map(|output| output.name.clone()).collect();
        self.runtime().start(BACKGROUND_QUERY, pipeline, self.session.is_strict())?;
        terminal::tell(&format!("{} running in the background; \\stop ends it cleanly", names.join(", ")));
        Ok(Exit::Done)
    }

    /// Ends what runs in the background.
    pub fn stop(&mut self) -> anyhow::Result<Exit> {
        if self.has_background() {
            self.end_background(true).map(|()| Exit::Done)
        } else {
            Err(user_error("nothing is running in the background; \\start starts the pipeline".into()))
        }
    }

    /// Whether a pipeline runs in the background, or has ended without a report.
    pub fn has_background(&self) -> bool {
        self.runtime().state(BACKGROUND_QUERY).is_ok()
    }

    /// Reports the outcome of a pipeline that has ended by itself; an error if one runs and none `may` run.
    pub fn check_background(&mut self, must_be_free: bool) -> anyhow::Result<()> {
        if self.runtime().state(BACKGROUND_QUERY).is_ok_and(|state| state != QueryState::Running) {
            terminal::tell("the background pipeline has ended:");
            self.end_background(false)?;
        }
        if self.has_background() && must_be_free {
            Err(user_error("a pipeline is already running in the background; \\stop ends it".into()))
        } else {
            Ok(())
        }
    }

    fn runtime(&self) -> &Runtime {
        self.session.runtime()
    }

    /// Ends it normally, and reports what it has done. Rows that were taken in are answered, unless Ctrl-C says meanwhile
    /// that nobody waits for that.
    fn end_background(&self, heeds_interrupt: bool) -> anyhow::Result<()> {
        let runtime = self.runtime();
        let bound = runtime.max_latency(BACKGROUND_QUERY)?;
        runtime.stop(BACKGROUND_QUERY)?;
        let ended = loop {
            match runtime.wait_for(BACKGROUND_QUERY, LOOK) {
                Ok(None) if heeds_interrupt && self.interrupt.is_asked() => {
                    runtime.abandon(BACKGROUND_QUERY)?;
                    break Ok(None);
                }
                Ok(None) => {}
                Ok(Some(status)) => break Ok(Some(status)),
                Err(cause) => break Err(cause),
            }
        };
        runtime.forget(BACKGROUND_QUERY)?;
        let Some(status): Option<QueryStatus> = ended? else {
            terminal::tell("ended at once; everything not answered by then is lost");
            return Ok(());
        };
        summary::whole(&status, bound);
        self.check_strict(&status)
    }
}
