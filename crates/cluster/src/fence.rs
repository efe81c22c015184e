//! What an older generation may no longer do.

use thiserror::Error;

use crate::generation::GenerationNumber;

/// An action of a generation that another has replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("generation {} was replaced by generation {}: its work is refused, and it must stop", .acting.0, .newest.0)]
pub struct Fenced {
    /// The generation that wanted to act.
    pub acting: GenerationNumber,
    /// The newest one that has taken over.
    pub newest: GenerationNumber,
}

/// Refuses what older generations do to one thing, such as a sink. It must be as durable as what it guards, and be checked
/// together with the action: in the same transaction, or under the same lock.
///
/// ```
/// use tidemill_cluster::fence::Fence;
/// use tidemill_cluster::generation::GenerationNumber;
///
/// let mut fence = Fence::default();
/// fence.take_over(GenerationNumber(4))?;
/// fence.check(GenerationNumber(4))?;
/// fence.take_over(GenerationNumber(5))?;
/// assert!(fence.check(GenerationNumber(4)).is_err());
/// # Ok::<(), tidemill_cluster::fence::Fenced>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fence {
    newest: GenerationNumber,
}

impl Default for Fence {
    /// Returns one that every generation may take over.
    fn default() -> Fence {
        Fence { newest: GenerationNumber(0) }
    }
}

impl Fence {
    /// Returns the newest generation that has taken over.
    pub fn newest(&self) -> GenerationNumber {
        self.newest
    }

    /// Lets a generation take over. The first thing that it then does is to set back what its predecessor wrote beyond the
    /// last commit.
    ///
    /// # Errors
    /// [`Fenced`] if a newer generation has taken over.
    pub fn take_over(&mut self, acting: GenerationNumber) -> Result<(), Fenced> {
        if acting < self.newest {
            return Err(Fenced { acting, newest: self.newest });
        }
        self.newest = acting;
        Ok(())
    }

    /// Checks that a generation may write or commit. One that has not taken over may not: its predecessor's rows could still
    /// be there.
    ///
    /// # Errors
    /// [`Fenced`] if another generation has taken over last.
    pub fn check(&self, acting: GenerationNumber) -> Result<(), Fenced> {
        if acting == self.newest { Ok(()) } else { Err(Fenced { acting, newest: self.newest }) }
    }
}
