//! Points that are written, read by both parsers, and compared.

use std::collections::VecDeque;

use proptest::prelude::*;
use tidemill_connect::formats::RecordDecoder;
use tidemill_connect::formats::line_protocol::Precision;

use tidemill_testing::line_protocol::columns::TAGS;
use tidemill_testing::line_protocol::compared::{decoder, expected, read, rows};

fn escape(text: &str, escaped: &str) -> String {
    text.chars().fold(String::new(), |mut written, character| {
        if escaped.contains(character) {
            written.push('\\');
        }
        written.push(character);
        written
    })
}

fn tags() -> impl Strategy<Value = String> {
    let tag = (0..TAGS.len(), "[a-zé\\\\ ,=]{0,11}[a-z]");
    proptest::collection::vec(tag, 0..4).prop_map(|tags| {
        let write = |(name, value): &(usize, String)| {
            format!(",{}={}", escape(TAGS[*name], ", ="), escape(value, ", ="))
        };
        tags.iter().map(write).collect()
    })
}

fn field() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<i64>().prop_map(|value| format!("integer={value}i")),
        any::<u64>().prop_map(|value| format!("unsigned={value}u")),
        any::<i32>().prop_map(|value| format!("integer={value}")),
        (-1e9..1e9).prop_map(|value: f64| format!("float={value}")),
        any::<f64>()
            .prop_filter("finite", |value| value.is_finite())
            .prop_map(|value| format!("float={value:e}")),
        any::<bool>().prop_map(|value| format!("boolean={value}")),
        "[a-z\\\\\", =é#]{0,20}".prop_map(|text| format!("text=\"{}\"", escape(&text, "\"\\"))),
        "(text|boolean|integer|other)=(5i|t|\"a\"|-1u|)",
    ]
}

fn line() -> impl Strategy<Value = String> {
    let fields = proptest::collection::vec(field(), 1..5).prop_map(|fields| fields.join(","));
    let time = prop_oneof![Just(String::new()), any::<i64>().prop_map(|time| format!(" {time}"))];
    let line =
        ("[a-z,= ]{0,8}[a-z]", tags(), fields, time, "\r?").prop_map(|(name, tags, fields, time, end)| {
            format!("{}{tags} {fields}{time}{end}", escape(&name, ", "))
        });
    prop_oneof![8 => line, 1 => Just("# comment".to_owned()), 1 => Just(String::new())]
}

proptest! {
    #[test]
    fn points_are_read_as_by_the_slow_parser(lines in proptest::collection::vec(line(), 1..12), pieces in 1usize..300) {
        let text = lines.join("\n");
        prop_assert_eq!(read(text.as_bytes(), pieces), expected(&text), "{}", text);
    }

    #[test]
    fn damaged_points_are_read_as_by_the_slow_parser(
        lines in proptest::collection::vec(line(), 1..6),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), "[ ,=\"\\\\\ni1.#e-]"), 0..4),
    ) {
        let mut text: Vec<char> = lines.join("\n").chars().collect();
        for (place, character) in damage {
            let place = place.index(text.len() + 1);
            text.insert(place, character.chars().next().unwrap_or(' '));
        }
        let text: String = text.into_iter().collect();
        prop_assert_eq!(read(text.as_bytes(), 64), expected(&text), "{}", text);
    }
}

#[test]
fn times_have_the_precision_that_is_said() {
    let mut decoder = decoder();
    let mut batches = VecDeque::new();
    for precision in
        [Precision::Seconds, Precision::Milliseconds, Precision::Microseconds, Precision::Nanoseconds]
    {
        decoder.set_precision(precision);
        decoder.decode(b"m float=1 -5\n", &mut batches).expect("decoded");
    }
    let times: Vec<_> = rows(&batches).iter().map(|point| point["time"].clone()).collect();
    assert_eq!(times, ["time -5000000000", "time -5000000", "time -5000", "time -5"]);
    decoder.set_precision(Precision::Seconds);
    decoder.decode(b"m float=1 9223372036854775\n", &mut batches).expect("decoded");
    assert!(decoder.faults().samples[0].contains("out of range; check the precision"));
}
