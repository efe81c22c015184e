//! The mark of `table FOR SYSTEM_TIME AS OF stream.at`: each row of the stream is joined once, with what the table has when it comes.

use datafusion::common::DFSchema;

use super::marked::{Mark, Marked};

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Hash)]
pub(crate) struct RowMoment;

/// A table that a join reads as it is when each row of the stream comes.
pub(crate) type AsOfTheRow = Marked<RowMoment>;

impl Mark for RowMoment {
    const NAME: &'static str = "AsOfTheRow";

    fn shown(&self, _schema: &DFSchema) -> String {
        String::new()
    }
}
