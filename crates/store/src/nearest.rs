//! The rows nearest to a point.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use tidemill_core::Cause;

use crate::area::{Area, distance};
use crate::selection::{SelectedRows, Selection};
use crate::version::{StoredRow, Version};

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
        if self.shared.config.point.is_none() {
            return Err(Cause::bug("a store without points was asked for the nearest"));
        }
        let mut work = self.work();
        let mut nearest: BinaryHeap<Candidate<'_>> = BinaryHeap::new();
        // Chunks whose points may be nearest come first, so that most others need not be read.
        let area_of = |part: &(&std::sync::Arc<crate::chunk::Chunk>, usize, usize)| {
            part.0.points.as_ref().map_or(f64::INFINITY, |points| points.area.distance_from(to.0, to.1))
        };
        let mut parts: Vec<_> = self.parts().map(|part| (area_of(&part), part)).collect();
        parts.sort_by(|one, other| one.0.total_cmp(&other.0));
        for (at_least, part) in parts {
            let chunk = part.0;
            let farthest = match nearest.len() == rows_max {
                true => nearest.peek().map_or(f64::NEG_INFINITY, |candidate| candidate.distance),
                false => f64::INFINITY,
            };
            if at_least > farthest {
                break;
            }
            let within = match farthest.is_finite() {
                true => Area::around(to.0, to.1, farthest),
                false => Area::EVERYWHERE,
            };
            let area = selection.area.map_or(within, |area| area.and(&within));
            let selection = Selection { area: Some(area), ..selection.clone() };
            let Some(points) = &chunk.points else { continue };
            self.visit_part(part, &selection, &mut work, &mut |stored| {
                let row = stored.row;
                let distance = distance((points.x[row], points.y[row]), to);
                // A row of a table may have been stored again; its key came first only once.
                let number = stored.ordinal().unwrap_or(chunk.first + row as u64);
                nearest.push(Candidate { distance, number, stored });
                if nearest.len() > rows_max {
                    nearest.pop();
                }
            })?;
        }
        let nearest = nearest.into_sorted_vec();
        let rows: Vec<StoredRow<'_>> = nearest.iter().map(|candidate| candidate.stored).collect();
        let batches = self.gather_in_order(&rows, selection)?;
        work.rows_found = rows.len() as u64;
        Ok(SelectedRows { batches, work })
    }
}
