//! A limit of the parser's work.
//!
//! Where a word may begin several things, the parser tries one after the other, and so for each level of a nested
//! expression: the work can double with each level. The parser asks the dialect before it reads an expression, so that is
//! where the work is counted.

use std::cell::Cell;

use datafusion::sql::sqlparser::parser::ParserError;

/// How many expressions the parser may begin in any statement, however short it is.
const STEPS_MIN: usize = 50_000;
/// How many more it may begin for each token. Each is begun a few times.
const STEPS_PER_TOKEN: usize = 20;

thread_local! {
    /// How many expressions the parser may still begin in the statement that this thread reads.
    static STEPS_LEFT: Cell<usize> = const { Cell::new(0) };
}

/// Allows the work that a statement with this number of tokens needs.
pub(super) fn allow_steps(tokens: usize) {
    STEPS_LEFT.set(tokens.saturating_mul(STEPS_PER_TOKEN).saturating_add(STEPS_MIN));
}

/// Counts an expression that begins.
pub(super) fn take_step() -> Result<(), ParserError> {
    let left = STEPS_LEFT.get().checked_sub(1).ok_or(ParserError::RecursionLimitExceeded)?;
    STEPS_LEFT.set(left);
    Ok(())
}
