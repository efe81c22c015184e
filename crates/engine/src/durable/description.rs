//! What a journal belongs to, as text: the operators whose state it has, the query, and the meaning of its sources'
//! rows. A resumed run recomputes logged cycles from rows that were journaled before any of this could change. With a
//! different meaning, the two halves of a window would belong to different queries.

use std::fmt::Write as _;
use std::time::Duration;

use tidemill_core::error::Cause;
use tidemill_plan::Plan;

use super::{Durability, DurableSource};

/// The first line of descriptions that include the meaning of rows.
const HEAD: &str = "description 2";

/// See the module.
pub(super) struct Description {
    text: String,
    /// The text in the format before [`HEAD`], without the meaning of rows.
    first_version: String,
}

impl Description {
    pub fn new(plan: &Plan, sources: &[DurableSource], durability: &Durability) -> Description {
        let (mut meaning, mut parts) = (String::new(), String::new());
        for (source, planned) in sources.iter().zip(&plan.sources) {
            let Some(event_time) = source.feed.event_time else { continue };
            let fields = planned.streams.first().map(|schema| schema.fields());
            let column = fields.and_then(|fields| fields.get(event_time.column));
            let column = column.map_or("?", |field| field.name());
            let behind = Duration::from_nanos(event_time.delay_ns.unsigned_abs());
            let _ = writeln!(meaning, "event time of {}: '{column}', {behind:?} behind", planned.name);
        }
        durability.meaning.iter().for_each(|line| {
            let _ = writeln!(meaning, "{line}");
        });
        for source in &plan.sources {
            let _ = writeln!(parts, "source {}", source.name);
        }
        for operator in &plan.operators {
            let _ = writeln!(parts, "operator {} in {} partitions", operator.name, operator.partitions);
        }
        for sink in &plan.sinks {
            let _ = writeln!(parts, "sink {}", sink.name);
        }
        parts.push_str(&durability.query);
        Description { text: format!("{HEAD}\n{meaning}{parts}"), first_version: parts }
    }

    /// The text that is stored with journals and snapshots.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Checks that a run of this query can resume from what was stored under another description.
    ///
    /// # Errors
    /// With the first difference.
    pub fn check(&self, stored: &str) -> Result<(), Cause> {
        let is_of_first_version = stored.lines().next() != Some(HEAD);
        let now = if is_of_first_version { &self.first_version } else { &self.text };
        if stored == now {
            return Ok(());
        }
        let differing = |of: &str, other: &str| {
            let line = of.lines().find(|line| !other.lines().any(|known| known == *line));
            line.map_or("nothing".to_owned(), |line| format!("'{line}'"))
        };
        let (before, after) = (differing(stored, now), differing(now, stored));
        Err(Cause::user(format!(
            "the query is not the one whose rows, cycles and state are in the journal: it had {before} where now is \
             {after}. What was taken in before would be computed in another way than it was. Undo the change and run \
             the query as it was, or start anew in another journal folder"
        )))
    }
}

#[cfg(test)]
mod tests {
    use tidemill_core::arrow::schema::{DataType, Field, Schema, SchemaRef};
    use tidemill_core::{Polled, Source};
    use tidemill_journal::StreamSettings;

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
        assert!(text.contains("'event time of clicks: 'time', 1s behind' where now is 'event"), "{text}");
        assert!(text.contains("5s behind"), "{text}");
        let text = refused(described(1_000_000_000, &["column cents of clicks: price * 10"]));
        assert!(text.contains("had 'column cents of clicks: price * 100' where"), "{text}");
        assert!(refused(described(1_000_000_000, &[])).contains("where now is nothing"));
    }

    #[test]
    fn journals_of_before_are_gone_on_with() {
        let now = described(7, &["column cents of clicks: price * 100"]);
        now.check("source clicks\nsink output\nSELECT time").unwrap();
        assert!(now.check("source clicks\nsink output\nSELECT price").is_err());
    }
}
