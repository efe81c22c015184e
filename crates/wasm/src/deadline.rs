//! When a call has to be over.

use std::time::{Duration, Instant};

use crate::failure::Fault;

/// How long a call takes at most.
pub(crate) const TIME_MAX: Duration = Duration::from_secs(60);

/// When a call has to be over. Each row is limited by its fuel, but there may be many.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    started: Instant,
    time_max: Duration,
}

impl Deadline {
    pub fn after(time_max: Duration) -> Deadline {
        Deadline { started: Instant::now(), time_max }
    }

    pub fn check(&self) -> Result<(), Fault> {
        if self.started.elapsed() > self.time_max {
            Err(Fault::Broken(format!(
                "it takes more than {:?} for a batch of rows; make it faster, or define it with less fuel",
                self.time_max
            )))
        } else {
            Ok(())
        }
    }
}
