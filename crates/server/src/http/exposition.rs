//! Prometheus's text format.

use std::fmt::{Display, Write};
use std::time::Duration;

use tidemill_engine::ResponseTimes;

/// The upper bounds of the buckets of response times.
pub(super) const BUCKETS: [Duration; 16] = [
    Duration::from_micros(500),
    Duration::from_millis(1),
    Duration::from_millis(2),
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(20),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(200),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(5),
    Duration::from_secs(10),
    Duration::from_secs(30),
    Duration::from_secs(60),
];

/// What kind of metric a family is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MetricKind {
    /// It only goes up.
    Counter,
    /// It goes up and down.
    Gauge,
    Histogram,
}

/// A label: its name and its value.
pub(super) type Label<'a> = (&'a str, &'a str);

/// A text in Prometheus's format that grows.
#[derive(Default)]
pub(super) struct Exposition(String);

impl Exposition {
    /// Begins a family of metrics; its samples follow.
    pub fn family(&mut self, name: &'static str, kind: MetricKind, help: &str) -> Family<'_> {
        self.family_named(name.to_owned(), kind, help)
    }

    pub fn family_named(&mut self, name: String, kind: MetricKind, help: &str) -> Family<'_> {
        let kind = match kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
        };
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        let head = format!("# HELP {name} {help}\n# TYPE {name} {kind}\n");
        Family { exposition: self, head: Some(head), name }
    }

    pub fn into_text(self) -> String {
        self.0
    }

    fn sample(&mut self, name: &str, labels: &[Label<'_>], value: impl Display) {
        self.0.push_str(name);
        for (index, (label, text)) in labels.iter().enumerate() {
            self.0.push(if index == 0 { '{' } else { ',' });
            let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.0, "{label}=\"{text}\"");
        }
        let end = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.0, "{end} {value}");
    }
}

/// A family of metrics. One without a sample is not written.
pub(super) struct Family<'a> {
    exposition: &'a mut Exposition,
    head: Option<String>,
    name: String,
}

impl Family<'_> {
    pub fn sample(&mut self, labels: &[Label<'_>], value: impl Display) {
        self.begin();
        self.exposition.sample(&self.name, labels, value);
    }

    pub fn histogram(&mut self, labels: &[Label<'_>], times: &ResponseTimes) {
        self.begin();
        let bucket = format!("{}_bucket", self.name);
        let bounds =
            BUCKETS.iter().map(|bound| (bound.as_secs_f64().to_string(), times.count_within(*bound)));
        for (bound, count) in bounds.chain([("+Inf".to_owned(), times.count())]) {
            let with_bound = [labels, &[("le", bound.as_str())]].concat();
            self.exposition.sample(&bucket, &with_bound, count);
        }
        let sum = times.mean().as_secs_f64() * times.count() as f64;
        self.exposition.sample(&format!("{}_sum", self.name), labels, sum);
        self.exposition.sample(&format!("{}_count", self.name), labels, times.count());
    }

    fn begin(&mut self) {
        if let Some(head) = self.head.take() {
            self.exposition.0.push_str(&head);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_users_cannot_break_the_format() {
        let mut text = Exposition::default();
        text.family("none", MetricKind::Gauge, "not written");
        let mut family = text.family("a", MetricKind::Counter, "one\ntwo");
        family.sample(&[("query", "a\"b\\c\nd")], 7_u64);
        family.sample(&[], 0.25);
        let expected = "# HELP a one\\ntwo\n# TYPE a counter\na{query=\"a\\\"b\\\\c\\nd\"} 7\na 0.25\n";
        assert_eq!(text.into_text(), expected);
    }
}
