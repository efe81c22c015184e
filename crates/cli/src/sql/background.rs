//! A pipeline that runs in the background of the prompt, so that its materialized views can be read meanwhile.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use tidemill_sql::{Opened, RunningQuery, Session};

use super::{Failed, summary, user_error};
use crate::terminal;

/// How often to check for its end.
const LOOK: Duration = Duration::from_millis(5);
/// How often it is looked whether it has done something that it is not allowed to do.
const STRICT_LOOK: Duration = Duration::from_millis(50);

/// What runs; `None`: its end is waited for elsewhere.
type Shared = Mutex<Option<RunningQuery>>;

/// See the module. Dropping it ends the pipeline at once.
pub(crate) struct Background {
    running: Arc<Shared>,
    bound: Option<Duration>,
    is_strict: bool,
}

fn lock(running: &Shared) -> MutexGuard<'_, Option<RunningQuery>> {
    running.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tells a pipeline to stop once it has done something that `--strict` does not allow.
fn watch(running: &Weak<Shared>) {
    loop {
        let Some(running) = running.upgrade() else { return };
        match &*lock(&running) {
            None => return,
            Some(running) => {
                if running.status().is_some_and(|status| summary::is_against_strict(&status)) {
                    running.stop();
                    return;
                }
            }
        }
        drop(running);
        thread::sleep(STRICT_LOOK);
    }
}

impl Background {
    /// Starts the sinks and materialized views of a session; from then on queries read the rows of these views.
    /// If it `is_strict`, it ends at what cannot be done as it was asked for.
    pub fn start(session: &mut Session, is_strict: bool) -> anyhow::Result<Background> {
        let Some(pipeline) = session.pipeline().map_err(Failed)? else {
            return Err(user_error(
                "there is nothing to start: define a materialized view (CREATE MATERIALIZED VIEW name AS SELECT ...) \
                 or a sink first"
                    .into(),
            ));
        };
        let bound = pipeline.max_latency();
        let names: Vec<String> = pipeline.outputs().iter().map(|output| output.name.clone()).collect();
        let running = pipeline.open().and_then(Opened::start).map_err(Failed)?;
        for view in running.views() {
            session.attach_view(view);
        }
        terminal::tell(&format!("{} running in the background; \\stop ends it in order", names.join(", ")));
        let running = Arc::new(Mutex::new(Some(running)));
        if is_strict {
            let watched = Arc::downgrade(&running);
            thread::spawn(move || watch(&watched));
        }
        Ok(Background { running, bound, is_strict })
    }

    /// Whether its input has ended, or it has failed.
    pub fn has_ended(&self) -> bool {
        lock(&self.running).as_ref().is_none_or(RunningQuery::has_ended)
    }

    /// Ends it normally, and reports what it has done. Rows that were taken in are answered, unless `is_asked` reports
    /// meanwhile that nobody waits for that.
    pub fn end(self, is_asked: impl Fn() -> bool) -> anyhow::Result<()> {
        let Some(running) = lock(&self.running).take() else { return Ok(()) };
        running.stop();
        while !running.has_ended() {
            if is_asked() {
                terminal::tell("ended at once; what was not answered by then is lost");
                return Ok(());
            }
            thread::sleep(LOOK);
        }
        let (status, _) = running.wait().map_err(Failed)?;
        summary::whole(&status, self.bound);
        match self.is_strict && summary::is_against_strict(&status) {
            true => Err(user_error(summary::refused(&status))),
            false => Ok(()),
        }
    }
}
