//! All integration tests of this package in one binary, so that they are linked once.

mod aggregates;
mod changes;
mod count_windows;
mod cycles;
mod interval_join;
mod lookup;
mod ordering;
mod over;
mod regions;
mod restored;
mod state_rows;
mod table_join;
mod top;
