//! The words that can complete a partly typed word.

use tidemill_service::Session;
use tidemill_sql::{OptionGroup, keywords};

use super::client_command;
use super::option_context::{OptionContext, option_context};

/// All words that can be completed, sorted.
#[derive(Clone, Debug, Default)]
pub(crate) struct CompletionWords {
    keywords: &'static [&'static str],
    names: Vec<String>,
    options: Vec<OptionGroup>,
}

impl CompletionWords {
    /// The words of a session in its current state.
    pub fn of(session: &Session) -> CompletionWords {
        let mut names = session.names();
        names.extend(session.column_names());
        names.extend(session.setting_names());
        CompletionWords { options: session.option_groups(), ..CompletionWords::new(keywords(), names) }
    }

    fn new(keywords: &'static [&'static str], mut names: Vec<String>) -> CompletionWords {
        names.sort();
        names.dedup();
        CompletionWords { keywords, names, options: Vec::new() }
    }

    /// Where the word under the cursor starts, and its possible completions. Keywords follow the user's style: in lower
    /// case if the word begins so.
    pub fn complete(&self, line: &str, cursor: usize) -> (usize, Vec<String>) {
        let before = &line[..cursor];
        if let Some(command) = client_command(before) {
            return (before.len() - command.len(), starting_with(command, client_command::NAMES));
        }
        let is_part = |char: char| char.is_alphanumeric() || char == '_' || char == '$';
        let start = before
            .rfind(|char| !is_part(char))
            .map_or(0, |at| at + before[at..].chars().next().map_or(0, char::len_utf8));
        let word = &before[start..];
        if let Some(OptionContext::Name(names) | OptionContext::Value(names)) =
            option_context(before, &self.options)
        {
            return (start, sorted(starting_with(word, names)));
        }
        if word.is_empty() {
            return (start, Vec::new());
        }
        let is_small = word.chars().all(|char| !char.is_uppercase());
        let keywords = starting_with(word, self.keywords.iter().copied());
        let mut all: Vec<String> = keywords
            .into_iter()
            .map(|keyword| if is_small { keyword.to_lowercase() } else { keyword })
            .collect();
        all.extend(starting_with(word, self.names.iter().map(String::as_str)));
        (start, sorted(all))
    }

    /// Whether the cursor is within a quoted text where any file name can be.
    pub fn is_in_file_name(&self, before: &str) -> bool {
        is_in_quotes(before)
            && !matches!(option_context(before, &self.options), Some(OptionContext::Value(_)))
    }
}

fn sorted(mut words: Vec<String>) -> Vec<String> {
    words.sort();
    words.dedup();
    words
}

/// Whether the cursor is within a quoted text.
fn is_in_quotes(before: &str) -> bool {
    before.matches('\'').count() % 2 == 1
}

/// The partly typed command of the prompt.
fn client_command(before: &str) -> Option<&str> {
    let command = before.trim_start();
    (command.starts_with('\\') && !command.contains(char::is_whitespace)).then_some(command)
}

fn starting_with<'a>(word: &str, all: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let begins = |name: &&str| name.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
    all.into_iter().filter(begins).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words() -> CompletionWords {
        let names = ["clicks", "campaign", "count", "Señor", "campaign"].map(str::to_owned).to_vec();
        CompletionWords::new(&["CASE", "FROM", "SELECT"], names)
    }

    fn completed(line: &str) -> Vec<String> {
        words().complete(line, line.len()).1
    }

    #[test]
    fn keywords_follow_the_case_of_what_was_typed() {
        assert_eq!(completed("SEL"), ["SELECT"]);
        assert_eq!(completed("sel"), ["select"]);
        assert_eq!(completed("SELECT ca"), ["campaign", "case"]);
    }

    #[test]
    fn names_are_completed_where_a_word_begins() {
        assert_eq!(words().complete("SELECT count(cli", 16), (13, vec!["clicks".to_owned()]));
        assert_eq!(completed("SELECT x FROM t, CLI"), ["clicks"]);
        assert!(completed("SELECT ").is_empty());
        assert!(completed("nothing_like_it").is_empty());
        assert_eq!(completed("größe + señ"), ["Señor"]);
        assert!(completed("größe + sen").is_empty());
    }

    #[test]
    fn commands_are_completed_at_the_start_of_a_line() {
        assert_eq!(completed("\\r"), ["\\run"]);
        assert!(completed("SELECT \\r").is_empty());
    }

    #[test]
    fn quotes_hold_names_of_files() {
        assert!(is_in_quotes("SELECT * FROM 'cl"));
        assert!(!is_in_quotes("SELECT 'a' FROM cl"));
    }
}
