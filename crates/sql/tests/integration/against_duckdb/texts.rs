//! Functions of texts, and patterns.

use super::expression::Expressions;
use super::sql::{Sql, both, side, sql};

const WORDS: &[&str] = &["", "a", "ab", "b", "ä", "日", "%", "_", "\\", "null"];
/// With a backslash before each character that has a special meaning.
const PATTERNS: &[&str] =
    &["a\\%b", "%\\_%", "\\%", "%\\\\%", "a\\_b", "_\\%_", "É%", "%E%", "日_", "_", "%\n%"];
const REGULAR: &[&str] =
    &["b", "^a", "b$", "^a.*b$", "[ab]+", "ä|日", "^$", "a{2,}", "\\d+", "^\\s", "(ab)+c", "."];

impl Expressions<'_> {
    pub fn text_function(&mut self, depth: u32) -> Sql {
        let text = self.text(depth);
        let word = self.one_word();
        let length = Sql::same(self.random.one_of(&["0", "1", "3", "7"]));
        match self.random.index(10) {
            0 => sql!("ltrim({})", text),
            1 => sql!("rtrim({})", text),
            2 => sql!("lpad({}, {}, '日x')", text, length),
            3 => sql!("rpad({}, {}, 'ä')", text, length),
            4 => sql!("repeat({}, {})", text, Sql::same(self.random.one_of(&["0", "1", "2"]))),
            5 => sql!("translate({}, 'aä日', 'x')", text),
            6 => sql!("concat_ws('-', {}, {}, {})", text, word, self.text(0)),
            7 => sql!("substring({} FROM {})", text, Sql::same(self.random.one_of(&["1", "2", "5"]))),
            8 => {
                sql!("regexp_replace({}, '[ab]', 'X'{})", text, Sql::same(self.random.one_of(&[", 'g'", ""])))
            }
            _ => sql!("trim(BOTH 'a' FROM {})", text),
        }
    }

    /// BIGINT.
    pub fn number_of_text(&mut self, depth: u32) -> Sql {
        let text = self.text(depth);
        match self.random.index(4) {
            0 => sql!("CAST(strpos({}, {}) AS BIGINT)", text, self.one_word()),
            1 => sql!("CAST(position({} IN {}) AS BIGINT)", self.one_word(), text),
            2 => sql!("CAST(ascii({}) AS BIGINT)", self.column(&["w"])),
            _ => sql!("CAST(char_length({}) AS BIGINT)", text),
        }
    }

    pub fn text_condition(&mut self) -> Sql {
        let text = self.text(1);
        let not = Sql::same(self.random.one_of(&["", "NOT "]));
        match self.random.index(7) {
            0 | 1 => {
                let pattern = self.random.one_of(PATTERNS);
                let like = self.random.one_of(&["LIKE", "ILIKE"]);
                both(|ours| {
                    // In DuckDB no character escapes unless ESCAPE is given.
                    let escape = if ours { "" } else { " ESCAPE '\\'" };
                    format!("({} {}{like} '{pattern}'{escape})", side(&text, ours), side(&not, ours))
                })
            }
            2 => {
                let pattern = self.random.one_of(REGULAR);
                let matches = if not.ours.is_empty() { "~" } else { "!~" };
                both(|ours| {
                    if ours {
                        format!("({} {matches} '{pattern}')", text.ours)
                    } else {
                        format!("({}regexp_matches({}, '{pattern}'))", not.duckdb, text.duckdb)
                    }
                })
            }
            // No backslash: within a value it escapes here, and not in DuckDB.
            3 => sql!("({} {}LIKE {})", text, not, self.column(&["w"])),
            4 => {
                let word = self.random.one_of(WORDS);
                let letters = word.chars().count();
                both(|ours| {
                    if ours {
                        format!("starts_with({}, '{word}')", text.ours)
                    } else {
                        // In DuckDB 2.0, WHERE starts_with(nullif(s, 'A'), '') keeps rows whose condition is NULL.
                        format!("(left({}, {letters}) = '{word}')", text.duckdb)
                    }
                })
            }
            5 => sql!("({} {}IN ({}, {}, NULL))", text, not, self.one_word(), self.one_word()),
            _ => sql!("({} IS DISTINCT FROM {})", text, self.text(0)),
        }
    }

    fn one_word(&mut self) -> Sql {
        Sql::same(format!("'{}'", self.random.one_of(WORDS)))
    }
}
