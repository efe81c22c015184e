//! The words of the language as `pg_get_keywords()` lists them.

use tidemill_sql::{is_reserved, keywords};

use super::table::Cell;
use super::table::CellKind::{self, Flag, Text};

pub(super) const PG_GET_KEYWORDS: &[(&str, CellKind)] =
    &[("word", Text), ("catcode", Text), ("barelabel", Flag), ("catdesc", Text), ("baredesc", Text)];

/// The rows of `pg_get_keywords()`.
pub(super) fn rows() -> Vec<Vec<Cell>> {
    let row = |word: &&str| -> Vec<Cell> {
        let word = word.to_ascii_lowercase();
        let is_reserved = is_reserved(&word);
        let (code, meaning) = if is_reserved { ("R", "reserved") } else { ("U", "unreserved") };
        let (bare, label) = if is_reserved { (false, "requires AS") } else { (true, "can be bare label") };
        vec![word.as_str().into(), code.into(), bare.into(), meaning.into(), label.into()]
    };
    keywords().iter().map(row).collect()
}
