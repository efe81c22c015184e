//! Programs: one is started for each cycle that has rows, and reads them from its standard input.

mod process;
mod sink;

pub use sink::{CommandSink, CommandSinkSettings};
