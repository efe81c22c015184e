//! Lines as rows: whatever pieces the bytes come in, the rows are those of a naive division at line ends.
#![cfg(feature = "tables")]

use std::collections::VecDeque;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_schema::{DataType, Field, Schema};
use proptest::prelude::*;
use tidemill_connect::formats::text_lines::lines_schema;
use tidemill_connect::formats::{DecoderSettings, Format, RECORD_LIMIT_BYTES, RecordDecoder, text_decoder};

type Read = (Vec<(i64, String)>, Vec<String>);

fn decoder() -> Box<dyn RecordDecoder> {
    let settings = DecoderSettings { schema: lines_schema(), csv: Default::default(), batch_rows: 3 };
    text_decoder(Format::Lines, settings).unwrap()
}

fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Read {
    let (mut decoder, mut batches) = (decoder(), VecDeque::new());
    decoder.begin("f");
    for piece in pieces {
        decoder.decode(piece, &mut batches).unwrap();
    }
    decoder.finish(&mut batches).unwrap();
    let mut rows = Vec::new();
    for batch in &batches {
        assert!(batch.num_rows() <= 3, "a batch of {} rows", batch.num_rows());
        let numbers = batch.column(0).as_primitive::<Int64Type>().values().iter().copied();
        let lines = batch.column(1).as_string::<i32>().iter().flatten().map(String::from);
        rows.extend(numbers.zip(lines));
    }
    (rows, decoder.faults().samples)
}

/// The rows of a text that is taken as a whole.
fn naive(bytes: &[u8]) -> Read {
    let whole = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let (mut rows, mut faults) = (Vec::new(), Vec::new());
    if bytes.is_empty() {
        return (rows, faults);
    }
    for (number, line) in (1..).zip(whole.split(|byte| *byte == b'\n')) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        match std::str::from_utf8(line) {
            Ok(line) => rows.push((number, line.to_string())),
            Err(_) => faults.push(format!("f, line {number}: bytes that are not UTF-8")),
        }
    }
    faults.truncate(8);
    (rows, faults)
}

proptest! {
    #[test]
    fn pieces_do_not_matter(
        bytes in prop::collection::vec(prop::sample::select(b"ab\n\r\xc3\xa9".to_vec()), 0..60),
        size in 1..9_usize,
    ) {
        let expected = naive(&bytes);
        prop_assert_eq!(read([bytes.as_slice()]), expected.clone());
        prop_assert_eq!(read(bytes.chunks(size)), expected);
    }
}

#[test]
fn a_line_that_is_too_long_is_a_fault_and_keeps_no_memory() {
    let long = vec![b'x'; RECORD_LIMIT_BYTES + 1];
    let fits = &long[1..];
    let (rows, faults) = read([&b"a\n"[..], &long[..100], &long, b"\nb\n", fits, b"\nc\n", &long]);
    let kept: Vec<(i64, usize)> = rows.iter().map(|(number, line)| (*number, line.len())).collect();
    assert_eq!(kept, [(1, 1), (3, 1), (4, RECORD_LIMIT_BYTES), (5, 1)]);
    assert_eq!(faults, ["f, line 2: more than 1048576 bytes", "f, line 6: more than 1048576 bytes"]);
}

#[test]
fn only_columns_that_lines_have_can_be_declared() {
    let declared = |name: &str, data_type| {
        let schema = Schema::new(vec![Field::new(name, data_type, true)]);
        let settings = DecoderSettings { schema: schema.into(), csv: Default::default(), batch_rows: 3 };
        text_decoder(Format::Lines, settings).map(|_| ()).map_err(|cause| cause.to_string())
    };
    assert_eq!(declared("line", DataType::Utf8), Ok(()));
    assert!(declared("line", DataType::Int64).unwrap_err().contains("line VARCHAR"));
    assert!(declared("text", DataType::Utf8).unwrap_err().contains("column 'text'"));
    let mut lines = decoder();
    lines.set_projection(&[1]).unwrap();
    let mut batches = VecDeque::new();
    lines.decode(b"only\n", &mut batches).unwrap();
    assert_eq!((batches[0].num_columns(), batches[0].column(0).as_string::<i32>().value(0)), (1, "only"));
}
