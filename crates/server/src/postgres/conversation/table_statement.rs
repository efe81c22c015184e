//! `CREATE TABLE name (column type, ...)` and `DROP TABLE name`, as programs write them that put rows into tables of their own.

use tidemill_sql::{NewTable, NewTableColumn, Piece, Statement};

use super::words::{closed, folded};
use crate::report::{NOT_SUPPORTED, Report, SYNTAX_ERROR};

/// A statement about a table into which clients put rows.
#[derive(Clone, Debug)]
pub(crate) enum TableStatement {
    /// Whether one that exists is left as it is comes second.
    Create(NewTable, bool),
    /// With the statement of the language, for other relations.
    Drop { names: Vec<String>, is_lenient: bool, statement: Option<Box<Statement>> },
    /// `CREATE INDEX ... ON name`: rows are read without one.
    Index(String),
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
                let report = Report::error(NOT_SUPPORTED, "only the primary key of a table is unique");
                Some(Err(report.with_hint(KEYS)))
            }
            ["CREATE", "INDEX", ..] => Some(index(words)),
            _ => None,
        }
    }
}

const KEYS: &str = "a table has one key: PRIMARY KEY (column, ...)";

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
    let mut table = NewTable { name, columns: Vec::new(), key: Vec::new() };
    let parts = split(&definitions[1..definitions.len() - 1]);
    let read = parts.into_iter().try_for_each(|part| add_part(&mut table, part));
    Some(read.and_then(|()| checked(table)).map(|table| TableStatement::Create(table, at > 2)))
}

/// Whether the key of a table is made of its columns.
fn checked(table: NewTable) -> Read<NewTable> {
    let is_there = |name: &&String| table.columns.iter().any(|column| column.name == **name);
    match table.key.iter().find(|name| !is_there(name)) {
        Some(unknown) => {
            let message = format!("column \"{unknown}\" named in key does not exist");
            Err(Report::error("42703", message))
        }
        None => Ok(table),
    }
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

/// Reads a part of a table: a column, or its key.
fn add_part(table: &mut NewTable, words: &[String]) -> Read<()> {
    let upper: Vec<String> = words.iter().map(|word| word.to_ascii_uppercase()).collect();
    let Some((first, rest)) = words.split_first() else {
        let report = Report::error(SYNTAX_ERROR, "a column has no name");
        return Err(report.with_hint("CREATE TABLE name (column type, ...)"));
    };
    let at = if upper[0] == "CONSTRAINT" { 2 } else { 0 };
    if upper.get(at).is_some_and(|word| PARTS.contains(&word.as_str())) {
        return key(table, &words[at..], &upper[at..]);
    }
    let end = upper.iter().skip(1).position(|word| CONSTRAINTS.contains(&word.as_str()));
    let end = end.map_or(words.len(), |end| end + 1);
    let name = folded(first);
    let mut declaration = match &rest[..end - 1] {
        [item @ .., array] if array.eq_ignore_ascii_case("ARRAY") => format!("{}[]", item.join(" ")),
        data_type => data_type.join(" "),
    };
    let mut at = end;
    while at < words.len() {
        match upper[at..].iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            ["NULL", ..] => at += 1,
            ["NOT", "NULL", ..] => {
                declaration.push_str(" NOT NULL");
                at += 2;
            }
            ["CONSTRAINT", _, ..] => at += 2,
            ["PRIMARY", "KEY", ..] => {
                if !table.key.is_empty() {
                    return Err(Report::error("42P16", "a table has one primary key").with_hint(KEYS));
                }
                if !declaration.ends_with(" NOT NULL") {
                    declaration.push_str(" NOT NULL");
                }
                table.key.push(name.clone());
                at += 2;
            }
            ["DEFAULT", ..] => {
                let behind = at + 1 + expression(&words[at + 1..]);
                declaration.push_str(&format!(" DEFAULT ({})", words[at + 1..behind].join(" ")));
                at = behind;
            }
            other => return Err(refused(other)),
        }
    }
    // A column that is NOT NULL twice.
    let declaration = declaration.replacen(" NOT NULL NOT NULL", " NOT NULL", 1);
    table.columns.push(NewTableColumn { name, declaration });
    Ok(())
}

/// Reads `PRIMARY KEY (column, ...)`.
fn key(table: &mut NewTable, words: &[String], upper: &[String]) -> Read<()> {
    let upper: Vec<&str> = upper.iter().map(String::as_str).collect();
    match upper.as_slice() {
        ["PRIMARY", "KEY", "(", .., ")"] if table.key.is_empty() => {
            let columns = words[3..words.len() - 1].iter().filter(|word| *word != ",");
            table.key = columns.map(|word| folded(word)).collect();
            Ok(())
        }
        ["PRIMARY", ..] => Err(Report::error("42P16", "a table has one primary key").with_hint(KEYS)),
        other => Err(refused(other)),
    }
}

/// How many words an expression has: up to the next constraint that is in no parentheses.
fn expression(words: &[String]) -> usize {
    let mut depth = 0_usize;
    for (at, word) in words.iter().enumerate() {
        match word.to_ascii_uppercase().as_str() {
            "(" => depth += 1,
            ")" => depth = depth.saturating_sub(1),
            // `DEFAULT NULL` is an expression.
            "NULL" if at == 0 => {}
            word if depth == 0 && CONSTRAINTS.contains(&word) => return at,
            _ => {}
        }
    }
    words.len()
}

/// Says what to write instead of a constraint that there is not.
fn refused(words: &[&str]) -> Report {
    let word = words.first().copied().unwrap_or_default();
    let hint = match word {
        "UNIQUE" => KEYS,
        "CHECK" => {
            "a view shows the rows for which it is not so: CREATE MATERIALIZED VIEW wrong AS SELECT ... WHERE NOT ..."
        }
        "FOREIGN" | "REFERENCES" => {
            "a view shows rows without a partner: CREATE MATERIALIZED VIEW lost AS SELECT ... WHERE NOT EXISTS (...)"
        }
        "GENERATED" | "AS" => {
            "compute it in a view: CREATE MATERIALIZED VIEW name AS SELECT *, ... FROM table"
        }
        _ => "a column has a type, NOT NULL, DEFAULT and PRIMARY KEY",
    };
    let message = format!("a table has no {}", words.iter().take(2).copied().collect::<Vec<_>>().join(" "));
    Report::error(NOT_SUPPORTED, message).with_hint(hint)
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

    fn created(text: &str) -> NewTable {
        match read(text) {
            Some(Ok(TableStatement::Create(table, _))) => table,
            other => panic!("{text}: {other:?}"),
        }
    }

    fn declarations(text: &str) -> Vec<String> {
        let columns = created(text).columns.into_iter();
        columns.map(|column| format!("{}: {}", column.name, column.declaration)).collect()
    }

    #[test]
    fn a_table_is_created_with_its_columns() {
        let text = "\n\tCREATE TABLE public.\"T 1\" (\n\tId BIGINT NOT NULL, \n\t\"N\" NUMERIC(10, 2), \
             at TIMESTAMP WITHOUT TIME ZONE NULL)";
        let expected = ["id: BIGINT NOT NULL", "N: NUMERIC ( 10 , 2 )", "at: TIMESTAMP WITHOUT TIME ZONE"];
        assert_eq!(declarations(text), expected);
        let text = "CREATE TABLE t (id INT PRIMARY KEY, tier TEXT NOT NULL DEFAULT lower('A' || 'b'), \
             n INT DEFAULT NULL)";
        let expected = [
            "id: INT NOT NULL",
            "tier: TEXT NOT NULL DEFAULT (lower ( 'A' || 'b' ))",
            "n: INT DEFAULT (NULL)",
        ];
        assert_eq!(
            (declarations(text), created(text).key),
            (expected.map(str::to_owned).to_vec(), vec!["id".to_owned()])
        );
        assert_eq!(created("CREATE TABLE t (a INT, b INT, CONSTRAINT k PRIMARY KEY (b, a))").key, ["b", "a"]);
        for other in [
            "CREATE TABLE t (a INT) WITH (connector = 'file', path = 'x.csv')",
            "CREATE TABLE t AS SELECT 1 AS a",
            "DROP VIEW t",
        ] {
            assert!(read(other).is_none(), "{other}");
        }
        for wrong in [
            "CREATE TABLE t (a INT UNIQUE)",
            "CREATE TABLE t (a INT CHECK (a > 0))",
            "CREATE TABLE t (a INT REFERENCES u)",
            "CREATE TABLE t (a INT, PRIMARY KEY (b))",
            "CREATE TABLE t (a INT PRIMARY KEY, b INT PRIMARY KEY)",
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
