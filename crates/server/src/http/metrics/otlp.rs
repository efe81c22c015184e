//! Metrics as a collector of OpenTelemetry takes them: an `ExportMetricsServiceRequest` in the JSON of protocol buffers (decision
//! 0115).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::families::{BUCKETS, Distribution, Families, Family, Measured, MetricKind, Number, Sample};

/// The type of the content of a request.
pub(crate) const CONTENT_TYPE: &str = "application/json";
/// That a value counts from the start of the process.
const CUMULATIVE: u8 = 2;

/// The request that tells a collector the metrics of a server which has run since `started`.
pub(crate) fn request(families: &Families, instance: &str, started: SystemTime, now: SystemTime) -> Vec<u8> {
    let times = Times { start: nanoseconds(started), now: nanoseconds(now) };
    let metrics: Vec<Value> = families.measured().map(|family| metric(family, &times)).collect();
    let (name, version) = ("tidemill", env!("CARGO_PKG_VERSION"));
    let resource = [("service.name", name), ("service.version", version), ("service.instance.id", instance)];
    let request = json!({ "resourceMetrics": [{
        "resource": { "attributes": attributes(resource) },
        "scopeMetrics": [{ "scope": { "name": name, "version": version }, "metrics": metrics }],
    }]});
    request.to_string().into_bytes()
}

/// When the counters began, and when they were read. JSON has no numbers of 64 bits, so they are texts.
struct Times {
    start: String,
    now: String,
}

fn nanoseconds(time: SystemTime) -> String {
    time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_nanos().to_string()
}

fn attributes<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Value {
    let pairs = pairs.into_iter();
    pairs.map(|(name, value)| json!({ "key": name, "value": { "stringValue": value } })).collect()
}

fn metric(family: &Family, times: &Times) -> Value {
    let points: Vec<Value> =
        family.samples.iter().filter_map(|sample| point(sample, family.kind, times)).collect();
    let (kind, data) = match family.kind {
        MetricKind::Gauge => ("gauge", json!({ "dataPoints": points })),
        MetricKind::Counter => (
            "sum",
            json!({ "dataPoints": points, "aggregationTemporality": CUMULATIVE, "isMonotonic": true }),
        ),
        MetricKind::Histogram => {
            ("histogram", json!({ "dataPoints": points, "aggregationTemporality": CUMULATIVE }))
        }
    };
    json!({ "name": family.name, "description": family.help, "unit": unit(&family.name), kind: data })
}

fn unit(name: &str) -> &'static str {
    match name.trim_end_matches("_total") {
        name if name.ends_with("_seconds") => "s",
        name if name.ends_with("_bytes") => "By",
        _ => "1",
    }
}

/// `None` if the value is not a number.
fn point(sample: &Sample, kind: MetricKind, times: &Times) -> Option<Value> {
    let mut point = match &sample.value {
        Measured::Number(Number::Whole(value)) => json!({ "asInt": value.to_string() }),
        Measured::Number(Number::Real(value)) => value.is_finite().then(|| json!({ "asDouble": value }))?,
        Measured::Distribution(distribution) => of_distribution(distribution),
    };
    point["attributes"] = attributes(sample.labels.iter().map(|(label, value)| (*label, value.as_str())));
    point["timeUnixNano"] = json!(times.now);
    if kind != MetricKind::Gauge {
        point["startTimeUnixNano"] = json!(times.start);
    }
    Some(point)
}

/// A collector counts each bucket for itself, and one more for what is longer than all bounds.
fn of_distribution(distribution: &Distribution) -> Value {
    let ends = distribution.within.iter().chain([&distribution.count]);
    let begins = [&0].into_iter().chain(&distribution.within);
    let counts: Vec<String> =
        ends.zip(begins).map(|(end, begin)| end.saturating_sub(*begin).to_string()).collect();
    let bounds: Vec<f64> = BUCKETS.iter().map(Duration::as_secs_f64).collect();
    let (count, sum) = (distribution.count.to_string(), distribution.sum);
    json!({ "count": count, "sum": sum, "bucketCounts": counts, "explicitBounds": bounds })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_count_what_is_between_their_bounds() {
        let mut within = vec![0; BUCKETS.len()];
        within[3..].fill(5);
        within[7..].fill(9);
        let value = of_distribution(&Distribution { within, count: 10, sum: 1.5 });
        let counts: Vec<u64> = value["bucketCounts"]
            .as_array()
            .unwrap()
            .iter()
            .map(|count| count.as_str().unwrap().parse().unwrap())
            .collect();
        assert_eq!(counts.len(), value["explicitBounds"].as_array().unwrap().len() + 1);
        assert_eq!((counts[3], counts[7], counts[BUCKETS.len()]), (5, 4, 1));
        assert_eq!(counts.iter().sum::<u64>(), 10);
    }

    #[test]
    fn what_is_no_number_is_left_out() {
        let mut families = Families::default();
        let family = families.family("a_seconds", MetricKind::Gauge, "A.");
        family.sample(&[], f64::NAN);
        family.sample(&[], 2.5);
        let request = request(&families, "i", UNIX_EPOCH, UNIX_EPOCH);
        let request: Value = serde_json::from_slice(&request).unwrap();
        let metric = &request["resourceMetrics"][0]["scopeMetrics"][0]["metrics"][0];
        assert_eq!(
            (&metric["unit"], &metric["gauge"]["dataPoints"][0]["asDouble"]),
            (&json!("s"), &json!(2.5))
        );
        assert_eq!(metric["gauge"]["dataPoints"].as_array().map(Vec::len), Some(1));
    }
}
