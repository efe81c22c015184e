//! The text of a definition with other options.

use crate::TextError;
use crate::statement::{Alter, AlterChange, Options, RelationKind, SinkInput, Statement, StatementKind};

/// The options of a materialized view that can be altered: what they change is not part of its state.
const VIEW_OPTIONS: [&str; 4] = ["max_latency", "retain", "retain_bytes", "retain_versions"];
/// Those of a sink.
const SINK_OPTIONS: [&str; 1] = ["max_latency"];

impl Alter {
    /// The options that it names, each with its place in the statement.
    fn named(&self) -> Vec<&crate::statement::Name> {
        match &self.change {
            AlterChange::Set(options) => options.iter().map(|entry| &entry.name).collect(),
            AlterChange::Reset(names) => names.iter().collect(),
            AlterChange::Rename(_) => Vec::new(),
        }
    }

    /// An error in the altered definition, at the first change.
    #[must_use]
    pub fn error(&self, statement: &Statement, error: &TextError) -> TextError {
        let place = match &self.change {
            AlterChange::Set(options) => options.iter().next().map_or(options.span, |entry| entry.value_span),
            AlterChange::Reset(names) => names.first().map_or(statement.span, |name| name.span),
            AlterChange::Rename(name) => name.span,
        };
        let message = format!("the altered definition is not valid: {}", error.message);
        statement.error(place, message).with_optional_hint(error.hint.clone())
    }

    /// Whether what it changes can be altered.
    ///
    /// # Errors
    /// At the first option that cannot, or at the new name.
    pub(crate) fn check(&self, statement: &Statement) -> Result<(), TextError> {
        let what = self.kind.keyword();
        if let AlterChange::Rename(new) = &self.change {
            let message = format!("a {} cannot be renamed", what.to_ascii_lowercase());
            let hint = match self.kind {
                RelationKind::MaterializedView => format!(
                    "its state and other definitions know it by its name. Give it a second one: CREATE VIEW {new} AS \
                     SELECT * FROM {}; or create it as {new}, and DROP the old one",
                    self.name
                ),
                _ => format!(
                    "its state and its target know it by its name. DROP it, and CREATE SINK {new} WITH (start = \
                     'now', ...)"
                ),
            };
            return Err(statement.error(new.span, message).with_hint(hint));
        }
        let alterable = alterable(self.kind);
        let Some(other) = self.named().into_iter().find(|name| !alterable.contains(&name.as_str())) else {
            return Ok(());
        };
        let message = format!("`{other}` of a {} cannot be altered", what.to_ascii_lowercase());
        let meant = crate::closest(other.as_str(), alterable.iter().copied());
        let meant = meant.map_or(String::new(), |meant| format!("did you mean {meant}? "));
        let hint = format!(
            "{meant}ALTER changes {}; for anything else, use CREATE OR REPLACE {what} {}",
            alterable.join(", "),
            self.name
        );
        Err(statement.error(other.span, message).with_hint(hint))
    }
}

fn alterable(kind: RelationKind) -> &'static [&'static str] {
    match kind {
        RelationKind::MaterializedView => &VIEW_OPTIONS,
        _ => &SINK_OPTIONS,
    }
}

/// The text of a statement that replaces a definition by one with other options; `None`: the definition has no query of its
/// own.
pub(crate) fn altered(definition: &Statement, statement: &Statement, alter: &Alter) -> Option<String> {
    let (name, options, or_replace) = match &definition.kind {
        StatementKind::CreateMaterializedView(view) => (&view.name, &view.options, view.or_replace),
        StatementKind::CreateSink(sink) => {
            let (Some(SinkInput::Relation(_) | SinkInput::Query(_)), options) = (&sink.input, &sink.options)
            else {
                return None;
            };
            (&sink.name, options, sink.or_replace)
        }
        _ => return None,
    };
    let start = definition.span.start.byte as usize;
    let text = &definition.text;
    let within = |bytes: std::ops::Range<usize>| bytes.start - start..bytes.end - start;
    let mut changed = text.clone();
    // From the end on, so that places before stay where they are.
    let mut edits = vec![edit_of_options(definition, (statement, alter), options)];
    // Only what stands before the name: its query may have the same words.
    let if_not_exists = definition.find_words(&["IF", "NOT", "EXISTS"]);
    edits.extend(
        if_not_exists.filter(|span| span.start < name.span.start).map(|span| (span.bytes(), String::new())),
    );
    if !or_replace {
        let create = definition.find_words(&["CREATE"])?.end.byte as usize;
        edits.push((create..create, " OR REPLACE".to_owned()));
    }
    edits.sort_by_key(|(bytes, _)| std::cmp::Reverse(bytes.start));
    edits.into_iter().for_each(|(bytes, new)| changed.replace_range(within(bytes), &new));
    Some(changed)
}

/// Where the options of a definition are, and what they become.
fn edit_of_options(
    definition: &Statement,
    (statement, alter): (&Statement, &Alter),
    options: &Options,
) -> (std::ops::Range<usize>, String) {
    let text_of = |of: &Statement, span| of.script().slice(span).to_owned();
    let named = alter.named();
    let is_named = |name: &str| named.iter().any(|named| named.as_str() == name);
    let stay = options.iter().filter(|entry| !is_named(entry.name.as_str()));
    let mut entries: Vec<String> =
        stay.map(|entry| text_of(definition, entry.name.span.to(entry.value_span))).collect();
    if let AlterChange::Set(new) = &alter.change {
        entries.extend(new.iter().map(|entry| text_of(statement, entry.name.span.to(entry.value_span))));
    }
    let new = if entries.is_empty() { String::new() } else { format!("WITH ({})", entries.join(", ")) };
    if options.is_empty() {
        let end = definition.span.end.byte as usize;
        // On a line of its own: the last one may end with a comment.
        (end..end, if new.is_empty() { new } else { format!("\n{new}") })
    } else {
        (options.span.bytes(), new)
    }
}
