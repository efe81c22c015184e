//! What a journal belongs to, as text: the operators whose state it has, the query, and the meaning of its sources'
//! rows. A resumed run recomputes logged cycles from rows that were journaled before any of this could change. With a
//! different meaning, the two halves of a window would belong to different queries.

use std::fmt::Write as _;
use std::time::Duration;

use tidemill_core::error::Cause;
use tidemill_journal::database;
use tidemill_plan::{Plan, SourcePlan};

use super::changed_sinks::{self, QueryParts, RetainedParts};
use super::{Durability, DurableSource, SinkQuery};

/// The first line of descriptions that include the meaning of rows.
const HEAD: &str = "description 2";
/// The first line of those that also say what each sink gets, before everything else.
const HEAD_WITH_PARTS: &str = "description 3";

/// See the module.
pub(crate) struct Description {
    /// What is stored: with the parts, if they are known.
    stored: String,
    parts: QueryParts,
    queries: Vec<SinkQuery>,
    /// The text in the format of [`HEAD`].
    without_parts: String,
    /// The text in the format before [`HEAD`], without the meaning of rows.
    first_version: String,
    /// Lines with former names of operators, and what they are now.
    renamed: Vec<(String, String)>,
}

impl Description {
    pub fn new(plan: &Plan, sources: &[DurableSource], durability: &Durability) -> Description {
        let event_time = |(source, planned): (&DurableSource, &SourcePlan)| {
            let event_time = source.feed.event_time?;
            let fields = planned.streams.first().map(|schema| schema.fields());
            let column = fields.and_then(|fields| fields.get(event_time.column));
            Some((column.map_or("?", |field| field.name()).to_owned(), event_time.delay_ns))
        };
        let event_times: Vec<_> = sources.iter().zip(&plan.sources).map(event_time).collect();
        Description::of(plan, &event_times, durability)
    }

    /// The same for sources of which the column with the event time is known, and how far a row may be behind.
    pub fn of(plan: &Plan, event_times: &[Option<(String, i64)>], durability: &Durability) -> Description {
        let (mut meaning, mut parts) = (String::new(), String::new());
        for (event_time, planned) in event_times.iter().zip(&plan.sources) {
            let Some((column, delay_ns)) = event_time else { continue };
            let behind = Duration::from_nanos(delay_ns.unsigned_abs());
            let _ = writeln!(meaning, "event time of {}: '{column}', {behind:?} behind", planned.name);
        }
        durability.meaning.iter().for_each(|line| {
            let _ = writeln!(meaning, "{line}");
        });
        for source in &plan.sources {
            let _ = writeln!(parts, "source {}", source.name);
        }
        let mut renamed = Vec::new();
        for operator in &plan.operators {
            let line = |name: &str| format!("operator {name} in {} partitions", operator.partitions);
            let _ = writeln!(parts, "{}", line(&operator.name));
            renamed.extend(operator.former_names.iter().map(|name| (line(name), line(&operator.name))));
        }
        for sink in &plan.sinks {
            let _ = writeln!(parts, "sink {}", sink.name);
        }
        parts.push_str(&durability.query);
        let text = format!("{HEAD}\n{meaning}{parts}");
        let (parts, first_version) = (QueryParts::of(plan, &durability.sinks), parts);
        let stored = stored(&parts, &text);
        let queries = durability.sinks.clone();
        Description { stored, parts, queries, without_parts: text, first_version, renamed }
    }

    /// Of a query whose rows and cuts are in the journal of a database, where its sources have these names.
    pub fn under_clock<'a>(self, streams: impl Iterator<Item = &'a str>) -> Description {
        let streams: String = streams.map(database::line_of).collect();
        let text = self.without_parts.replacen('\n', &format!("\n{streams}"), 1);
        // A query under the clock of a database has one sink or view.
        Description { stored: text.clone(), parts: QueryParts::default(), without_parts: text, ..self }
    }

    /// The text that is stored with journals and snapshots.
    pub fn text(&self) -> &str {
        &self.stored
    }

    /// Checks that a run of this query can resume from what was stored under another description, without any change.
    ///
    /// # Errors
    /// With the first difference.
    pub fn check(&self, stored: &str) -> Result<(), Cause> {
        let (_, stored) = parts_of(stored);
        let is_of_first_version = stored.lines().next() != Some(HEAD);
        let now = if is_of_first_version { &self.first_version } else { &self.without_parts };
        let stored = &self.with_names_of_today(&stored);
        if stored == now {
            return Ok(());
        }
        let lacking = |of: &'_ str, other: &str| {
            let line = of.lines().find(|line| !other.lines().any(|known| known == *line));
            line.map(|line| format!("'{line}'"))
        };
        let difference = match (lacking(stored, now), lacking(now, stored)) {
            (Some(before), Some(after)) => format!("its query had {before}, and this one has {after}"),
            (Some(before), None) => format!("its query had {before}, and this one does not"),
            (None, Some(after)) => format!("this query has {after}, and its query did not"),
            (None, None) => "both have the same parts, but in a different order".to_owned(),
        };
        Err(Cause::user(format!(
            "the journal belongs to a different query: {difference}. Rows taken in earlier would be computed \
             differently. Undo the change and run the query as it was, or start from scratch with another \
             journal folder"
        )))
    }
}

impl Description {
    /// As [`check`](Self::check), but sinks may have been added or removed: returns what then stays.
    ///
    /// # Errors
    /// As `check`, with what would be kept and what not.
    pub fn compare(&self, stored: &str) -> Result<Option<RetainedParts>, Cause> {
        let Err(different) = self.check(stored) else { return Ok(None) };
        let (before, text) = parts_of(stored);
        if !before.is_known() || !self.parts.is_known() {
            return Err(different);
        }
        let compared = self
            .check_sources(&text)
            .and_then(|()| changed_sinks::compare(&self.parts, &before, &self.queries));
        match compared {
            Ok(kept) => Ok(Some(kept)),
            Err(reason) => {
                let told = changed_sinks::told(&self.parts, &before);
                Err(different.map_message(|text| {
                    format!(
                        "{text}. Sinks may be added and removed while others stay as they are, but {reason}. Of the \
                         query in the journal, {told}"
                    )
                }))
            }
        }
    }

    /// Checks that the sources are the same, and that their rows mean the same as far as both queries read them.
    fn check_sources(&self, stored: &str) -> Result<(), String> {
        let (before, now) = (sources_of(stored), sources_of(&self.without_parts));
        if before != now {
            return Err(format!(
                "the sources have changed from {before:?} to {now:?}; what reads other sources needs a script of its \
                 own, and a sink whose sources are in another order belongs behind the others"
            ));
        }
        let meanings = |text: &str| -> Vec<String> {
            let lines = text.lines().skip(1).take_while(|line| !line.starts_with("source "));
            lines.map(str::to_owned).collect()
        };
        let (before, now) = (meanings(stored), meanings(&self.without_parts));
        // What is computed of a column counts if both read it.
        let column = |line: &str| {
            let (name, _) = line.strip_prefix("column ")?.split_once(": ")?;
            Some(name.to_owned())
        };
        let differs = |line: &&String, others: &[String]| match column(line) {
            Some(name) => {
                !others.contains(line) && others.iter().any(|other| column(other).as_ref() == Some(&name))
            }
            None => !others.contains(line),
        };
        let changed = before.iter().find(|line| differs(line, &now));
        match changed.or_else(|| now.iter().find(|line| differs(line, &before))) {
            Some(line) => Err(format!("the meaning of rows has changed ('{line}')")),
            None => Ok(()),
        }
    }
}

/// What is stored of a query with these parts.
fn stored(parts: &QueryParts, text: &str) -> String {
    match (parts.is_known(), text.split_once('\n')) {
        (true, Some((_, rest))) => format!("{HEAD_WITH_PARTS}\n{}{rest}", parts.text()),
        _ => text.to_owned(),
    }
}

/// The parts in a stored description, and the rest of it in the format without them.
fn parts_of(stored: &str) -> (QueryParts, String) {
    match stored.split_once('\n') {
        Some((HEAD_WITH_PARTS, rest)) => {
            let (parts, rest) = QueryParts::read(rest);
            (parts, format!("{HEAD}\n{rest}"))
        }
        _ => (QueryParts::default(), stored.to_owned()),
    }
}

/// The sources that a stored description names, in the order of the cuts.
pub(crate) fn sources_of(stored: &str) -> Vec<&str> {
    let mut names = Vec::new();
    for line in stored.lines() {
        match line.strip_prefix("source ") {
            Some(name) => names.push(name),
            // Behind them come the operators and the sinks. What stands before them may only look like one.
            None if line.starts_with("operator ") || line.starts_with("sink ") => break,
            None => names.clear(),
        }
    }
    names
}

impl Description {
    /// The lines that say what the event times of the sources mean.
    pub fn event_times(&self) -> impl Iterator<Item = &str> {
        self.without_parts.lines().filter(|line| line.starts_with("event time of "))
    }

    /// What was stored, with operators under the names that they have now.
    fn with_names_of_today(&self, stored: &str) -> String {
        let now = |line| self.renamed.iter().find(|(former, _)| *former == line).map(|(_, now)| now.as_str());
        stored.split('\n').map(|line| now(line).unwrap_or(line)).collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use tidemill_core::arrow::schema::{DataType, Field, Schema, SchemaRef};
    use tidemill_core::{Polled, Source};
    use tidemill_journal::StreamSettings;
    use tidemill_plan::OperatorPlan;
    use tidemill_split::Route;

    use super::*;
    use crate::durable::SyncPolicy;
    use crate::feed_settings::{EventTime, FeedSettings};

    struct Nothing;

    impl Source for Nothing {
        fn schema(&self) -> SchemaRef {
            Schema::new(vec![Field::new("time", DataType::Int64, false)]).into()
        }
        fn poll(&mut self, _wait: Duration) -> Result<Polled, Cause> {
            Ok(Polled::Ended)
        }
        fn is_finite(&self) -> bool {
            true
        }
    }

    fn described(delay_ns: i64, meaning: &[&str]) -> Description {
        let mut plan = Plan::new("a query");
        let stream = plan.source("clicks", [Nothing.schema()]);
        plan.sink("output", stream);
        let event_time = Some(EventTime { column: 0, delay_ns });
        let source = DurableSource {
            source: Box::new(Nothing),
            feed: FeedSettings { event_time, ..FeedSettings::default() },
            stream: StreamSettings::default(),
            sync: SyncPolicy::AtOnce,
        };
        let meaning = meaning.iter().map(|line| (*line).to_owned()).collect();
        Description::new(&plan, &[source], &Durability { meaning, ..Durability::new("SELECT time") })
    }

    #[test]
    fn what_rows_mean_must_stay_the_same() {
        let before = described(1_000_000_000, &["column cents of clicks: price * 100"]);
        before.check(before.text()).unwrap();
        let refused = |now: Description| now.check(before.text()).unwrap_err().to_string();
        let text = refused(described(5_000_000_000, &["column cents of clicks: price * 100"]));
        assert!(
            text.contains("'event time of clicks: 'time', 1s behind', and this one has 'event"),
            "{text}"
        );
        assert!(text.contains("5s behind"), "{text}");
        let text = refused(described(1_000_000_000, &["column cents of clicks: price * 10"]));
        assert!(text.contains("had 'column cents of clicks: price * 100', and"), "{text}");
        assert!(refused(described(1_000_000_000, &[])).contains("price * 100', and this one does not"));
        let more =
            described(1_000_000_000, &["column cents of clicks: price * 100", "column n of clicks: 1"]);
        assert!(refused(more).contains("this query has 'column n of clicks: 1', and its query did not"));
        let two = |first, second| described(1, &[first, second]);
        let reordered = two("b", "a").check(two("a", "b").text()).unwrap_err().to_string();
        assert!(reordered.contains("in a different order"), "{reordered}");
    }

    #[test]
    fn an_operator_may_have_another_name_than_before() {
        let described = |operator: OperatorPlan| {
            let mut plan = Plan::new("a query");
            let stream = plan.source("clicks", [Nothing.schema()]);
            let route: Box<Route> = Box::new(|_, _| ());
            plan.operator(operator.input(stream[0], &[], route).output(Nothing.schema()));
            Description::new(&plan, &[], &Durability::new("SELECT time"))
        };
        let operator = |name: &str| OperatorPlan::new(name, 4, |_| unreachable!("it is only described"));
        let before = described(operator("1 regions anew every 10 s"));
        let now = described(operator("1 regions every 10 s").formerly("1 regions anew every 10 s"));
        now.check(before.text()).unwrap();
        now.check(&before.first_version).unwrap();
        now.check(now.text()).unwrap();
        assert!(before.check(now.text()).is_err());
        let other = described(operator("1 regions every 20 s").formerly("1 regions anew every 20 s"));
        assert!(other.check(before.text()).is_err());
    }

    #[test]
    fn journals_of_before_are_gone_on_with() {
        let now = described(7, &["column cents of clicks: price * 100"]);
        now.check("source clicks\nsink output\nSELECT time").unwrap();
        assert!(now.check("source clicks\nsink output\nSELECT price").is_err());
    }
}
