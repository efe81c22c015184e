//! Prometheus's text format.

use std::fmt::{Display, Write};

use super::families::{BUCKETS, Families, Measured, MetricKind};

/// The families as text.
pub(crate) fn text(families: &Families) -> String {
    let mut text = String::new();
    for family in families.measured() {
        let (name, kind) = (&family.name, family.kind.word());
        let help = family.help.replace('\\', "\\\\").replace('\n', "\\n");
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for sample in &family.samples {
            let labels: Vec<(&str, &str)> =
                sample.labels.iter().map(|(label, value)| (*label, value.as_str())).collect();
            match &sample.value {
                Measured::Number(value) => write_sample(&mut text, name, &labels, value),
                Measured::Distribution(times) => {
                    let bucket = format!("{name}_bucket");
                    let bounds = BUCKETS.iter().map(|bound| bound.as_secs_f64().to_string());
                    let bounds = bounds.zip(times.within.iter().copied());
                    for (bound, count) in bounds.chain([("+Inf".to_owned(), times.count)]) {
                        let with_bound = [labels.as_slice(), &[("le", bound.as_str())]].concat();
                        write_sample(&mut text, &bucket, &with_bound, count);
                    }
                    write_sample(&mut text, &format!("{name}_sum"), &labels, times.sum);
                    write_sample(&mut text, &format!("{name}_count"), &labels, times.count);
                }
            }
        }
    }
    text
}

impl MetricKind {
    fn word(self) -> &'static str {
        match self {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
        }
    }
}

fn write_sample(text: &mut String, name: &str, labels: &[(&str, &str)], value: impl Display) {
    text.push_str(name);
    for (index, (label, value)) in labels.iter().enumerate() {
        text.push(if index == 0 { '{' } else { ',' });
        let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let _ = write!(text, "{label}=\"{value}\"");
    }
    let end = if labels.is_empty() { "" } else { "}" };
    let _ = writeln!(text, "{end} {value}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_users_cannot_break_the_format() {
        let mut families = Families::default();
        families.family("none", MetricKind::Gauge, "not written");
        let family = families.family("a", MetricKind::Counter, "one\ntwo");
        family.sample(&[("query", "a\"b\\c\nd")], 7_u64);
        family.sample(&[], 0.25);
        let expected = "# HELP a one\\ntwo\n# TYPE a counter\na{query=\"a\\\"b\\\\c\\nd\"} 7\na 0.25\n";
        assert_eq!(text(&families), expected);
    }
}
