//! A case: one query in both languages, and random input.

use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use super::compare::{difference, lines};
use super::input::{Input, Run, inputs, runs};
use super::{batch, streaming};

/// Random inputs of each case, unless `PROPTEST_CASES` says how many.
const INPUTS: u32 = 4;
/// Sub-streams of a split stream.
const SUB_STREAMS: u32 = 3;

/// A query. The text in braces is written differently for streams and for batches, or is a random length.
#[derive(Clone, Copy)]
pub struct Case {
    pub sql: &'static str,
    /// If the batch query is not the same one.
    pub batch_sql: Option<&'static str>,
    pub kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Of one source: the same cuts, at any number of workers, give the same rows in the same order.
    OneSource,
    /// Of two: when cycles are cut depends on the time of day, and with it the order of rows.
    TwoSources,
    /// An aggregate without a window.
    Table,
}

impl Case {
    fn streaming_sql(&self, input: &Input) -> String {
        let interval = |length_ms: i64| format!("INTERVAL '{length_ms} milliseconds'");
        let size = interval(input.slide_ms * input.slides);
        let slide = interval(input.slide_ms);
        let gap = interval(input.gap_ms);
        let mut sql = with_lengths(self.sql, input).replace("{in order}", "ORDER BY at");
        sql = sql.replace("{slide}", &slide);
        for name in ["a", "b"] {
            let split = format!(
                "splitstream(TABLE({name}), {SUB_STREAMS}, route => id % {SUB_STREAMS}, broadcast => flag)"
            );
            sql = sql.replace(&format!("{{split {name}}}"), &split);
            sql = sql.replace(&format!("{{tumble {name}}}"), &format!("tumble(TABLE({name}), at, {size})"));
            sql =
                sql.replace(&format!("{{hop {name}}}"), &format!("hop(TABLE({name}), at, {slide}, {size})"));
            for session in ["session", "session by key"] {
                let call = format!("session(TABLE({name}), at, {gap})");
                sql = sql.replace(&format!("{{{session} {name}}}"), &call);
            }
        }
        assert!(!sql.contains('{'), "{sql}");
        sql
    }

    fn batch_sql(&self, input: &Input) -> String {
        let mut sql = with_lengths(self.batch_sql.unwrap_or(self.sql), input);
        // Streams take rows of equal times in the order of their arrival.
        sql = sql.replace("{in order}", "ORDER BY at, id");
        for name in ["a", "b"] {
            for (call, table) in [
                ("tumble", "tumble"),
                ("hop", "hop"),
                ("session", "session"),
                ("session by key", "session_by_key"),
            ] {
                sql = sql.replace(&format!("{{{call} {name}}}"), &format!("{table}_{name}"));
            }
        }
        if let Some((before, each)) = sql.split_once("{each}") {
            sql = of_each_sub_stream(before, each);
        }
        assert!(!sql.contains('{'), "{sql}");
        sql
    }

    /// Checks the query with random inputs and settings.
    pub fn check(self) {
        let cases =
            std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(INPUTS);
        let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
        let strategy = (inputs(), runs(), runs());
        let checked = TestRunner::new(config).run(&strategy, |(input, one, other)| {
            self.check_once(&input, &one, &other).map_err(TestCaseError::fail)
        });
        checked.unwrap_or_else(|error| panic!("{error}"));
    }

    fn check_once(self, input: &Input, one: &Run, other: &Run) -> Result<(), String> {
        let (sql, batch_sql) = (self.streaming_sql(input), self.batch_sql(input));
        let expected = batch::answer(&batch_sql, input);
        let streamed = streaming::answer(&sql, input, one, self.kind == Kind::Table);
        let differ =
            |what: &str, text: String| Err(format!("{what}: {text}\nstreamed: {sql}\nin batch: {batch_sql}"));
        if let Some(text) = difference(&streamed, &expected) {
            return differ("the answers differ", text);
        }
        if self.kind == Kind::Table {
            return match difference(&streaming::upserts(&sql, input, other), &expected) {
                Some(text) => differ("the upserts differ", text),
                None => Ok(()),
            };
        }
        // A cut's watermark is that of the batches up to it, so the same cuts are those of the same batches.
        let same_cuts = self.kind == Kind::OneSource;
        let again = if same_cuts { Run { workers: other.workers, ..one.clone() } } else { other.clone() };
        let again = streaming::answer(&sql, input, &again, false);
        match difference(&again, &expected) {
            Some(text) => differ("the answers of the second run differ", text),
            None if same_cuts && lines(&streamed) != lines(&again) => {
                let text = format!("\n{}\n\n{}", lines(&streamed).join("\n"), lines(&again).join("\n"));
                differ("the order depends on the number of workers", text)
            }
            None => Ok(()),
        }
    }
}

/// A query for each sub-stream, united; `{sub}` holds for its rows. It ends where a parenthesis closes that is open
/// before it.
fn of_each_sub_stream(before: &str, each: &str) -> String {
    let end =
        if before.ends_with('(') { each.rfind(')').expect("the parenthesis is closed") } else { each.len() };
    let (each, after) = each.split_at(end);
    let of = |number: u32| each.replace("{sub}", &format!("(flag IS TRUE OR id % {SUB_STREAMS} = {number})"));
    let all: Vec<String> = (0..SUB_STREAMS).map(of).collect();
    format!("{before}{}{after}", all.join(" UNION ALL "))
}

fn with_lengths(sql: &str, input: &Input) -> String {
    let interval = |length_ms: i64| format!("INTERVAL '{length_ms} milliseconds'");
    sql.replace("{size}", &interval(input.slide_ms * input.slides))
        .replace("{before}", &interval(input.before_ms))
        .replace("{after}", &interval(input.after_ms))
        .replace("{gap}", &interval(input.gap_ms))
}
