//! How long to wait between two looks at something that tells nobody when it changes.

use std::time::{Duration, Instant};

const SHORTEST: Duration = Duration::from_millis(2);
const LONGEST: Duration = Duration::from_secs(1);

/// How long to wait between two looks at something that tells nobody when it changes: the longer nothing has happened, the
/// longer. What happens after a time is noticed at most a twentieth of that time later, and what never happens costs almost
/// nothing.
pub(crate) struct Backoff {
    since: Instant,
    longest: Duration,
}

impl Backoff {
    /// Begins now, with waits of up to a second.
    pub fn new() -> Backoff {
        Backoff::up_to(LONGEST)
    }

    /// Begins now, with waits of up to this time.
    pub fn up_to(longest: Duration) -> Backoff {
        Backoff { since: Instant::now(), longest }
    }

    /// How long to wait this time.
    pub fn wait(&self) -> Duration {
        (self.since.elapsed() / 20).clamp(SHORTEST, self.longest)
    }
}
