//! What the server says about its stream.

use std::time::Instant;

use anyhow::Context;

/// The metrics of a moment.
pub struct Metrics {
    text: String,
    at: Instant,
}

impl Metrics {
    pub fn now(text: String) -> Metrics {
        Metrics { text, at: Instant::now() }
    }

    /// The value of a metric without labels, or with these.
    fn value(&self, name: &str) -> anyhow::Result<f64> {
        let line = self.text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|value| value.trim().parse().ok()).with_context(|| format!("there is no metric {name}"))
    }

    /// Bytes of answers that clients have not read.
    pub fn unread_bytes(&self) -> anyhow::Result<u64> {
        Ok(self.value("tidemill_unread_bytes")? as u64)
    }

    /// How many events of a query were answered within which time, in seconds.
    fn answered(&self, query: &str) -> Vec<(f64, u64)> {
        let prefix = format!("tidemill_response_time_seconds_bucket{{query=\"{query}\",le=\"");
        let bucket = |line: &str| {
            let (bound, count) = line.strip_prefix(&prefix)?.split_once("\"} ")?;
            let bound = if bound == "+Inf" { f64::INFINITY } else { bound.parse().ok()? };
            Some((bound, count.trim().parse().ok()?))
        };
        self.text.lines().filter_map(bucket).collect()
    }
}

/// What became of the events of a query in a time.
pub struct Period {
    answered: Vec<(f64, u64)>,
    seconds: f64,
}

impl Period {
    pub fn between(before: &Metrics, after: &Metrics, query: &str) -> Period {
        let earlier = before.answered(query);
        let count_before =
            |bound: f64| earlier.iter().find(|(of, _)| *of == bound).map_or(0, |(_, count)| *count);
        let later = after.answered(query).into_iter();
        let answered = later.map(|(bound, count)| (bound, count - count_before(bound))).collect();
        Period { answered, seconds: (after.at - before.at).as_secs_f64() }
    }

    pub fn events(&self) -> u64 {
        self.answered.last().map_or(0, |(_, count)| *count)
    }

    /// The bound of the server's histogram within which this share of the events was answered.
    fn within(&self, share: f64) -> String {
        let wanted = (self.events() as f64 * share).ceil() as u64;
        let bound = self.answered.iter().find(|(_, count)| *count >= wanted).map(|(bound, _)| *bound);
        match bound.filter(|_| wanted > 0) {
            None => "-".to_owned(),
            Some(bound) if bound.is_infinite() => "> 60 s".to_owned(),
            Some(bound) if bound < 1.0 => format!("<= {} ms", bound * 1e3),
            Some(bound) => format!("<= {bound} s"),
        }
    }

    /// A line for people.
    pub fn line(&self, query: &str) -> String {
        format!(
            "  stream '{query}': {:.0} events/s, from arrival to commit p50 {}, p99 {}, p99.9 {}, all {}",
            self.events() as f64 / self.seconds,
            self.within(0.5),
            self.within(0.99),
            self.within(0.999),
            self.within(1.0)
        )
    }
}
