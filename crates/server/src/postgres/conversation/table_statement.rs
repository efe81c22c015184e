//! `CREATE TABLE name (column type, ...)` and `DROP TABLE name`, as programs write them that put rows into tables of their own.

use tidemill_sql::{Piece, Statement};

use super::words::{closed, folded};
use crate::postgres::client_tables::quoted;
use crate::report::{NOT_SUPPORTED, Report, SYNTAX_ERROR};

/// A statement about a table into which clients put rows.
#[derive(Clone, Debug)]
pub(crate) enum TableStatement {
    Create(NewTable),
    /// With the statement of the language, for other relations.
    Drop {
        names: Vec<String>,
        is_lenient: bool,
        statement: Option<Box<Statement>>,
    },
    /// `CREATE INDEX ... ON name`: rows are read without one.
    Index(String),
}

/// A table that is to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NewTable {
    pub name: String,
    /// Whether one that exists is left as it is.
    pub is_lenient: bool,
    /// The name of each column, and its definition as the language has it.
    pub columns: Vec<(String, String)>,
}

type Read<T> = std::result::Result<T, Report>;

/// Words that begin something about a column that is not its type.
const CONSTRAINTS: [&str; 11] = [
    "CHECK",
    "COLLATE",
    "CONSTRAINT",
    "DEFAULT",
    "GENERATED",
    "NOT",
    "NULL",
    "PRIMARY",
    "REFERENCES",
    "STORAGE",
    "UNIQUE",
];
/// Words that begin a constraint, or another part of a table, instead of a column.
const PARTS: [&str; 7] = ["CHECK", "CONSTRAINT", "EXCLUDE", "FOREIGN", "LIKE", "PRIMARY", "UNIQUE"];
/// Kinds of tables that there are not.
const KINDS: [&str; 5] = ["GLOBAL", "LOCAL", "TEMP", "TEMPORARY", "UNLOGGED"];

impl TableStatement {
    /// What a statement says whose words these are; `None` if it is not about such tables.
    pub fn read(piece: &Piece, words: &[String]) -> Option<Read<TableStatement>> {
        let upper: Vec<String> = words.iter().take(6).map(|word| word.to_ascii_uppercase()).collect();
        let upper: Vec<&str> = upper.iter().map(String::as_str).collect();
        match upper.as_slice() {
            ["CREATE", kind, ..] if KINDS.contains(kind) => {
                let report = Report::error(NOT_SUPPORTED, "each table is there for all sessions, and stays");
                Some(Err(report.with_hint("CREATE TABLE name (...), and DROP TABLE name at the end")))
            }
            ["CREATE", "TABLE", "IF", "NOT", "EXISTS", ..] => create(piece, words, 5),
            ["CREATE", "TABLE", ..] => create(piece, words, 2),
            ["DROP", "TABLE", "IF", "EXISTS", ..] => drop(piece, &words[4..], true),
            ["DROP", "TABLE", ..] => drop(piece, &words[2..], false),
            ["CREATE", "UNIQUE", "INDEX", ..] => {
                let report = Report::error(NOT_SUPPORTED, "no column is declared to be unique");
                Some(Err(report.with_hint(KEYS)))
            }
            ["CREATE", "INDEX", ..] => Some(index(words)),
            _ => None,
        }
    }
}

const KEYS: &str = "a view has a key, and the newest row of each: \
     CREATE MATERIALIZED VIEW name PRIMARY KEY (column) AS SELECT ... FROM table";

/// Returns the name at the beginning, and how many words it has.
fn relation(words: &[String]) -> Option<(String, usize)> {
    match words {
        [schema, dot, name, ..] if dot == "." && folded(schema) == "public" => Some((folded(name), 3)),
        [name, ..] => Some((folded(name), 1)),
        [] => None,
    }
}

/// Reads `name (column type, ...)`. What says where the rows come from, or is a query, is a statement of the language.
fn create(piece: &Piece, words: &[String], at: usize) -> Option<Read<TableStatement>> {
    let (name, count) = relation(&words[at..])?;
    let definitions = &words[at + count..];
    let is_whole = definitions.first()? == "(" && closed(definitions)? + 1 == definitions.len();
    if !is_whole || !piece.option_words().is_empty() {
        return None;
    }
    let columns = split(&definitions[1..definitions.len() - 1]).into_iter().map(column);
    let columns = columns.collect::<Read<Vec<_>>>();
    Some(columns.map(|columns| TableStatement::Create(NewTable { name, is_lenient: at > 2, columns })))
}

/// Divides words at the commas that are in no parentheses.
fn split(words: &[String]) -> Vec<&[String]> {
    let mut depth = 0_usize;
    let parts = words.split(|word| {
        match word.as_str() {
            "(" => depth += 1,
            ")" => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && word == ","
    });
    parts.collect()
}

/// Reads the definition of a column: its name, and the whole as the language has it.
fn column(words: &[String]) -> Read<(String, String)> {
    let upper: Vec<String> = words.iter().map(|word| word.to_ascii_uppercase()).collect();
    let Some((first, rest)) = words.split_first() else {
        let report = Report::error(SYNTAX_ERROR, "a column has no name");
        return Err(report.with_hint("CREATE TABLE name (column type, ...)"));
    };
    if PARTS.contains(&upper[0].as_str()) {
        let report = Report::error(NOT_SUPPORTED, format!("a table has columns, and no {}", upper[0]));
        return Err(report.with_hint(KEYS));
    }
    let end = upper.iter().position(|word| CONSTRAINTS.contains(&word.as_str())).unwrap_or(words.len());
    let nullability = match upper[end..].iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] | ["NULL"] => "",
        ["NOT", "NULL"] => " NOT NULL",
        other => {
            let message = format!("a column of a table can be NOT NULL, but not {}", other.join(" "));
            return Err(Report::error(NOT_SUPPORTED, message).with_hint(KEYS));
        }
    };
    let name = folded(first);
    let data_type = match &rest[..end.max(1) - 1] {
        [item @ .., array] if array.eq_ignore_ascii_case("ARRAY") => format!("{}[]", item.join(" ")),
        data_type => data_type.join(" "),
    };
    Ok((name.clone(), format!("{} {data_type}{nullability}", quoted(&name))))
}

/// Reads the names behind `DROP TABLE`.
fn drop(piece: &Piece, words: &[String], is_lenient: bool) -> Option<Read<TableStatement>> {
    let mut words = words.to_vec();
    if words.last().is_some_and(|word| ["CASCADE", "RESTRICT"].contains(&word.to_uppercase().as_str())) {
        // What reads the table is dropped by the language only.
        words.pop();
    }
    let mut names = Vec::new();
    for part in split(&words) {
        let (name, count) = relation(part)?;
        if count != part.len() {
            return None;
        }
        names.push(name);
    }
    let statement = piece.read().ok().map(Box::new);
    Some(Ok(TableStatement::Drop { names, is_lenient, statement }))
}

/// Reads the name of the relation behind `ON`.
fn index(words: &[String]) -> Read<TableStatement> {
    let on = words.iter().position(|word| word.eq_ignore_ascii_case("ON"));
    let behind = on.map(|on| &words[on + 1..]).unwrap_or_default();
    let behind = match behind {
        [only, rest @ ..] if only.eq_ignore_ascii_case("ONLY") => rest,
        behind => behind,
    };
    let wrong = || Report::error(SYNTAX_ERROR, "the statement does not say of which table the index is");
    let (name, _) = relation(behind).ok_or_else(wrong)?;
    Ok(TableStatement::Index(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<Read<TableStatement>> {
        let piece = tidemill_sql::divide(text, "test").unwrap().remove(0);
        TableStatement::read(&piece, &piece.words())
    }

    fn columns(text: &str) -> Vec<String> {
        match read(text) {
            Some(Ok(TableStatement::Create(table))) => {
                table.columns.into_iter().map(|(_, definition)| definition).collect()
            }
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn a_table_is_created_with_its_columns() {
        let text = "\n\tCREATE TABLE public.\"T 1\" (\n\tId BIGINT NOT NULL, \n\t\"N\" NUMERIC(10, 2), \
             at TIMESTAMP WITHOUT TIME ZONE NULL)";
        let expected =
            ["\"id\" BIGINT NOT NULL", "\"N\" NUMERIC ( 10 , 2 )", "\"at\" TIMESTAMP WITHOUT TIME ZONE"];
        assert_eq!(columns(text), expected);
        for other in [
            "CREATE TABLE t (a INT) WITH (connector = 'file', path = 'x.csv')",
            "CREATE TABLE t AS SELECT 1 AS a",
            "DROP VIEW t",
        ] {
            assert!(read(other).is_none(), "{other}");
        }
        for wrong in [
            "CREATE TABLE t (a INT PRIMARY KEY)",
            "CREATE TABLE t (a INT, PRIMARY KEY (a))",
            "CREATE TABLE t (a INT DEFAULT 3)",
            "CREATE TABLE t ()",
            "CREATE TEMP TABLE t (a INT)",
            "CREATE UNIQUE INDEX i ON t (a)",
        ] {
            assert!(read(wrong).is_some_and(|read| read.is_err()), "{wrong}");
        }
    }

    #[test]
    fn tables_are_dropped_and_indexed_by_their_names() {
        let Some(Ok(TableStatement::Drop { names, is_lenient: true, .. })) =
            read("DROP TABLE IF EXISTS A, public.\"B\" CASCADE")
        else {
            panic!("it drops")
        };
        assert_eq!(names, ["a", "B"]);
        let Some(Ok(TableStatement::Index(name))) =
            read("CREATE INDEX CONCURRENTLY i ON ONLY public.t USING btree (a)")
        else {
            panic!("an index")
        };
        assert_eq!(name, "t");
    }
}
