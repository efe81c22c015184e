//! Commands to the prompt itself and not to a session: `\q`, `\h` and the like.

use std::path::PathBuf;

/// The answer to `\h` at the prompt.
pub(crate) const HELP: &str = "\
A statement ends with ; and may take several lines.
  SELECT campaign, count(*) FROM 'clicks.csv' GROUP BY campaign;
  SELECT value FROM sequence(rate => 10) LIMIT 5;
  CREATE SOURCE name (columns, WATERMARK FOR ts AS ts - INTERVAL '5 seconds') WITH (path = 'clicks.csv');
  CREATE VIEW name AS SELECT ...;
  CREATE SINK name FROM view WITH (path = 'out.csv');
  SHOW SOURCES | TABLES | VIEWS | SINKS | FUNCTIONS | SETTINGS;   DESCRIBE name;   SET name = value;
  EXPLAIN SELECT ...;   EXPLAIN ANALYZE SELECT ...;   DROP VIEW name;

Commands stand alone on their line:
  \\run        run all sinks and materialized views, until their input ends or Ctrl-C
  \\start      run them in the background: SELECT reads materialized views as they are then
  \\stop       end that in order, and say how much it did
  \\d          sources, tables, views and sinks
  \\d name     the columns of one of them
  \\i file     execute the statements of a file
  \\x          a line for each value, or again a line for each row
  \\h, \\?      this help
  \\q, Ctrl-D  leave

Ctrl-C clears the line, or ends a query in order: what was taken in is answered. Once more ends it at once.
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
    /// A line for each value, or back to the table.
    Expanded,
}

/// All of them, for completion.
pub(crate) const NAMES: [&str; 9] = ["\\?", "\\d", "\\h", "\\i", "\\q", "\\run", "\\start", "\\stop", "\\x"];

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
        let takes_none = |command| match argument.is_empty() {
            true => Ok(command),
            false => Err(format!("{name} stands alone, without '{argument}'")),
        };
        Some(match name.trim_end_matches(';') {
            "\\q" => takes_none(ClientCommand::Quit),
            "\\h" | "\\?" => Ok(ClientCommand::Help),
            "\\run" => takes_none(ClientCommand::Run),
            "\\start" => takes_none(ClientCommand::Start),
            "\\stop" => takes_none(ClientCommand::Stop),
            "\\x" => takes_none(ClientCommand::Expanded),
            "\\d" => Ok(ClientCommand::Describe(Some(argument.to_owned()).filter(|name| !name.is_empty()))),
            "\\i" if argument.is_empty() => Err("\\i needs the name of a file: \\i views.sql".into()),
            "\\i" => Ok(ClientCommand::Include(argument.trim_matches('\'').into())),
            other => Err(format!("there is no command {other}; \\h shows those that there are")),
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
        assert_eq!(read("\\x"), Some(Ok(ClientCommand::Expanded)));
        for text in ["\\i", "\\nope", "\\run now", "\\"] {
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
