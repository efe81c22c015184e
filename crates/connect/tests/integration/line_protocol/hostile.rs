//! Lines that are too long, have too many fields, are undeclared, or are not text at all.

use std::collections::VecDeque;
use std::sync::Arc;

use proptest::prelude::*;
use tidemill_connect::formats::line_protocol::{LineProtocolDecoder, LineProtocolSettings};
use tidemill_connect::formats::{DecoderSettings, RecordDecoder};
use tidemill_core::arrow::schema::{DataType, Field, Schema};

use tidemill_testing::line_protocol::columns::schema;
use tidemill_testing::line_protocol::compared::{decoder, rows};

proptest! {
    #[test]
    fn any_bytes_can_come(bytes in proptest::collection::vec(any::<u8>(), 0..600), pieces in 1usize..100) {
        let (mut decoder, mut batches) = (decoder(), VecDeque::new());
        for piece in bytes.chunks(pieces) {
            prop_assert!(decoder.decode(piece, &mut batches).is_ok());
        }
        prop_assert!(decoder.finish(&mut batches).is_ok());
    }

    #[test]
    fn any_separators_can_come(text in "[mhost, =\\\\\"\n0-9ifut.#-]{0,200}") {
        let (mut decoder, mut batches) = (decoder(), VecDeque::new());
        prop_assert!(decoder.decode(text.as_bytes(), &mut batches).is_ok());
        prop_assert!(decoder.finish(&mut batches).is_ok());
    }
}

fn limited(settings: LineProtocolSettings) -> LineProtocolDecoder {
    let decoder = DecoderSettings { schema: schema(), csv: Default::default(), batch_rows: 100 };
    LineProtocolDecoder::new(decoder, settings).expect("served")
}

#[test]
fn long_lines_and_large_points_are_faults_whatever_the_pieces() {
    let text = format!("m float=1\nm text=\"{}\"\nm float=2\nm a=1,b=2,c=3,d=4\nm float=3", "x".repeat(200));
    for pieces in [1, 7, 64, 1000] {
        let mut decoder =
            limited(LineProtocolSettings { line_bytes_max: 100, values_max: 3, ..Default::default() });
        let mut batches = VecDeque::new();
        decoder.begin("agent");
        for piece in text.as_bytes().chunks(pieces) {
            decoder.decode(piece, &mut batches).expect("decoded");
        }
        decoder.finish(&mut batches).expect("finished");
        assert_eq!(rows(&batches).len(), 3, "{pieces}");
        let faults = decoder.take_faults();
        assert_eq!(
            faults.samples,
            [
                "agent, line 2: longer than 100 bytes",
                "agent, line 4: more than 3 tags and fields; send them as several points"
            ]
        );
    }
}

#[test]
fn a_bad_line_leaves_nothing_behind_and_says_why() {
    let (mut decoder, mut batches) = (decoder(), VecDeque::new());
    let text = "m,host=a float=1 1\nm,host=b,a\\ b=c float=1,integer=1.5 2\nm,host=c boolean=t,boolean=f\n\
                m,host=\nm,host=a=b float=1\n,host=a float=1\nm,host=a\nm float=1 5 6\nm text=5\nm,host=z text=\"a\n\
                m integer=-9223372036854775809i\nm,host=d float=2 3\n";
    decoder.begin("agent");
    decoder.decode(text.as_bytes(), &mut batches).expect("decoded");
    let rows = rows(&batches);
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[1].get("a b"), None);
    let faults = decoder.faults();
    assert_eq!(faults.count, 10);
    assert_eq!(
        faults.samples[..4],
        [
            "agent, line 2: column 'integer': '1.5' is not a BIGINT",
            "agent, line 3: column 'boolean' has two values",
            "agent, line 4: tag 'host=' has no value; remove the tag",
            "agent, line 5: tag 'host=': a '=' in the value must be written '\\='",
        ]
    );
}

#[test]
fn an_undeclared_name_is_told_once_and_other_measurements_are_left_out() {
    let mut decoder =
        limited(LineProtocolSettings { measurements: vec!["cpu load".into()], ..Default::default() });
    let mut batches = VecDeque::new();
    for _ in 0..3 {
        let text = b"cpu\\ load,rack=7 float=1,idle=2\ndisk,other=1 float=5\n";
        decoder.decode(text, &mut batches).expect("decoded");
    }
    assert_eq!(rows(&batches).len(), 3);
    let faults = decoder.faults();
    assert_eq!(
        faults.samples,
        [
            "input: tag 'rack' is ignored because no column has this name",
            "input: field 'idle' is ignored because no column has this name"
        ]
    );
    // Those that are declared and not chosen are not told.
    decoder.set_projection(&[7]).expect("chosen");
    decoder.decode(b"cpu\\ load,host=a float=1,integer=7i\n", &mut batches).expect("decoded");
    assert_eq!(decoder.faults().count, 0);
    assert_eq!(batches.back().map(|batch| batch.num_columns()), Some(1));
}

#[test]
fn columns_that_cannot_be_served_are_refused() {
    let refused = |name: &str, data_type| {
        let schema = Arc::new(Schema::new(vec![Field::new(name, data_type, true)]));
        let decoder = DecoderSettings { schema, csv: Default::default(), batch_rows: 1 };
        LineProtocolDecoder::new(decoder, Default::default()).expect_err("refused").to_string()
    };
    assert!(refused("at", DataType::Date32).contains("line protocol has no DATE"));
    assert!(refused("time", DataType::Int64).contains("declare it as TIMESTAMP"));
    assert!(refused("measurement", DataType::Int64).contains("declare it as VARCHAR"));
}
