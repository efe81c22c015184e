//! The rows nearest to a point.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use tidemill_core::Cause;

use crate::area::{Area, distance};
use crate::fragment_version::FragmentVersion;
use crate::gather::found;
use crate::grid::Grid;
use crate::scan::Part;
use crate::selection::{SelectedRows, Selection, Work};
use crate::version::{Pause, StoredRow, Version};

/// How many boxes, each larger than the last, are searched for a first bound on the distance.
const LOOKS_MAX: usize = 6;

/// A row that is among the nearest so far. The farthest is the greatest; of equal distances the later one.
struct Candidate<'a> {
    distance: f64,
    number: u64,
    stored: StoredRow<'a>,
}

impl Ord for Candidate<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.distance.total_cmp(&other.distance).then(self.number.cmp(&other.number))
    }
}

impl PartialOrd for Candidate<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Candidate<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Candidate<'_> {}

impl Version {
    /// The rows nearest to a point among those that meet the conditions, the nearest first; of equally near ones those
    /// that come first in the store. Rows without a point are not among them.
    ///
    /// # Errors
    /// [`Cause::bug`] if the store has no points; otherwise as for [`select`](Version::select).
    pub fn nearest(
        &self,
        to: (f64, f64),
        rows_max: usize,
        selection: &Selection,
    ) -> Result<SelectedRows, Cause> {
        self.nearest_with_pauses(to, rows_max, selection, &mut |_| Ok(()))
    }

    /// As [`nearest`](Version::nearest), with pauses as in [`select_with_pauses`](Version::select_with_pauses).
    ///
    /// # Errors
    /// As for [`nearest`](Version::nearest), and those of `pause`.
    pub fn nearest_with_pauses(
        &self,
        to: (f64, f64),
        rows_max: usize,
        selection: &Selection,
        pause: &mut Pause<'_>,
    ) -> Result<SelectedRows, Cause> {
        if self.config().point.is_none() {
            return Err(Cause::bug("a store without points was asked for the nearest"));
        }
        let asked = self.asked(selection);
        let mut work = self.work(asked);
        let mut nearest: BinaryHeap<Candidate<'_>> = BinaryHeap::new();
        // Chunks whose points may be nearest come first, so that most others need not be read.
        let area_of = |part: &Part<'_>| {
            let points = part.chunk.points.as_ref();
            points.map_or(f64::INFINITY, |points| points.area.distance_from(to.0, to.1))
        };
        let parts =
            asked.iter().flat_map(|fragment| fragment.parts(selection).map(move |part| (fragment, part)));
        let mut parts: Vec<_> = parts.map(|(of, part)| (area_of(&part), of, part)).collect();
        parts.sort_by(|one, other| one.0.total_cmp(&other.0));
        let mut at_most = f64::INFINITY;
        if let Some((_, of, sorted)) = parts.iter().find(|(.., part)| grid_of(part).is_some()) {
            at_most = of.nearest_are_within(sorted, to, rows_max, selection, &mut work)?;
        }
        for (at_least, of, part) in parts {
            let farthest = if nearest.len() == rows_max {
                nearest.peek().map_or(f64::NEG_INFINITY, |candidate| candidate.distance.min(at_most))
            } else {
                at_most
            };
            if at_least > farthest {
                break;
            }
            let Some(points) = &part.chunk.points else { continue };
            let area = within(to, farthest, selection);
            of.visit_part(part, selection, Some(&area), &mut work, &mut |stored| {
                let row = stored.row;
                let distance = distance((points.x[row], points.y[row]), to);
                // A row of a table may have been stored again; its key came first only once.
                nearest.push(Candidate { distance, number: stored.order(), stored });
                if nearest.len() > rows_max {
                    nearest.pop();
                }
            })?;
            pause(nearest.len() * size_of::<Candidate<'_>>())?;
        }
        let nearest = nearest.into_sorted_vec();
        let rows: Vec<StoredRow<'_>> = nearest.iter().map(|candidate| candidate.stored).collect();
        pause(self.bytes_of(&rows, selection))?;
        let batches = self.gather_in_order(&rows, selection)?;
        Ok(found(batches, work))
    }
}

impl FragmentVersion {
    /// A distance within which there are as many rows of this part: it looks near the point first, and then farther away.
    /// Infinity if it finds none.
    fn nearest_are_within(
        &self,
        part: &Part<'_>,
        to: (f64, f64),
        rows_max: usize,
        selection: &Selection,
        work: &mut Work,
    ) -> Result<f64, Cause> {
        let Some(points) = part.chunk.points.as_ref().filter(|_| rows_max > 0) else {
            return Ok(f64::INFINITY);
        };
        let (width, height) = (points.area.x.1 - points.area.x.0, points.area.y.1 - points.area.y.0);
        let share = (rows_max as f64 / part.chunk.len() as f64).sqrt();
        let mut far = points.area.distance_from(to.0, to.1).max(0.0) + share * width.max(height) / 4.0;
        for _ in 0..LOOKS_MAX {
            if !far.is_finite() {
                break;
            }
            let (mut distances, mut look) = (Vec::new(), Work::default());
            let area = within(to, far, selection);
            self.visit_part(*part, selection, Some(&area), &mut look, &mut |stored| {
                distances.push(distance((points.x[stored.row], points.y[stored.row]), to));
            })?;
            work.rows_examined += look.rows_examined;
            if distances.len() >= rows_max {
                let (_, farthest, _) = distances.select_nth_unstable_by(rows_max - 1, f64::total_cmp);
                return Ok(*farthest);
            }
            far *= 3.0;
        }
        Ok(f64::INFINITY)
    }
}

fn grid_of<'a>(part: &Part<'a>) -> Option<&'a Grid> {
    part.chunk.points.as_ref()?.grid.as_ref()
}

/// The box of the points that are at most this far away and meet the condition.
fn within(to: (f64, f64), farthest: f64, selection: &Selection) -> Area {
    let within = if farthest.is_finite() { Area::around(to.0, to.1, farthest) } else { Area::EVERYWHERE };
    selection.area.map_or(within, |area| area.and(&within))
}
