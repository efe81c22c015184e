//! Sum or mean.

/// Which result a total of some values gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum TotalKind {
    Sum,
    Mean,
}

impl TotalKind {
    /// That of floating-point numbers.
    pub fn of_floats(self, sum: f64, rows: u64) -> f64 {
        match self {
            TotalKind::Sum => sum,
            TotalKind::Mean => sum / rows as f64,
        }
    }
}
