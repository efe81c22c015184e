//! Determines the kind of a statement.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast;

use super::client;
use super::ddl::{
    alter, create_function, create_places, create_pool, create_process, create_sink, create_source,
    create_view, drop, stop_start,
};
use super::parser::cursor::Cursor;
use super::parser::tokens::Tokens;
use super::parser::{foreign, plain_words, row_counts, system_time};
use super::{
    Options, RelationKind, Script, Span, Statement, StatementKind, as_of, clauses, depth, describe, explain,
    insert, query, set, show, subscribe,
};
use crate::TextError;

/// What a statement can begin with.
const FIRST_WORDS: [&str; 15] = [
    "SELECT",
    "WITH",
    "VALUES",
    "FROM",
    "CREATE",
    "INSERT",
    "ALTER",
    "DROP",
    "STOP",
    "START",
    "EXPLAIN",
    "SHOW",
    "SET",
    "DESCRIBE",
    "SUBSCRIBE",
];

/// What can be created.
const CREATED: [&str; 10] = [
    "SOURCE",
    "TABLE",
    "VIEW",
    "MATERIALIZED VIEW",
    "FUNCTION",
    "AGGREGATE",
    "PROCESS",
    "PLACES",
    "POOL",
    "SINK",
];

/// Statements of databases that do not exist for streams, and what to do instead.
const NOT_HERE: [(&str, &str); 11] = [
    ("UPDATE", "rows of a stream cannot be changed; derive the changed rows with a query"),
    ("DELETE", "rows of a stream cannot be deleted; exclude them with WHERE"),
    ("MERGE", "rows of a stream cannot be changed; join, or aggregate without a window"),
    ("TRUNCATE", "rows of a stream cannot be deleted; DROP what keeps them, and CREATE it again"),
    ("BEGIN", "there are no transactions; each cycle becomes visible as a whole"),
    ("COMMIT", "there are no transactions; each cycle becomes visible as a whole"),
    ("ROLLBACK", "there are no transactions; each cycle becomes visible as a whole"),
    ("COPY", "use CREATE SINK ... WITH (connector = 'file', path = ...) AS SELECT ..."),
    ("USE", "there is only one catalogue"),
    ("GRANT", "users of a server have a role: ALTER USER name ROLE reader"),
    ("PREPARE", "write the values into the statement"),
];

/// Reads one statement, which has no parameters.
pub(super) fn statement(script: &Arc<Script>, tokens: Tokens) -> Result<Statement, TextError> {
    let span = tokens.span;
    let statement = whole_statement(script, tokens).map_err(|error| foreign::translated(error, span))?;
    match statement.first_parameter() {
        None => Ok(statement),
        Some((name, place)) => Err(clauses::not_given(&statement, &name, place)),
    }
}

/// Reads one statement of a client of PostgreSQL. It may have parameters, and name what is in `pg_catalog`.
pub(super) fn of_client(script: &Arc<Script>, tokens: Tokens) -> Result<Statement, TextError> {
    let span = tokens.span;
    client_statement(script, tokens).map_err(|error| foreign::translated(error, span))
}

/// Reads a change of a table, and the query whose `WITH` stands before it.
pub(super) fn change(
    script: &Arc<Script>,
    tokens: Tokens,
) -> Result<(Box<ast::Statement>, Option<Box<ast::Query>>), TextError> {
    let Tokens { mut main, options, span, end } = tokens;
    if let Some((_, with)) = options {
        return Err(TextError::new(script, with, "a change of a table has no options"));
    }
    row_counts::as_calls(&mut main);
    plain_words::quote(&mut main);
    let mut cursor = Cursor::new(script, main, end);
    let read = cursor.change().and_then(|change| cursor.finish("statement").map(|()| change));
    read.map_err(|error| foreign::translated(error, span))
}

fn client_statement(script: &Arc<Script>, tokens: Tokens) -> Result<Statement, TextError> {
    let mut statement = read(script, tokens)?;
    // A deep tree would take too much stack.
    depth::check(&statement)?;
    client::query::translate(&mut statement.kind);
    check(&statement)?;
    Ok(statement)
}

fn whole_statement(script: &Arc<Script>, tokens: Tokens) -> Result<Statement, TextError> {
    let statement = read(script, tokens)?;
    check(&statement)?;
    Ok(statement)
}

fn read(script: &Arc<Script>, tokens: Tokens) -> Result<Statement, TextError> {
    let Tokens { mut main, options, span, end } = tokens;
    let as_of = as_of::take(&mut main, script, end)?;
    row_counts::as_calls(&mut main);
    system_time::as_partitions(&mut main);
    plain_words::quote(&mut main);
    let (options, main_end) = match options {
        Some((tokens, with)) => {
            let mut cursor = Cursor::new(script, tokens, end);
            let read = Options::read(&mut cursor, with);
            (read.and_then(|options| cursor.finish("options").map(|()| options)), with)
        }
        None => (Ok(Options::none(script, span)), end),
    };
    let mut cursor = Cursor::new(script, main, main_end);
    // An error before the options comes first, wherever it is in the text.
    let given = options.as_ref().cloned().unwrap_or_else(|_| Options::none(script, span));
    let as_of_span = as_of.as_ref().map(|(_, span)| *span);
    let statement = whole(&mut cursor, given.with_as_of(as_of), span)?;
    options?;
    if let Some(place) = as_of_span.filter(|_| !is_query(&statement)) {
        let error = statement.error(place, "AS OF is only for a SELECT over materialized views that run");
        return Err(error.with_hint("remove it"));
    }
    Ok(statement)
}

fn is_query(statement: &Statement) -> bool {
    match &statement.kind {
        StatementKind::Query(..) => true,
        StatementKind::Explain { statement, .. } => is_query(statement),
        _ => false,
    }
}

fn check(statement: &Statement) -> Result<(), TextError> {
    check_options(statement)?;
    depth::check(statement)?;
    clauses::check(statement)
}

/// A source and a sink must say where their rows are.
fn check_options(statement: &Statement) -> Result<(), TextError> {
    let (name, options, missing) = match &statement.kind {
        StatementKind::CreateSource(source) => (&source.name, &source.options, "where its rows come from"),
        StatementKind::CreateTable(table) => (&table.name, &table.options, "where its rows come from"),
        StatementKind::CreateSink(sink) => (&sink.name, &sink.options, "where its rows go"),
        StatementKind::Explain { statement, .. } => return check_options(statement),
        _ => return Ok(()),
    };
    if !options.is_empty() {
        return Ok(());
    }
    let error = statement.error(name.span, format!("`{name}` does not say {missing}"));
    Err(error.with_hint("add WITH (connector = 'file', path = ...)"))
}

/// Reads a statement to its end.
fn whole(cursor: &mut Cursor<'_>, options: Options, span: Span) -> Result<Statement, TextError> {
    let script = cursor.script();
    let kind = kind(cursor, options, span)?;
    Ok(Statement { kind, span, text: script.slice(span).to_owned(), script: Arc::clone(script) })
}

fn kind(cursor: &mut Cursor<'_>, options: Options, span: Span) -> Result<StatementKind, TextError> {
    let first = cursor.here();
    if cursor.take(&["CREATE"]) {
        return create(cursor, options);
    }
    if cursor.take(&["INSERT"]) {
        return insert::read(cursor, options);
    }
    if cursor.take(&["EXPLAIN"]) {
        return explain::read(cursor, options, span, whole);
    }
    if cursor.sees_query() {
        return query::read(cursor, options);
    }
    let (name, kind) = if cursor.take(&["DROP"]) {
        ("DROP", drop::read(cursor)?)
    } else if cursor.take(&["ALTER"]) {
        ("ALTER", alter::read(cursor)?)
    } else if cursor.take(&["STOP"]) {
        ("STOP", StatementKind::Stop(stop_start::read(cursor, "stopped")?))
    } else if cursor.sees(&["START", "TRANSACTION"]) {
        let error =
            TextError::new(cursor.script(), cursor.here(), "START TRANSACTION is not part of the language");
        return Err(error.with_hint("there are no transactions; each cycle becomes visible as a whole"));
    } else if cursor.take(&["START"]) {
        ("START", StatementKind::Start(stop_start::read(cursor, "started")?))
    } else if cursor.take(&["SHOW"]) {
        ("SHOW", show::read(cursor)?)
    } else if cursor.take(&["DESCRIBE"]) || cursor.take(&["DESC"]) {
        ("DESCRIBE", describe::read(cursor)?)
    } else if cursor.take(&["SUBSCRIBE"]) {
        ("SUBSCRIBE", subscribe::read(cursor)?)
    } else if cursor.take(&["SET"]) {
        ("SET", set::read(cursor, first)?)
    } else {
        return Err(unknown(cursor));
    };
    cursor.finish(&format!("{name} statement"))?;
    without_options(&options, name, kind)
}

fn unknown(cursor: &Cursor<'_>) -> TextError {
    let error = cursor.expected_one_of(&FIRST_WORDS);
    let Some((word, hint)) = NOT_HERE.iter().find(|(word, _)| cursor.sees(&[word])) else {
        return error;
    };
    TextError { message: format!("{word} is not part of the language"), ..error }.with_hint(*hint)
}

/// Reads a statement that accepts no options.
type ReadWithoutOptions = fn(&mut Cursor<'_>, bool) -> Result<StatementKind, TextError>;

fn without_options(options: &Options, name: &str, kind: StatementKind) -> Result<StatementKind, TextError> {
    options.refuse(name).map(|()| kind)
}

fn create(cursor: &mut Cursor<'_>, options: Options) -> Result<StatementKind, TextError> {
    let or_replace = cursor.take(&["OR"]);
    if or_replace {
        cursor.expect("REPLACE")?;
    }
    if cursor.take(&["MATERIALIZED", "VIEW"]) {
        return create_view::read_materialized(cursor, or_replace, options);
    }
    if cursor.take(&["VIEW"]) {
        return create_view::read(cursor, or_replace, options);
    }
    if cursor.take(&["FUNCTION"]) {
        return create_function::read(cursor, or_replace, options);
    }
    if cursor.take(&["AGGREGATE"]) {
        return create_function::read_aggregate(cursor, or_replace, options);
    }
    for (word, read) in
        [("PROCESS", create_process::read as ReadWithoutOptions), ("PLACES", create_places::read)]
    {
        if cursor.take(&[word]) {
            return without_options(&options, &format!("CREATE {word}"), read(cursor, or_replace)?);
        }
    }
    if cursor.take(&["POOL"]) {
        return create_pool::read(cursor, or_replace, options);
    }
    if cursor.take(&["SINK"]) {
        return create_sink::read(cursor, or_replace, options);
    }
    if cursor.take(&["SOURCE"]) {
        let source = create_source::read(cursor, RelationKind::Source, or_replace, options)?;
        return Ok(StatementKind::CreateSource(source));
    }
    if cursor.take(&["TABLE"]) {
        let table = create_source::read(cursor, RelationKind::Table, or_replace, options)?;
        return Ok(StatementKind::CreateTable(table));
    }
    Err(cursor.expected_one_of(&CREATED))
}
