//! Many lines that look alike, as senders write them, with some among them that do not: read by both parsers, and compared.

use std::collections::VecDeque;

use proptest::prelude::*;
use proptest::sample::subsequence;
use tidemill_connect::formats::line_protocol::{LineProtocolDecoder, LineProtocolSettings};
use tidemill_connect::formats::{DecoderSettings, RecordDecoder};

use tidemill_testing::line_protocol::columns::schema;
use tidemill_testing::line_protocol::compared::{expected, read};
use tidemill_testing::line_protocol::oracle::Point;

/// Names as they are written, and values that most often, but not always, fit their columns.
const TAGS: [&str; 3] = ["host", "a\\ b", "unknown"];
const FIELDS: [(&str, &str); 6] = [
    ("integer", "-?[0-9]{1,19}i|[0-9]{1,20}i?|[0-9]{1,18}u|t"),
    ("unsigned", "[0-9]{1,21}u|[0-9]{1,18}i?|-1i"),
    ("float", "-?[0-9]{1,4}\\.[0-9]{0,19}|[0-9]{1,20}|1e-?[0-9]{1,3}|\\.|1\\.5i"),
    ("boolean", "t|f|true|FALSE|tru|1"),
    ("text", "\"[a-z ,=]{0,20}\""),
    ("other", "[0-9]{1,9}|t|x|\"y z\""),
];

/// The names of a line, with places for values.
#[derive(Clone, Debug)]
struct Shape {
    measurement: String,
    tags: Vec<&'static str>,
    fields: Vec<(&'static str, &'static str)>,
    has_time: bool,
    end: &'static str,
}

fn shape() -> impl Strategy<Value = Shape> {
    let tags = subsequence(TAGS.to_vec(), 0..=3).prop_shuffle();
    let fields = subsequence(FIELDS.to_vec(), 1..=6).prop_shuffle();
    let end = prop_oneof![4 => Just("\n"), 1 => Just("\r\n")];
    ("[a-c]{1,3}", tags, fields, prop::bool::weighted(0.8), end).prop_map(
        |(measurement, tags, fields, has_time, end)| Shape { measurement, tags, fields, has_time, end },
    )
}

fn line(shape: &Shape) -> BoxedStrategy<String> {
    let tag = |name: &&'static str| {
        let name = *name;
        "[a-z0-9]{0,40}|[a-zé]{1,9}".prop_map(move |value| (name, value))
    };
    let field = |(name, values): &(&'static str, &'static str)| {
        let name = *name;
        (*values).prop_map(move |value| (name, value))
    };
    let tags: Vec<_> = shape.tags.iter().map(tag).collect();
    let fields: Vec<_> = shape.fields.iter().map(field).collect();
    let time = if shape.has_time { "-?[0-9]{1,19}|[0-9]{10}x" } else { "" };
    let Shape { measurement, end, has_time, .. } = shape.clone();
    (tags, fields, time)
        .prop_map(move |(tags, fields, time)| {
            let pairs = |pairs: Vec<(&str, String)>| {
                pairs.into_iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>()
            };
            let head = [vec![measurement.clone()], pairs(tags)].concat().join(",");
            let time = if has_time { format!(" {time}") } else { time };
            format!("{head} {}{time}{end}", pairs(fields).join(","))
        })
        .boxed()
}

/// Runs of lines of a few shapes.
fn lines() -> impl Strategy<Value = String> {
    proptest::collection::vec(shape(), 1..4).prop_flat_map(|shapes| {
        let runs = proptest::collection::vec((0..shapes.len(), 1..30usize), 1..6);
        runs.prop_flat_map(move |runs| {
            let lines = runs.iter().flat_map(|(shape, count)| std::iter::repeat_n(&shapes[*shape], *count));
            lines.map(line).collect::<Vec<_>>().prop_map(|lines| lines.concat())
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn lines_that_are_alike_are_read_as_by_the_slow_parser(
        text in lines(),
        pieces in 1usize..5000,
        damage in proptest::collection::vec((any::<prop::sample::Index>(), "[ ,=\"\\\\\ni1.#e\r-]"), 0..3),
    ) {
        let mut text: Vec<char> = text.chars().collect();
        for (place, character) in damage {
            text.insert(place.index(text.len() + 1), character.chars().next().unwrap_or(' '));
        }
        let text: String = text.into_iter().collect();
        prop_assert_eq!(read(text.as_bytes(), pieces), expected(&text), "{}", text);
    }
}

/// The result of a text after lines that resemble it.
fn read_after_alike(text: &str) -> (Vec<Point>, u64) {
    let alike = "m,host=a float=1.5 1\n".repeat(3);
    let (points, faults) = read(format!("{alike}{text}").as_bytes(), 10_000);
    (points[3..].to_vec(), faults)
}

#[test]
fn a_line_is_not_taken_for_another() {
    for text in
        ["n,host=a float=1.5 1\n", "m,host=a float=1.5,1\n", "m,host=a,float=1.5 1\n", "m,host=a float=1.5 1"]
    {
        assert_eq!(read_after_alike(text), expected(text), "{text}");
    }
}

#[test]
fn lines_that_are_alike_have_numbers_limits_and_batches_as_others() {
    let schema = schema();
    let settings = DecoderSettings { schema, csv: Default::default(), batch_rows: 10 };
    let limits = LineProtocolSettings { line_bytes_max: 30, ..Default::default() };
    let mut decoder = LineProtocolDecoder::new(settings, limits).expect("served");
    let mut lines = vec!["m,host=a float=1.5 1".to_owned(); 25];
    lines[20] = format!("m,host={} float=1.5 1", "a".repeat(20));
    lines[23] = "m,host=a float=x 1".to_owned();
    let mut batches = VecDeque::new();
    decoder.decode((lines.join("\n") + "\n").as_bytes(), &mut batches).expect("decoded");
    assert_eq!(batches.iter().map(|batch| batch.num_rows()).collect::<Vec<_>>(), [10, 10, 3]);
    let samples = decoder.take_faults().samples;
    assert!(samples[0].starts_with("input, line 21: longer than 30 bytes"), "{samples:?}");
    assert!(samples[1].starts_with("input, line 24: "), "{samples:?}");
}
