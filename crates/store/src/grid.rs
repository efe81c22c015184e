//! A grid over the points of a chunk's rows.

use crate::area::Area;

/// The range of the finite values, given the range of all.
fn finite(values: &[f64], range: (f64, f64)) -> (f64, f64) {
    if range.0.is_finite() && range.1.is_finite() {
        return range;
    }
    let finite = values.iter().filter(|value| value.is_finite());
    finite.fold((f64::INFINITY, f64::NEG_INFINITY), |range, value| (range.0.min(*value), range.1.max(*value)))
}

/// About this many rows share a cell.
const ROWS_PER_CELL: usize = 16;

/// The rows of a chunk by their points: cells of equal size over the box of its points.
pub(crate) struct Grid {
    origin: (f64, f64),
    /// Cells per unit.
    scale: (f64, f64),
    cells: (usize, usize),
    /// For each cell, row by row, where its rows begin; and the end.
    starts: Box<[u32]>,
    rows: Box<[u32]>,
}

impl Grid {
    /// Sorts points into cells. Rows without a point are in none.
    pub fn new(x: &[f64], y: &[f64], area: &Area) -> Grid {
        let count = (x.len() / ROWS_PER_CELL).max(1);
        // Points at infinity share the cells at the edge.
        let (of_x, of_y) = (finite(x, area.x), finite(y, area.y));
        let (width, height) = (of_x.1 - of_x.0, of_y.1 - of_y.0);
        let has_extent = |extent: f64| extent.is_finite() && extent > 0.0;
        let side = (count as f64).sqrt().ceil() as usize;
        let cells = match (has_extent(width), has_extent(height)) {
            (true, true) => (side, side),
            (true, false) => (count, 1),
            (false, true) => (1, count),
            (false, false) => (1, 1),
        };
        let scale_of =
            |extent: f64, cells: usize| match has_extent(extent) && (cells as f64 / extent).is_finite() {
                true => cells as f64 / extent,
                false => 0.0,
            };
        let scale = (scale_of(width, cells.0), scale_of(height, cells.1));
        let mut grid =
            Grid { origin: (of_x.0, of_y.0), scale, cells, starts: Box::default(), rows: Box::default() };
        let cell_of = |row: usize| (!x[row].is_nan() && !y[row].is_nan()).then(|| grid.cell(x[row], y[row]));
        let cells_of_rows: Vec<Option<u32>> = (0..x.len())
            .map(|row| cell_of(row).map(|(column, line)| (line * cells.0 + column) as u32))
            .collect();
        let mut starts = vec![0_u32; cells.0 * cells.1 + 1];
        cells_of_rows.iter().flatten().for_each(|cell| starts[*cell as usize + 1] += 1);
        for cell in 1..starts.len() {
            starts[cell] += starts[cell - 1];
        }
        let mut next = starts.clone();
        let mut rows = vec![0_u32; starts[starts.len() - 1] as usize];
        for (row, cell) in cells_of_rows.iter().enumerate() {
            let Some(cell) = cell else { continue };
            let slot = &mut next[*cell as usize];
            rows[*slot as usize] = row as u32;
            *slot += 1;
        }
        (grid.starts, grid.rows) = (starts.into(), rows.into());
        grid
    }

    /// The cell of a point: monotonous in both coordinates, so the cells between those of two corners have all points of
    /// the box.
    fn cell(&self, x: f64, y: f64) -> (usize, usize) {
        let column = ((x - self.origin.0) * self.scale.0) as usize;
        let line = ((y - self.origin.1) * self.scale.1) as usize;
        (column.min(self.cells.0 - 1), line.min(self.cells.1 - 1))
    }

    /// Gives all rows whose points may be in the box.
    pub fn visit(&self, area: &Area, mut visit: impl FnMut(usize)) {
        if area.x.0 > area.x.1 || area.y.0 > area.y.1 {
            return;
        }
        let (first, last) = (self.cell(area.x.0, area.y.0), self.cell(area.x.1, area.y.1));
        for line in first.1..=last.1 {
            let cells = line * self.cells.0;
            let (start, end) = (self.starts[cells + first.0], self.starts[cells + last.0 + 1]);
            self.rows[start as usize..end as usize].iter().for_each(|row| visit(*row as usize));
        }
    }

    /// Its bytes.
    pub fn bytes(&self) -> usize {
        (self.starts.len() + self.rows.len()) * size_of::<u32>()
    }
}
