//! One random query after another, and the smallest table on which an answer is still wrong.

use tempfile::TempDir;

use super::query::{Family, Query};
use super::table::Table;
use super::tidemill::{Answer, WAYS, Way, answer};
use tidemill_testing::duckdb::DuckDb;
use tidemill_testing::duckdb::difference;
use tidemill_testing::random::Random;

/// Queries of each family, unless `TIDEMILL_DUCKDB_QUERIES` says how many.
const QUERIES: u64 = 60;
/// Queries over the same tables.
const QUERIES_PER_TABLE: u64 = 10;
/// Wrong answers that are shown before the test gives up.
const SHOWN_MAX: usize = 5;

/// The results of the queries of a family.
#[derive(Debug, Default)]
struct Counts {
    compared: u64,
    /// Both sides say that the query cannot be computed.
    failed: u64,
    refused: u64,
    /// DuckDB cannot compute what we can: it computed a row that is not needed, or overflowed in a narrower type.
    undecided: u64,
}

/// What is wrong with an answer.
struct Fault {
    way: Way,
    text: String,
}

/// Compares the answers to random queries of a family.
pub fn family(family: Family) {
    let Some(mut duckdb) = DuckDb::start() else { return };
    let seed = number("TIDEMILL_DUCKDB_SEED").unwrap_or(1);
    let queries = number("TIDEMILL_DUCKDB_QUERIES").unwrap_or(QUERIES);
    let only = number("TIDEMILL_DUCKDB_QUERY");
    println!("{family:?}: {queries} queries, TIDEMILL_DUCKDB_SEED={seed}");
    let folder = TempDir::new().expect("a folder can be made");
    let (mut counts, mut faults) = (Counts::default(), Vec::new());
    for at in 0..queries {
        let tables = tables(family, seed, at / QUERIES_PER_TABLE);
        if at % QUERIES_PER_TABLE == 0 || only.is_some() {
            tables.iter().for_each(|table| table.load(&mut duckdb, folder.path()));
        }
        if only.is_some_and(|only| only != at) {
            continue;
        }
        let query = family.query(&mut Random::of_stream(seed, 1 + 2 * stream(family, at)));
        let Some(fault) = check(&query, &tables, &mut duckdb, folder.path(), &mut counts) else { continue };
        let (small, fault) = smallest(&query, tables.clone(), fault, &mut duckdb, folder.path());
        faults.push(report(family, seed, at, &query, &small, &fault));
        tables.iter().for_each(|table| table.load(&mut duckdb, folder.path()));
        if faults.len() >= SHOWN_MAX {
            break;
        }
    }
    println!("{family:?}: {counts:?}");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    let asked = if only.is_some() { 0 } else { queries };
    assert!(counts.compared * 2 > asked, "too few queries can be compared: {counts:?}");
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}

fn stream(family: Family, at: u64) -> u64 {
    (family as u64) << 32 | at
}

fn tables(family: Family, seed: u64, at: u64) -> Vec<Table> {
    let mut random = Random::of_stream(seed, 2 * stream(family, at));
    let rows = random.one_of(&[0, 1, 6, 30, 80, 150]);
    let other = random.one_of(&[0, 4, 20, 40]);
    vec![Table::random("t", rows, &mut random), Table::random("u", other, &mut random)]
}

/// What is wrong with our answers, if anything.
fn check(
    query: &Query,
    tables: &[Table],
    duckdb: &mut DuckDb,
    folder: &std::path::Path,
    counts: &mut Counts,
) -> Option<Fault> {
    let expected = duckdb.answer(&query.sql.duckdb);
    let mut answered = false;
    for way in WAYS {
        let declared = tables.iter().map(|table| table.declare(way.declared(), folder));
        let definitions: String = declared.chain([query.definitions.clone()]).collect();
        let fault = |text: String| Some(Fault { way: *way, text });
        match (answer(&definitions, &query.sql.ours, *way), &expected) {
            (Answer::Refused(text), _) if text.contains("is a bug") => return fault(text),
            (Answer::Refused(text), _) => {
                if std::env::var_os("TIDEMILL_DUCKDB_REFUSED").is_some() {
                    println!("refused {way:?}: {}\n{text}", query.sql.ours);
                }
            }
            (Answer::Failed(text), Err(_)) if !text.contains("is a bug") => {
                answered = true;
                counts.failed += 1;
            }
            (Answer::Failed(text), _) => return fault(format!("it fails: {text}")),
            (Answer::Rows(_), Err(message)) => {
                if is_words(message) {
                    return fault(format!("DuckDB does not understand it: {message}"));
                }
                answered = true;
                counts.undecided += 1;
            }
            (Answer::Rows(ours), Ok(theirs)) => {
                answered = true;
                counts.compared += 1;
                // A view has rows and no order.
                let ordered = query.ordered && !matches!(way, Way::View { .. });
                if let Some(text) = difference(&ours, theirs, ordered) {
                    return fault(text);
                }
            }
        }
    }
    counts.refused += u64::from(!answered);
    None
}

/// Whether DuckDB's message is about the text of the query, and not about values.
fn is_words(message: &str) -> bool {
    ["ParserException", "BinderException", "CatalogException"].iter().any(|kind| message.starts_with(kind))
}

/// Removes rows as long as an answer stays wrong.
fn smallest(
    query: &Query,
    mut tables: Vec<Table>,
    mut fault: Fault,
    duckdb: &mut DuckDb,
    folder: &std::path::Path,
) -> (Vec<Table>, Fault) {
    for table in (0..tables.len()).rev() {
        let mut size = tables[table].rows.len().div_ceil(2);
        while size > 0 {
            let mut start = 0;
            while start < tables[table].rows.len() {
                let mut fewer = tables.clone();
                let end = (start + size).min(fewer[table].rows.len());
                fewer[table].rows.drain(start..end);
                fewer[table].load(duckdb, folder);
                match check(query, &fewer, duckdb, folder, &mut Counts::default()) {
                    Some(found) => (tables, fault) = (fewer, found),
                    None => start += size,
                }
            }
            size /= 2;
        }
        tables[table].load(duckdb, folder);
    }
    (tables, fault)
}

fn report(family: Family, seed: u64, at: u64, query: &Query, tables: &[Table], fault: &Fault) -> String {
    let folder = std::path::Path::new(".");
    let named = |table: &&Table| query.sql.ours.contains(&format!(" {} ", table.name)) || table.name == "t";
    let scripts: String = tables.iter().filter(named).map(|table| table.create(folder)).collect();
    let declared: String =
        tables.iter().filter(named).map(|table| table.declare(fault.way.declared(), folder)).collect();
    format!(
        "\n=== {family:?}, query {at}, {:?}: {}\n-- for DuckDB\n{scripts}\n{};\n-- for Tidemill\n{declared}{}{};\n\
         -- again: TIDEMILL_DUCKDB_SEED={seed} TIDEMILL_DUCKDB_QUERY={at} TIDEMILL_DUCKDB_QUERIES={}",
        fault.way,
        fault.text,
        query.sql.duckdb,
        query.definitions,
        query.sql.ours,
        at + 1
    )
}
