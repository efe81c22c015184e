//! Commands to the prompt itself and not to a session: `\q`, `\h` and the like.

use std::path::PathBuf;

/// The answer to `\h` at the prompt.
pub(crate) const HELP: &str = "A statement ends with ; and may take several lines.
  SELECT campaign, count(*) FROM 'clicks.csv' GROUP BY campaign;
  SELECT value FROM sequence(rate => 10) LIMIT 5;
  CREATE SOURCE name (columns, WATERMARK FOR ts AS ts - INTERVAL '5 seconds') WITH (path = 'clicks.csv');
  CREATE VIEW name AS SELECT ...;
  CREATE SINK name FROM view WITH (path = 'out.csv');
  SHOW SOURCES | TABLES | VIEWS | SINKS | FUNCTIONS | SETTINGS;   DESCRIBE name;   SET name = value;
  EXPLAIN SELECT ...;   EXPLAIN ANALYZE SELECT ...;   DROP VIEW name;

Commands stand alone on their line:
  \\run        run all sinks and materialized views, until their input ends or Ctrl-C
  \\start      run them in the background: SELECT then reads the current rows of materialized views
  \\stop       end the background pipeline cleanly, and show how much it did
  \\d          sources, tables, views and sinks
  \\d name     the columns of one of them
  \\dt         sources and tables; \\dv views, \\dm materialized views, \\df functions
  \\i file     execute the statements of a file
  \\x          switch between one line per value and one line per row (\\x on, \\x off)
  \\timing     switch the time behind each result on or off
  \\pager      switch the pager for long results on or off; $PAGER names it, less by default
  \\h, \\?      this help
  \\q, Ctrl-D  leave

An unfinished statement is marked by -> or, in a quote or parenthesis, by '> \"> (>.
Ctrl-C clears the line or the unfinished statement, or ends a query cleanly: everything taken in is answered.
A second Ctrl-C ends it at once.
Tab completes words, names, columns, and file names in quotes.";

/// A command of the prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ClientCommand {
    Quit,
    Help,
    Run,
    Start,
    Stop,
    /// All relations, or the columns of one.
    Describe(Option<String>),
    Include(PathBuf),
    /// The relations or functions of one kind.
    List(Listing),
    /// A line for each value, or the table; with no argument the other one of the two.
    Expanded(Option<bool>),
    /// Whether the time of a statement is shown.
    Timing(Option<bool>),
    /// Whether a pager shows long results.
    Pager(Option<bool>),
}

/// What `\dt` and its like list. A server shows `psql` the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listing {
    Tables,
    Views,
    MaterializedViews,
    Functions,
}

/// All of them, for completion.
pub(crate) const NAMES: [&str; 15] = [
    "\\?", "\\d", "\\df", "\\dm", "\\dt", "\\dv", "\\h", "\\i", "\\pager", "\\q", "\\run", "\\start",
    "\\stop", "\\timing", "\\x",
];

impl ClientCommand {
    /// The command that a text contains; `None` if it contains statements or nothing.
    ///
    /// # Errors
    /// What is wrong with the command.
    pub fn read(text: &str) -> Option<Result<ClientCommand, String>> {
        let text = text.trim();
        let (name, argument) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        // Users of psql, SQLite and DuckDB may forget the ; or write one.
        let argument = argument.trim().trim_end_matches(';').trim_end();
        let word = text.trim_end_matches(';').trim_end().to_ascii_lowercase();
        match word.as_str() {
            "quit" | "exit" => return Some(Ok(ClientCommand::Quit)),
            "help" => return Some(Ok(ClientCommand::Help)),
            _ if !name.starts_with('\\') => return None,
            _ => {}
        }
        let takes_none = |command| {
            if argument.is_empty() {
                Ok(command)
            } else {
                Err(format!("{name} takes no argument; remove '{argument}'"))
            }
        };
        let switch = || match argument.to_ascii_lowercase().as_str() {
            "" => Ok(None),
            "on" => Ok(Some(true)),
            "off" | "auto" => Ok(Some(false)),
            _ => Err(format!("{name} takes on or off, not '{argument}'")),
        };
        Some(match name.trim_end_matches(';') {
            "\\q" => takes_none(ClientCommand::Quit),
            "\\h" | "\\?" => Ok(ClientCommand::Help),
            "\\run" => takes_none(ClientCommand::Run),
            "\\start" => takes_none(ClientCommand::Start),
            "\\stop" => takes_none(ClientCommand::Stop),
            "\\x" => switch().map(ClientCommand::Expanded),
            "\\timing" => switch().map(ClientCommand::Timing),
            "\\pager" => switch().map(ClientCommand::Pager),
            "\\dt" => takes_none(ClientCommand::List(Listing::Tables)),
            "\\dv" => takes_none(ClientCommand::List(Listing::Views)),
            "\\dm" => takes_none(ClientCommand::List(Listing::MaterializedViews)),
            "\\df" => takes_none(ClientCommand::List(Listing::Functions)),
            "\\d" => Ok(ClientCommand::Describe(Some(argument.to_owned()).filter(|name| !name.is_empty()))),
            "\\i" if argument.is_empty() => Err("\\i needs the name of a file: \\i views.sql".into()),
            "\\i" => Ok(ClientCommand::Include(argument.trim_matches('\'').into())),
            other => Err(format!("there is no command {other}; \\h lists the commands")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_told_from_statements() {
        let read = |text: &str| ClientCommand::read(text);
        assert_eq!(read("SELECT 1;"), None);
        assert_eq!(read(""), None);
        assert_eq!(read("helpers;"), None);
        for text in ["\\q", " \\q ", "quit", "EXIT;", "exit ;", "\\q;"] {
            assert_eq!(read(text), Some(Ok(ClientCommand::Quit)), "{text}");
        }
        assert_eq!(read("help;"), Some(Ok(ClientCommand::Help)));
        assert_eq!(read("\\d"), Some(Ok(ClientCommand::Describe(None))));
        assert_eq!(read("\\d clicks;"), Some(Ok(ClientCommand::Describe(Some("clicks".into())))));
        assert_eq!(read("\\i 'a b.sql'"), Some(Ok(ClientCommand::Include("a b.sql".into()))));
        assert_eq!(read("\\x"), Some(Ok(ClientCommand::Expanded(None))));
        assert_eq!(read("\\x on;"), Some(Ok(ClientCommand::Expanded(Some(true)))));
        assert_eq!(read("\\timing OFF"), Some(Ok(ClientCommand::Timing(Some(false)))));
        assert_eq!(read("\\dt"), Some(Ok(ClientCommand::List(Listing::Tables))));
        for text in ["\\i", "\\nope", "\\run now", "\\", "\\timing maybe", "\\dt clicks"] {
            assert!(matches!(read(text), Some(Err(_))), "{text}");
        }
    }

    #[test]
    fn the_help_names_every_command() {
        for name in NAMES {
            assert!(HELP.contains(name), "{name}");
        }
    }
}
