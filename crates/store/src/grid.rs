//! A grid over the points of a chunk's rows.

use crate::area::Area;

/// About this many rows share a cell.
const ROWS_PER_CELL: usize = 16;
/// Rows and places are kept in 16 bits.
const ROWS_MAX: usize = 1 << 16;
const PLACES: f64 = 65_535.0;

/// The rows of a chunk by their points: cells of equal size over the box of its points. Beside each row is its place,
/// which is its point in 16 bits. It decides for most rows whether they are in a box. So the columns, in which the rows of
/// a cell are far from each other, are read only for rows at the edge of the box, and for those that are found.
pub(crate) struct Grid {
    origin: (f64, f64),
    /// Places per unit.
    scale: (f64, f64),
    cells: (usize, usize),
    /// For each cell, line by line, where its rows begin; and the end.
    starts: Box<[u32]>,
    rows: Box<[u16]>,
    /// The places of these rows.
    x: Box<[u16]>,
    y: Box<[u16]>,
}

impl Grid {
    /// Sorts points into cells. Rows without a point are in none. `None`: they are too many.
    pub fn new(x: &[f64], y: &[f64], area: &Area) -> Option<Grid> {
        if x.len() > ROWS_MAX {
            return None;
        }
        let count = (x.len() / ROWS_PER_CELL).max(1);
        // Points at infinity share the places at the edge.
        let (of_x, of_y) = (finite(x, area.x), finite(y, area.y));
        let scale = (scale_of(of_x), scale_of(of_y));
        let side = (count as f64).sqrt().ceil() as usize;
        let cells = match (scale.0 > 0.0, scale.1 > 0.0) {
            (true, true) => (side, side),
            (true, false) => (count, 1),
            (false, true) => (1, count),
            (false, false) => (1, 1),
        };
        let mut grid = Grid {
            origin: (of_x.0, of_y.0),
            scale,
            cells,
            starts: Box::default(),
            rows: Box::default(),
            x: Box::default(),
            y: Box::default(),
        };
        grid.sort(x, y);
        Some(grid)
    }

    fn sort(&mut self, x: &[f64], y: &[f64]) {
        let places: Vec<(u16, u16)> = x.iter().zip(y).map(|(x, y)| self.place(*x, *y)).collect();
        let with_point = || (0..x.len()).filter(|row| !(x[*row].is_nan() || y[*row].is_nan()));
        let mut starts = vec![0_u32; self.cells.0 * self.cells.1 + 1];
        with_point().for_each(|row| starts[self.cell(places[row]) + 1] += 1);
        for cell in 1..starts.len() {
            starts[cell] += starts[cell - 1];
        }
        let mut next = starts.clone();
        let count = starts[starts.len() - 1] as usize;
        let (mut rows, mut of_x, mut of_y) = (vec![0_u16; count], vec![0_u16; count], vec![0_u16; count]);
        for row in with_point() {
            let slot = &mut next[self.cell(places[row])];
            let at = *slot as usize;
            (rows[at], of_x[at], of_y[at]) = (row as u16, places[row].0, places[row].1);
            *slot += 1;
        }
        (self.starts, self.rows, self.x, self.y) = (starts.into(), rows.into(), of_x.into(), of_y.into());
    }

    /// The place of a point: it never falls as a coordinate rises.
    fn place(&self, x: f64, y: f64) -> (u16, u16) {
        (((x - self.origin.0) * self.scale.0) as u16, ((y - self.origin.1) * self.scale.1) as u16)
    }

    fn column_and_line(&self, place: (u16, u16)) -> (usize, usize) {
        let part = |place: u16, cells: usize| (usize::from(place) * cells) >> 16;
        (part(place.0, self.cells.0), part(place.1, self.cells.1))
    }

    fn cell(&self, place: (u16, u16)) -> usize {
        let (column, line) = self.column_and_line(place);
        line * self.cells.0 + column
    }

    /// Gives all rows whose points are in the box, in no order; how many were looked at. `x` and `y` are the coordinates
    /// that it was made of.
    pub fn visit(&self, area: &Area, x: &[f64], y: &[f64], mut visit: impl FnMut(usize)) -> u64 {
        // Nothing is between NaN and anything.
        if !(area.x.0 <= area.x.1 && area.y.0 <= area.y.1) {
            return 0;
        }
        let (low, high) = (self.place(area.x.0, area.y.0), self.place(area.x.1, area.y.1));
        let (first, last) = (self.column_and_line(low), self.column_and_line(high));
        let mut examined = 0;
        for line in first.1..=last.1 {
            let cells = line * self.cells.0;
            let (start, end) =
                (self.starts[cells + first.0] as usize, self.starts[cells + last.0 + 1] as usize);
            examined += end - start;
            let places = self.x[start..end].iter().zip(&self.y[start..end]);
            for (row, (of_x, of_y)) in self.rows[start..end].iter().zip(places) {
                if *of_x < low.0 || high.0 < *of_x || *of_y < low.1 || high.1 < *of_y {
                    continue;
                }
                let row = usize::from(*row);
                // A place between those of the edges is between the edges; one beside an edge may be either.
                let is_within = low.0 < *of_x && *of_x < high.0 && low.1 < *of_y && *of_y < high.1;
                if is_within || area.contains(x[row], y[row]) {
                    visit(row);
                }
            }
        }
        examined as u64
    }

    /// Its bytes.
    pub fn bytes(&self) -> usize {
        self.starts.len() * size_of::<u32>() + self.rows.len() * 3 * size_of::<u16>()
    }
}

/// The range of the finite values, given the range of all.
fn finite(values: &[f64], range: (f64, f64)) -> (f64, f64) {
    if range.0.is_finite() && range.1.is_finite() {
        return range;
    }
    let finite = values.iter().filter(|value| value.is_finite());
    finite.fold((f64::INFINITY, f64::NEG_INFINITY), |range, value| (range.0.min(*value), range.1.max(*value)))
}

/// Places per unit in this range; 0 if all values have the same place.
fn scale_of(range: (f64, f64)) -> f64 {
    let extent = range.1 - range.0;
    let scale = PLACES / extent;
    if extent.is_finite() && extent > 0.0 && scale.is_finite() { scale } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Coordinates as they come, and such as no computation likes.
    fn coordinate(number: u64) -> f64 {
        let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.0, 1e300, -1e300, 5e-324, 1e-160];
        match number % 31 {
            at @ 0..9 => odd[at as usize],
            _ => (number / 31 % 97) as f64 / 8.0 - 3.0,
        }
    }

    fn numbers(seed: u64) -> impl Iterator<Item = u64> {
        // SplitMix64: the test repeats.
        (seed..).map(|value| {
            let value = value.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB) >> 7
        })
    }

    #[test]
    fn a_box_has_the_points_that_a_comparison_of_each_finds() {
        for seed in 0..60 {
            let mut numbers = numbers(seed * 10_000);
            let mut next = || numbers.next().unwrap_or(0);
            let plain = |number: u64| (number % 1000) as f64;
            let value: fn(u64) -> f64 = if seed % 2 == 0 { coordinate } else { plain };
            let count = [0, 1, 5, 700][seed as usize % 4];
            let x: Vec<f64> = (0..count).map(|_| value(next())).collect();
            let y: Vec<f64> = (0..count).map(|_| if seed % 5 == 0 { 7.0 } else { value(next()) }).collect();
            let mut area = Area::NOTHING;
            let has_point = |row: &usize| !x[*row].is_nan() && !y[*row].is_nan();
            (0..count).filter(has_point).for_each(|row| area.include(x[row], y[row]));
            let grid = Grid::new(&x, &y, &area).unwrap_or_else(|| panic!("{count} rows fit"));
            for _ in 0..200 {
                let asked = Area { x: (value(next()), value(next())), y: (value(next()), value(next())) };
                let mut found = Vec::new();
                grid.visit(&asked, &x, &y, |row| found.push(row));
                found.sort_unstable();
                let expected: Vec<usize> =
                    (0..count).filter(|row| asked.contains(x[*row], y[*row])).collect();
                assert_eq!(found, expected, "{asked:?} of {seed}");
            }
        }
    }
}
