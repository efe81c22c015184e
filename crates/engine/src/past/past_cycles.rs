//! The logged cycles of a query, in order, with their rows.

use std::sync::Arc;

use parking_lot::Mutex;
use tidemill_core::Cut;
use tidemill_core::error::Cause;
use tidemill_flow::{Failure, Given, GivenCycle, GivenCycles, Waker};
use tidemill_journal::inspect::LaterCuts;

use crate::clock::{SourceInCuts, SourceReplay, SourceView, differs, of_marks};

/// A source of a query in the past.
pub(super) struct SourceInPast {
    pub name: String,
    /// Where it stands in the logged cuts.
    pub in_cuts: SourceInCuts,
    /// One past the last position of which the journal has a row.
    pub end: u64,
    pub rows: SourceReplay,
    pub view: SourceView,
}

/// Gives a query the cycles of its past, and ends it with the last of them.
pub(super) struct PastCycles {
    logged: LaterCuts,
    /// The last cycle that is wanted.
    last: u64,
    /// The cut before the next one, if only those are wanted that differ from it.
    before: Option<Cut>,
    sources: Vec<SourceInPast>,
    /// The next cycle, so that the one before it knows whether it is the last.
    upcoming: Option<GivenCycle>,
    end: PastEnd,
}

/// Why no cycle follows the last one, if one should.
#[derive(Clone, Default)]
pub(super) struct PastEnd(Arc<Mutex<Option<Cause>>>);

impl PastEnd {
    pub fn take(&self) -> Option<Cause> {
        self.0.lock().take()
    }
}

impl PastCycles {
    /// The logged cycles up to `last`; of a database, those only that differ from `before` on.
    pub fn new(
        (logged, last): (LaterCuts, u64),
        before: Option<Cut>,
        sources: Vec<SourceInPast>,
    ) -> Result<PastCycles, Cause> {
        let end = PastEnd::default();
        let mut cycles = PastCycles { logged, last, before, sources, upcoming: None, end };
        cycles.upcoming = cycles.read()?;
        Ok(cycles)
    }

    /// Whether there is no cycle at all.
    pub fn is_empty(&self) -> bool {
        self.upcoming.is_none()
    }

    /// Where it is said why the cycles end early.
    pub fn end(&self) -> PastEnd {
        self.end.clone()
    }

    fn read(&mut self) -> Result<Option<GivenCycle>, Cause> {
        let Some(cut) = self.cut()? else { return Ok(None) };
        let mut chunks = Vec::with_capacity(self.sources.len());
        for (source, end) in self.sources.iter_mut().zip(&cut.positions) {
            let of_cycle = source.rows.up_to(*end)?;
            let seen = of_cycle.iter().map(|chunk| source.view.chunk(chunk));
            chunks.push(seen.collect::<Result<Vec<_>, Cause>>()?);
        }
        Ok(Some(GivenCycle { cut, chunks }))
    }

    /// The next cut that concerns the query, as the query sees it.
    fn cut(&mut self) -> Result<Option<Cut>, Cause> {
        loop {
            let Some(logged) = self.logged.next().transpose()? else { return Ok(None) };
            if logged.cycle > self.last {
                return Ok(None);
            }
            let marks = self.sources.iter().map(|source| source.in_cuts.at(&logged)).collect();
            let cut = Cut { splits: Vec::new(), snapshot: false, last: false, ..of_marks(&logged, marks) };
            self.check_rows(&cut)?;
            match &mut self.before {
                Some(before) if !differs(&cut, before) => {}
                Some(before) => {
                    before.clone_from(&cut);
                    return Ok(Some(cut));
                }
                None => return Ok(Some(cut)),
            }
        }
    }

    /// Whether the journal has the rows up to a cut.
    fn check_rows(&self, cut: &Cut) -> Result<(), Cause> {
        let mut ends = self.sources.iter().zip(&cut.positions);
        let Some((source, position)) = ends.find(|(source, position)| **position > source.end) else {
            return Ok(());
        };
        let before = match cut.cycle.checked_sub(1) {
            Some(before) => format!("--to-cycle {before} replays what is before"),
            None => "no cycle can be replayed".to_owned(),
        };
        Err(Cause::operation(format!(
            "cycle {} goes up to position {position} of '{}', but its rows can be read up to position {} only: they \
             are damaged, or a crash of the machine has taken them; `tidemill journal verify` says where, and {before}",
            cut.cycle, source.name, source.end
        )))
    }
}

impl GivenCycles for PastCycles {
    fn wake_by(&mut self, _waker: Waker) {
        // The next cycle is always there.
    }

    fn next(&mut self, _is_idle: bool, _wants_cycle: bool) -> Result<Given, Failure> {
        let Some(mut cycle) = self.upcoming.take() else { return Ok(Given::Wait(None)) };
        // What comes before a damaged place is given out whole, and then the reason is told.
        match self.read() {
            Ok(upcoming) => self.upcoming = upcoming,
            Err(cause) => *self.end.0.lock() = Some(cause),
        }
        cycle.cut.last = self.upcoming.is_none();
        Ok(Given::Cycle(cycle))
    }
}
