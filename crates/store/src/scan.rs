//! Looks for rows chunk by chunk.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::ArrayRef;
use tidemill_core::Cause;

use crate::area::Area;
use crate::chunk::Chunk;
use crate::fragment_version::FragmentVersion;
use crate::keys::KeyEquality;
use crate::selection::{Selection, Work};
use crate::version::{Pause, StoredRow};

/// This many rows are passed at once if none of them meets the conditions.
const BLOCK_ROWS: usize = 64;

/// The rows of a version in a chunk.
#[derive(Clone, Copy)]
pub(crate) struct Part<'a> {
    pub chunk: &'a Arc<Chunk>,
    pub start: usize,
    pub end: usize,
}

impl FragmentVersion {
    /// The chunks that have rows of this version, each with the range of them, but not all of those in which none meets the
    /// conditions.
    pub(crate) fn parts(&self, selection: &Selection) -> impl Iterator<Item = Part<'_>> {
        self.chunks().among(self.first, self.end, selection).map(|chunk| {
            let start = self.first.saturating_sub(chunk.first) as usize;
            Part { chunk, start, end: (self.end.min(chunk.end()) - chunk.first) as usize }
        })
    }

    /// Gives each row that meets the conditions, without the index of keys.
    pub(crate) fn visit<'a>(
        &'a self,
        selection: &Selection,
        work: &mut Work,
        pause: &mut Pause<'_>,
        mut visit: impl FnMut(StoredRow<'a>),
    ) -> Result<(), Cause> {
        let mut found = 0;
        for part in self.parts(selection) {
            self.visit_part(part, selection, selection.area.as_ref(), work, &mut |row| {
                found += 1;
                visit(row);
            })?;
            pause(found * size_of::<StoredRow<'_>>())?;
        }
        Ok(())
    }

    /// Gives each row of a part that meets the conditions on key and time and is in a box.
    pub(crate) fn visit_part<'a>(
        &self,
        part: Part<'a>,
        selection: &Selection,
        area: Option<&Area>,
        work: &mut Work,
        visit: &mut impl FnMut(StoredRow<'a>),
    ) -> Result<(), Cause> {
        let Part { chunk, start, end } = part;
        if !chunk.may_be_in_time(selection.time) || !chunk.may_be_in_area(area) {
            return Ok(());
        }
        let is_key = match &selection.key {
            None => None,
            Some(key) => Some(self.equality(chunk, key)?),
        };
        work.chunks_read += 1;
        let time = selection.time.filter(|_| !chunk.is_all_in(selection.time, None));
        let is_wanted = |row: usize| {
            self.shows(chunk, row)
                && chunk.is_in_time(row, time)
                && is_key.as_ref().is_none_or(|is_key| is_key(row))
        };
        let points = chunk.points.as_ref();
        if let (Some(area), Some(points)) = (area, points)
            && let Some(grid) = &points.grid
        {
            let mut rows = Vec::new();
            work.rows_examined += grid.visit(area, &points.x, &points.y, |row| rows.push(row));
            rows.retain(|row| (start..end).contains(row) && is_wanted(*row));
            rows.sort_unstable();
            rows.into_iter().for_each(|row| visit(StoredRow { chunk, row }));
            return Ok(());
        }
        work.rows_examined += (end - start) as u64;
        for from in (start..end).step_by(BLOCK_ROWS) {
            let block = from..end.min(from + BLOCK_ROWS);
            if chunk.has_some_in_time(block.clone(), time) && chunk.has_some_in_area(block.clone(), area) {
                let rows = block.filter(|row| chunk.is_in_area(*row, area) && is_wanted(*row));
                rows.for_each(|row| visit(StoredRow { chunk, row }));
            }
        }
        Ok(())
    }

    /// Whether rows of a chunk have this key.
    fn equality(
        &self,
        chunk: &Arc<Chunk>,
        key: &[ArrayRef],
    ) -> Result<impl Fn(usize) -> bool + use<>, Cause> {
        let Some(hasher) = &self.shared.hasher else { return Err(no_key()) };
        let keys = hasher.key_of(&chunk.rows);
        self.check_key(key, &keys)?;
        let hashes = hasher.hashes(&keys, chunk.len())?;
        let wanted = hasher.hashes(key, 1)?[0];
        let equality = KeyEquality::new(hasher, &keys, key)?;
        Ok(move |row: usize| hashes[row] == wanted && equality.is_equal(row, 0))
    }

    pub(crate) fn check_key(&self, key: &[ArrayRef], columns: &[ArrayRef]) -> Result<(), Cause> {
        let fits = key.len() == columns.len()
            && key
                .iter()
                .zip(columns)
                .all(|(value, column)| value.len() == 1 && value.data_type() == column.data_type());
        if fits {
            Ok(())
        } else {
            Err(Cause::bug(format!("the store cannot look up the key {key:?}: its key has other columns")))
        }
    }
}

impl Chunk {
    /// Whether times of these rows are in this range; a NULL may count as well. Without a branch for each row, so that
    /// several are compared at once.
    fn has_some_in_time(&self, rows: Range<usize>, range: Option<(i64, i64)>) -> bool {
        let Some((from, to)) = range else { return true };
        let Some(times) = &self.times else { return false };
        times.values[rows].iter().fold(false, |found, time| found | ((from <= *time) & (*time <= to)))
    }

    /// Whether points of these rows are in this box.
    fn has_some_in_area(&self, rows: Range<usize>, area: Option<&Area>) -> bool {
        let Some(area) = area else { return true };
        let Some(points) = &self.points else { return false };
        let (x, y) = (&points.x[rows.clone()], &points.y[rows]);
        let is_in = |x: f64, y: f64| (area.x.0 <= x) & (x <= area.x.1) & (area.y.0 <= y) & (y <= area.y.1);
        x.iter().zip(y).fold(false, |found, (x, y)| found | is_in(*x, *y))
    }
}

pub(crate) fn no_key() -> Cause {
    Cause::bug("a store without a key was asked for a key")
}
