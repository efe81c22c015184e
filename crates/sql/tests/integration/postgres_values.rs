//! Expressions have the values that they have in PostgreSQL. The tables have one in a line, with the value that PostgreSQL gave. If
//! its server is installed, it is asked again, so that the tables cannot be wrong; where the language differs on purpose, the line says how.
//!
//! `postgres_literals.txt` has each type beside an untyped text, in each construct that makes its parts values of one type.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use tidemill_sql::{Planner, Reply, divide};

/// An expression, PostgreSQL's value as text, and ours if it is another one on purpose.
struct Line {
    expression: String,
    expected: String,
    ours: Option<String>,
}

/// The tables.
const TABLES: [&str; 2] = ["postgres_values.txt", "postgres_literals.txt"];

fn lines(table: &str) -> Vec<Line> {
    let path = std::env::var("CARGO_MANIFEST_DIR").unwrap() + "/tests/integration/" + table;
    let text = std::fs::read_to_string(path).unwrap();
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with("# "));
    let parts = lines.map(|line| line.split(" => ").collect::<Vec<_>>());
    parts
        .map(|parts| match parts.as_slice() {
            [expression, expected] => {
                Line { expression: (*expression).into(), expected: (*expected).into(), ours: None }
            }
            [expression, expected, ours] => Line {
                expression: (*expression).into(),
                expected: (*expected).into(),
                ours: Some((*ours).into()),
            },
            _ => panic!("not an expression and its value: {parts:?}"),
        })
        .collect()
}

/// A value as PostgreSQL writes it.
fn text(values: &ArrayRef, row: usize) -> String {
    if values.is_null(row) || values.data_type().is_null() {
        return "NULL".to_owned();
    }
    match values.data_type() {
        DataType::List(_) => {
            let items = values.as_list::<i32>().value(row);
            let is_list = matches!(items.data_type(), DataType::List(_));
            let item = |at: usize| match text(&items, at) {
                empty if empty.is_empty() => "\"\"".to_owned(),
                word if word.contains([' ', ',', '"']) && !is_list => {
                    format!("\"{}\"", word.replace('"', "\\\""))
                }
                word => word,
            };
            format!("{{{}}}", (0..items.len()).map(item).collect::<Vec<_>>().join(","))
        }
        DataType::Binary => {
            let bytes = values.as_binary::<i32>().value(row);
            "\\x".to_owned() + &bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
        }
        _ => {
            let formatter = ArrayFormatter::try_new(values, &FormatOptions::default()).unwrap();
            formatter.value(row).to_string()
        }
    }
}

fn ours(expression: &str) -> String {
    let query = format!("SELECT {expression}");
    let answer = divide(&query, "test")
        .and_then(|pieces| pieces[0].read())
        .and_then(|statement| Planner::new().execute(&statement));
    match answer {
        Ok(Reply::Rows(rows)) => text(rows.column(0), 0),
        Ok(_) => "no rows".to_owned(),
        Err(_) => "ERROR".to_owned(),
    }
}

/// Whether two texts are the same value: numbers may have more zeros at their ends.
fn is_same(one: &str, other: &str) -> bool {
    let number = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite());
    one == other || matches!((number(one), number(other)), (Some(one), Some(other)) if one == other)
}

#[test]
fn values_are_those_of_the_tables() {
    let lines = TABLES.into_iter().flat_map(lines);
    let wrong = lines.filter_map(|line| {
        let (found, expected) = (ours(&line.expression), line.ours.unwrap_or(line.expected));
        (!is_same(&found, &expected)).then(|| format!("{}: {found}, not {expected}", line.expression))
    });
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_tables_are_right() {
    let Some(programs) = programs() else {
        eprintln!("skipped: there is no PostgreSQL server here (tests/postgres/install.sh)");
        return;
    };
    let lines: Vec<Line> = TABLES.into_iter().flat_map(lines).collect();
    let answers = answers(&programs, &lines);
    assert_eq!(answers.len(), lines.len());
    for (line, answer) in lines.iter().zip(answers) {
        assert!(is_same(&answer, &line.expected), "{}: PostgreSQL says {answer}", line.expression);
        let differs = line.ours.as_ref().is_none_or(|ours| !is_same(ours, &answer));
        assert!(differs, "{} does not differ", line.expression);
    }
}

fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let programs = versions.filter_map(|entry| Some(entry.ok()?.path().join("bin")));
    programs.filter(|programs| programs.join("postgres").exists()).max()
}

/// What a server in single-user mode answers: it listens nowhere, and ends with its input.
fn answers(programs: &std::path::Path, lines: &[Line]) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let is_root = Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n");
    let command = |name: &str| {
        let program = programs.join(name);
        if !is_root {
            return Command::new(program);
        }
        // The server refuses root.
        let mut command = Command::new("runuser");
        command.args(["-u", "postgres", "--"]).arg(program);
        command
    };
    if is_root {
        assert!(Command::new("chown").arg("postgres").arg(folder.path()).status().unwrap().success());
    }
    let data = folder.path().join("data");
    let mut initdb = command("initdb");
    initdb
        .args(["--no-sync", "-A", "trust", "-U", "tidemill", "-E", "UTF8", "--locale", "C", "-D"])
        .arg(&data);
    let made = initdb.current_dir("/").stdout(Stdio::null()).status().unwrap();
    assert!(made.success());
    let mut server = command("postgres");
    server.args(["--single", "-c", "fsync=off", "-c", "timezone=UTC", "-D"]).arg(&data).arg("postgres");
    let server = server.current_dir("/").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut server = server.spawn().unwrap();
    let mut input = server.stdin.take().unwrap();
    let mut statements = String::new();
    for line in lines {
        // One statement a line. An error leaves the answer of the mark alone.
        statements += &format!("SELECT coalesce(CAST(({}) AS TEXT), 'NULL') AS value\n", line.expression);
        statements += "SELECT 'next' AS mark\n";
    }
    let writer = std::thread::spawn(move || input.write_all(statements.as_bytes()).unwrap());
    let output = server.wait_with_output().unwrap();
    writer.join().unwrap();
    let output = String::from_utf8(output.stdout).unwrap();
    let mut answers = Vec::new();
    let mut value = None;
    for line in output.lines().filter(|line| line.contains('=')) {
        let shown = |name: &str| {
            let (_, rest) = line.split_once(&format!(" 1: {name} = \""))?;
            Some(rest.rsplit_once("\"\t")?.0.to_owned())
        };
        if let Some(found) = shown("value") {
            value = Some(found);
        } else if shown("mark").is_some() {
            answers.push(value.take().unwrap_or_else(|| "ERROR".to_owned()));
        }
    }
    answers
}
