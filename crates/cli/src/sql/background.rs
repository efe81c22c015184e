//! A pipeline that runs in the background of the prompt, so that its materialized views can be read meanwhile.

use std::thread;
use std::time::Duration;

use tidemill_sql::{RunningQuery, Session};

use super::{Failed, summary, user_error};
use crate::terminal;

/// How often to check for its end.
const LOOK: Duration = Duration::from_millis(5);

/// See the module. Dropping it ends the pipeline at once.
pub(crate) struct Background {
    running: RunningQuery,
    bound: Option<Duration>,
}

impl Background {
    /// Starts the sinks and materialized views of a session; from then on queries read the rows of these views.
    pub fn start(session: &mut Session) -> anyhow::Result<Background> {
        let Some((prepared, sinks)) = session.pipeline().map_err(Failed)? else {
            return Err(user_error(
                "there is nothing to start: define a materialized view (CREATE MATERIALIZED VIEW name AS SELECT ...) \
                 or a sink first"
                    .into(),
            ));
        };
        let bound = prepared.max_latency();
        let names: Vec<String> = prepared.outputs().iter().map(|output| output.name.clone()).collect();
        let running = prepared.start(sinks).map_err(Failed)?;
        for view in running.views() {
            session.attach_view(view);
        }
        terminal::tell(&format!("{} running in the background; \\stop ends it in order", names.join(", ")));
        Ok(Background { running, bound })
    }

    /// Whether its input has ended, or it has failed.
    pub fn has_ended(&self) -> bool {
        self.running.has_ended()
    }

    /// Ends it normally, and reports what it has done. Rows that were taken in are answered, unless `is_asked` reports
    /// meanwhile that nobody waits for that.
    pub fn end(self, is_asked: impl Fn() -> bool) -> anyhow::Result<()> {
        self.running.stop();
        while !self.running.has_ended() {
            if is_asked() {
                terminal::tell("ended at once; what was not answered by then is lost");
                return Ok(());
            }
            thread::sleep(LOOK);
        }
        let (status, _) = self.running.wait().map_err(Failed)?;
        summary::whole(&status, self.bound);
        Ok(())
    }
}
