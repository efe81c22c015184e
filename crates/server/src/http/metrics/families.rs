//! Metrics as families of samples, whoever gets them: Prometheus as text, a collector of OpenTelemetry as JSON.

use std::fmt;
use std::time::Duration;

use tidemill_engine::ResponseTimes;

/// The upper bounds of the buckets of response times.
pub(crate) const BUCKETS: [Duration; 16] = [
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
pub(crate) enum MetricKind {
    /// It only goes up.
    Counter,
    /// It goes up and down.
    Gauge,
    Histogram,
}

/// A value that is counted or measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Number {
    Whole(u64),
    Real(f64),
}

impl From<u64> for Number {
    fn from(value: u64) -> Number {
        Number::Whole(value)
    }
}

impl From<u8> for Number {
    fn from(value: u8) -> Number {
        Number::Whole(value.into())
    }
}

impl From<f64> for Number {
    fn from(value: f64) -> Number {
        Number::Real(value)
    }
}

impl fmt::Display for Number {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Number::Whole(value) => value.fmt(formatter),
            Number::Real(value) => value.fmt(formatter),
        }
    }
}

/// How times are distributed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Distribution {
    /// How many times are at most as long as each of [`BUCKETS`].
    pub within: Vec<u64>,
    pub count: u64,
    /// Of all times, in seconds.
    pub sum: f64,
}

impl Distribution {
    fn of(times: &ResponseTimes) -> Distribution {
        let (within, count) = (BUCKETS.map(|bound| times.count_within(bound)).to_vec(), times.count());
        Distribution { within, count, sum: times.mean().as_secs_f64() * count as f64 }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Measured {
    Number(Number),
    Distribution(Distribution),
}

/// A label: its name and its value.
pub(crate) type Label<'a> = (&'static str, &'a str);

/// What was measured of one thing, which its labels name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sample {
    pub labels: Vec<(&'static str, String)>,
    pub value: Measured,
}

/// A family of metrics.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Family {
    pub name: String,
    pub kind: MetricKind,
    pub help: String,
    pub samples: Vec<Sample>,
}

impl Family {
    pub fn sample(&mut self, labels: &[Label<'_>], value: impl Into<Number>) {
        self.add(labels, Measured::Number(value.into()));
    }

    pub fn histogram(&mut self, labels: &[Label<'_>], times: &ResponseTimes) {
        self.add(labels, Measured::Distribution(Distribution::of(times)));
    }

    fn add(&mut self, labels: &[Label<'_>], value: Measured) {
        let labels = labels.iter().map(|(label, text)| (*label, (*text).to_owned())).collect();
        self.samples.push(Sample { labels, value });
    }
}

/// Families, in their order.
#[derive(Debug, Default)]
pub(crate) struct Families(Vec<Family>);

impl Families {
    /// Begins a family of metrics; its samples follow.
    pub fn family(&mut self, name: &'static str, kind: MetricKind, help: &str) -> &mut Family {
        self.family_named(name.to_owned(), kind, help)
    }

    pub fn family_named(&mut self, name: String, kind: MetricKind, help: &str) -> &mut Family {
        let at = self.0.len();
        self.0.push(Family { name, kind, help: help.to_owned(), samples: Vec::new() });
        &mut self.0[at]
    }

    /// Those with samples.
    pub fn measured(&self) -> impl Iterator<Item = &Family> {
        self.0.iter().filter(|family| !family.samples.is_empty())
    }
}
