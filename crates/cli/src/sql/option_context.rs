//! The words that can stand among the options of a statement: `WITH (connector = 'file', ...)`.

use tidemill_sql::{OptionGroup, OptionOwner, closest};

/// What may stand at the cursor.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum OptionContext<'a> {
    /// The name of an option.
    Name(Vec<&'a str>),
    /// A quoted value, of which these are known.
    Value(Vec<&'a str>),
}

/// What may stand behind this text; `None` if it does not end within the options of a statement.
pub(crate) fn option_context<'a>(before: &str, groups: &'a [OptionGroup]) -> Option<OptionContext<'a>> {
    let statement = before.rsplit(';').next().unwrap_or(before);
    let options = open_options(statement)?;
    let head = &statement[..statement.len() - options.len()];
    let is_sink = head.split_whitespace().any(|word| word.eq_ignore_ascii_case("sink"));
    let of_direction: Vec<&OptionGroup> = groups.iter().filter(|group| is_of(group.owner, is_sink)).collect();
    let is_quoted = options.matches('\'').count() % 2 == 1;
    if !is_quoted {
        return Some(OptionContext::Name(names(options, &of_direction)));
    }
    let entry = options.rsplit_once('\'').map_or("", |(start, _)| start).trim_end();
    let name = entry.strip_suffix('=')?.trim_end();
    let name = name.rsplit(|char: char| char == ',' || char == '(' || char.is_whitespace()).next()?;
    let mut values = match name.to_ascii_lowercase().as_str() {
        "connector" => connectors(&of_direction).collect(),
        "format" => formats(&of_direction).collect(),
        "function" => generators(&of_direction).collect(),
        name => of_direction
            .iter()
            .flat_map(|group| &group.options)
            .filter(|option| option.name == name)
            .flat_map(|option| option.kind.words().iter().copied())
            .collect::<Vec<_>>(),
    };
    values.sort_unstable();
    values.dedup();
    (!values.is_empty()).then_some(OptionContext::Value(values))
}

/// The text in the parentheses behind the last WITH, if they are still open.
fn open_options(statement: &str) -> Option<&str> {
    let lower = statement.to_ascii_lowercase();
    let with = lower.rfind("with")?;
    let behind = &statement[with + "with".len()..];
    let options = behind.trim_start().strip_prefix('(')?;
    let (mut depth, mut is_quoted) = (1, false);
    for char in options.chars() {
        match char {
            '\'' => is_quoted = !is_quoted,
            '(' if !is_quoted => depth += 1,
            ')' if !is_quoted => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return None;
        }
    }
    Some(options)
}

fn is_of(owner: OptionOwner, is_sink: bool) -> bool {
    match owner {
        OptionOwner::Sources
        | OptionOwner::DurableSources
        | OptionOwner::Source
        | OptionOwner::Generator
        | OptionOwner::Read => !is_sink,
        OptionOwner::Sinks | OptionOwner::Sink | OptionOwner::Written => is_sink,
        OptionOwner::Settings => false,
    }
}

fn is_connector(group: &OptionGroup) -> bool {
    matches!(group.owner, OptionOwner::Source | OptionOwner::Sink)
}

fn connectors<'a>(groups: &[&'a OptionGroup]) -> impl Iterator<Item = &'a str> {
    groups.iter().copied().filter(|group| is_connector(group)).map(|group| group.name.as_str())
}

fn generators<'a>(groups: &[&'a OptionGroup]) -> impl Iterator<Item = &'a str> {
    let is_generator = |group: &&OptionGroup| group.owner == OptionOwner::Generator;
    groups.iter().copied().filter(is_generator).map(|group| group.name.as_str())
}

fn formats<'a>(groups: &[&'a OptionGroup]) -> impl Iterator<Item = &'a str> {
    let is_format = |group: &&OptionGroup| matches!(group.owner, OptionOwner::Read | OptionOwner::Written);
    groups.iter().copied().filter(is_format).map(|group| group.name.as_str())
}

/// The names of options: those of the connector if one is named, and otherwise of all. The arguments of a generator
/// are options once it is named.
fn names<'a>(options: &str, groups: &[&'a OptionGroup]) -> Vec<&'a str> {
    let connector = text_of("connector", options).and_then(|name| closest(name, connectors(groups)));
    let generator = text_of("function", options).and_then(|name| closest(name, generators(groups)));
    let is_meant = |group: &&&OptionGroup| match group.owner {
        OptionOwner::Generator => generator == Some(group.name.as_str()),
        _ => !is_connector(group) || connector.is_none_or(|connector| group.name == connector),
    };
    let mut names = vec!["connector", "format"];
    for group in groups.iter().filter(is_meant) {
        names.extend(group.options.iter().map(|option| option.name));
    }
    names
}

/// The quoted text that is given to an option.
fn text_of<'a>(option: &str, options: &'a str) -> Option<&'a str> {
    let (_, rest) = options.split_once(option)?;
    let value = rest.trim_start().strip_prefix('=')?.trim_start().strip_prefix('\'')?;
    value.split_once('\'').map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use tidemill_sql::Planner;

    use super::*;

    #[test]
    fn options_of_the_named_connector_are_offered() {
        let groups = Planner::new().option_groups();
        let Some(OptionContext::Name(names)) =
            option_context("CREATE SOURCE s (a BIGINT) WITH (connector = 'udp', al", &groups)
        else {
            panic!("an option comes next")
        };
        assert!(names.contains(&"allow_remote") && names.contains(&"durable") && names.contains(&"format"));
        assert!(!names.contains(&"connections_max"), "udp has no connections");
        let Some(OptionContext::Name(names)) = option_context("CREATE SINK s FROM t WITH (", &groups) else {
            panic!("an option comes next")
        };
        assert!(names.contains(&"dead_letters") && !names.contains(&"follow"));
    }

    #[test]
    fn arguments_of_the_named_generator_are_offered() {
        let groups = Planner::new().option_groups();
        let names = |text| match option_context(text, &groups) {
            Some(OptionContext::Name(names)) => names,
            other => panic!("{text}: {other:?}"),
        };
        let of_sequence = names("CREATE SOURCE s WITH (connector = 'generator', function = 'sequence', ");
        assert!(of_sequence.contains(&"step") && !of_sequence.contains(&"campaigns"));
        assert!(!names("CREATE SOURCE s WITH (connector = 'generator', ").contains(&"step"));
    }

    #[test]
    fn values_of_choices_are_offered() {
        let groups = Planner::new().option_groups();
        let values = |text| match option_context(text, &groups) {
            Some(OptionContext::Value(values)) => values,
            other => panic!("{text}: {other:?}"),
        };
        assert!(values("create sink s from t with (connector = '").contains(&"postgres"));
        assert_eq!(
            values("CREATE SINK s FROM t WITH (path = 'x.csv', sync='ne"),
            ["at_end", "every_commit", "never"]
        );
        assert!(
            values("CREATE SOURCE s WITH (connector = 'generator', function = 's").contains(&"yahoo_events")
        );
        assert!(values("CREATE SOURCE s WITH (format = 'j").contains(&"line_protocol"));
    }

    #[test]
    fn elsewhere_nothing_is_offered() {
        let groups = Planner::new().option_groups();
        for text in [
            "SELECT 1",
            "CREATE SOURCE s WITH (path = 'a') ",
            "WITH x AS (SELECT ",
            "CREATE SOURCE s WITH (path = 'a",
        ] {
            assert_eq!(option_context(text, &groups), None, "{text}");
        }
    }
}
