//! Fuzzing as an ordinary test: the files of a corpus are damaged at random and read, for some seconds.
//!
//! | variable | what |
//! |---|---|
//! | `TIDEMILL_FUZZ_SECONDS` | how long each target is fuzzed; by default 5 |
//! | `TIDEMILL_FUZZ_CASES` | how many cases instead, however long they take |
//! | `TIDEMILL_FUZZ_SEED` | the seed of the first case, by default 0, `new` for others each time; the next case has the next number |
//!
//! A failure prints the seed of its case: that, and one case, repeat it.

pub mod cases;
pub mod corpus;
pub mod damage;
