//! The mark of a source whose rows come and go: a column says how many of each.

use datafusion::common::DFSchema;

use super::marked::{Mark, Marked};

/// The number of the column.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Hash)]
pub(crate) struct Weights(pub usize);

/// A stream read as a changelog. The column has no meaning for the rows themselves.
pub(crate) type WeightedRows = Marked<Weights>;

impl Mark for Weights {
    const NAME: &'static str = "WeightedRows";

    fn shown(&self, schema: &DFSchema) -> String {
        schema.field(self.0).name().clone()
    }
}
