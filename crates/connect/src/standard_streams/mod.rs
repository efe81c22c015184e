//! Standard input and standard output, or other readers and writers that must be waited for.

mod input;
mod latest_table;
mod output;

pub use input::{StandardInput, StreamSettings};
pub use latest_table::LatestTable;
pub use output::{OUTPUT_CLOSED, StandardOutput, is_output_closed};
