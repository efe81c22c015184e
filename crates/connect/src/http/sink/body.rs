//! A cycle's rows as bodies of requests. The same rows give the same bodies, so that a request that is sent again can be
//! recognised.

use std::ops::Range;

use arrow_array::RecordBatch;
use hyper::body::Bytes;
use tidemill_core::Cause;

use super::settings::PostBody;
use crate::formats::encode::{NdjsonEncoder, TextEncoder};

/// A body is not made longer than this, unless a single row is.
const BODY_BYTES_MAX: usize = 4 << 20;

/// A request's body, and the rows that it holds.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Body {
    pub bytes: Bytes,
    pub rows: Range<usize>,
}

impl PostBody {
    pub(super) fn content_type(self) -> &'static str {
        match self {
            PostBody::Lines => "application/x-ndjson",
            PostBody::Array | PostBody::Row => "application/json",
        }
    }
}

/// The bodies of some rows.
pub(super) fn bodies(rows: &RecordBatch, form: PostBody, rows_max: usize) -> Result<Vec<Body>, Cause> {
    let mut text = Vec::new();
    NdjsonEncoder::new(rows.schema_ref())?.rows(rows, &mut text)?;
    let rows_max = if form == PostBody::Row { 1 } else { rows_max.max(1) };
    let mut bodies = Vec::new();
    let (mut start, mut first, mut row) = (0, 0, 0);
    let mut place = 0;
    for end in memchr::memchr_iter(b'\n', &text).map(|newline| newline + 1) {
        // Whether the line that ends here still fits.
        if row > first && (row - first == rows_max || end - start > BODY_BYTES_MAX) {
            bodies.push(Body { bytes: body(&text[start..place], form), rows: first..row });
            (start, first) = (place, row);
        }
        (place, row) = (end, row + 1);
    }
    if row > first {
        bodies.push(Body { bytes: body(&text[start..place], form), rows: first..row });
    }
    Ok(bodies)
}

/// Whole lines in the form of a body. Within a line, JSON has no line breaks.
fn body(lines: &[u8], form: PostBody) -> Bytes {
    let mut bytes = match form {
        PostBody::Lines => return Bytes::copy_from_slice(lines),
        PostBody::Row => return Bytes::copy_from_slice(lines.trim_ascii_end()),
        PostBody::Array => b"[".to_vec(),
    };
    bytes.extend(lines.trim_ascii_end().iter().map(|byte| if *byte == b'\n' { b',' } else { *byte }));
    bytes.push(b']');
    bytes.into()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Int64Array, StringArray};

    use super::*;

    fn rows(count: i64) -> RecordBatch {
        let numbers = Arc::new(Int64Array::from_iter_values(0..count)) as _;
        let texts = Arc::new(StringArray::from_iter_values((0..count).map(|row| format!("a\n{row}")))) as _;
        RecordBatch::try_from_iter([("n", numbers), ("t", texts)]).unwrap()
    }

    fn texts(rows: &RecordBatch, form: PostBody, rows_max: usize) -> Vec<(String, Range<usize>)> {
        let bodies = bodies(rows, form, rows_max).unwrap().into_iter();
        bodies.map(|body| (String::from_utf8(body.bytes.to_vec()).unwrap(), body.rows)).collect()
    }

    #[test]
    fn each_row_is_in_one_body_in_the_form_that_is_asked_for() {
        let three = rows(3);
        let line = |row: i64| format!(r#"{{"n":{row},"t":"a\n{row}"}}"#);
        assert_eq!(
            texts(&three, PostBody::Lines, 2),
            [(format!("{}\n{}\n", line(0), line(1)), 0..2), (format!("{}\n", line(2)), 2..3)]
        );
        assert_eq!(
            texts(&three, PostBody::Array, 9),
            [(format!("[{},{},{}]", line(0), line(1), line(2)), 0..3)]
        );
        assert_eq!(texts(&three, PostBody::Row, 9), [0, 1, 2].map(|row| (line(row as i64), row..row + 1)));
        assert_eq!(texts(&rows(0), PostBody::Array, 9), []);
    }

    #[test]
    fn long_bodies_are_divided() {
        let long = Arc::new(StringArray::from_iter_values((0..5).map(|_| "x".repeat(3 << 20)))) as _;
        let rows = RecordBatch::try_from_iter([("t", long)]).unwrap();
        let parts: Vec<Range<usize>> =
            texts(&rows, PostBody::Lines, 100).into_iter().map(|(_, rows)| rows).collect();
        assert_eq!(parts, [0..1, 1..2, 2..3, 3..4, 4..5]);
    }
}
