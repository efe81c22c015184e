//! What the description of a folder says about a database: the journal of one names its sources, and a query of one those that it
//! reads.

/// What the description of a database's journal begins with; the names of the sources follow, a line each.
const DATABASE: &str = "the durable sources of a database, in the order of its cuts";
/// What stands before and behind the name of a source that a query of a database reads.
const STREAM: &str = "stream ";
/// What stands before the name of a source that a pipeline reads.
const SOURCE: &str = "source ";
const OF_DATABASE: &str = " of the database";

/// The description of the journal of a database with these sources, in the order of its cuts.
///
/// ```
/// use tidemill_journal::database;
/// let text = database::describe(["a-1", "b-2"]);
/// assert_eq!(database::sources(&text), Some(vec!["a-1", "b-2"]));
/// assert_eq!(database::sources("SELECT 1"), None);
/// ```
pub fn describe<'a>(sources: impl IntoIterator<Item = &'a str>) -> String {
    sources.into_iter().fold(DATABASE.to_owned(), |text, name| format!("{text}\n{name}"))
}

/// The sources that a description names, in the order of the cuts; `None`: it is not that of a database's journal.
pub fn sources(description: &str) -> Option<Vec<&str>> {
    Some(description.strip_prefix(DATABASE)?.lines().filter(|name| !name.is_empty()).collect())
}

/// The sources that the description of a pipeline with this many sources names, in the order of its cuts; none if it does not.
///
/// ```
/// use tidemill_journal::database::sources_of_pipeline;
/// assert_eq!(sources_of_pipeline("event time of a: 't'\nsource a\nsink b\nSELECT 1", 1), ["a"]);
/// assert!(sources_of_pipeline("SELECT 1", 1).is_empty());
/// ```
pub fn sources_of_pipeline(description: &str, sources: usize) -> Vec<&str> {
    let lines = description.lines().skip_while(|line| !line.starts_with(SOURCE));
    let names: Vec<&str> = lines.map_while(|line| line.strip_prefix(SOURCE)).take(sources).collect();
    if names.len() == sources { names } else { Vec::new() }
}

/// The line of a query's description for a source of its database.
///
/// ```
/// use tidemill_journal::database;
/// let text = format!("{}SELECT 1", database::line_of("a-1"));
/// assert_eq!(database::sources_of_query(&text).collect::<Vec<_>>(), ["a-1"]);
/// ```
pub fn line_of(source: &str) -> String {
    format!("{STREAM}{source}{OF_DATABASE}\n")
}

/// The sources that the description of a query names; none if the query is not of a database.
pub fn sources_of_query(description: &str) -> impl Iterator<Item = &str> {
    description.lines().filter_map(|line| line.strip_prefix(STREAM)?.strip_suffix(OF_DATABASE))
}
