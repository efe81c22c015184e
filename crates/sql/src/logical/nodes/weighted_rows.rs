//! The mark of a source whose rows come and go: a column says how many of each.

use datafusion::common::DFSchema;

use super::marked::{Mark, Marked};

/// The number of the column, and of the one that says for which query alone a row is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Hash)]
pub(crate) struct Weights(pub usize, pub Option<usize>);

/// A stream read as a changelog. The columns have no meaning for the rows themselves.
pub(crate) type WeightedRows = Marked<Weights>;

impl Mark for Weights {
    const NAME: &'static str = "WeightedRows";

    fn shown(&self, schema: &DFSchema) -> String {
        schema.field(self.0).name().clone()
    }
}
