//! How deep the values of a JSON text are nested. What reads or shows a value may recurse once for each level, so a
//! text that is nested too deep is refused before anything looks into it.

/// The most levels of objects and lists.
pub(in crate::formats) const DEPTH_MAX: usize = 100;

/// Returns whether a text has more than [`DEPTH_MAX`] levels. Brackets within strings do not count.
pub(in crate::formats) fn is_too_deep(text: &[u8]) -> bool {
    // Few texts have that many brackets at all, and to find that out is fast.
    if memchr::memchr2_iter(b'{', b'[', text).nth(DEPTH_MAX).is_none() {
        return false;
    }
    let (mut depth, mut in_string, mut is_escaped) = (0_usize, false, false);
    for byte in text {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_string => is_escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > DEPTH_MAX {
            return true;
        }
    }
    false
}

/// Says what is wrong with such a text.
pub(in crate::formats) fn too_deep() -> String {
    format!("objects and lists are nested more than {DEPTH_MAX} levels deep")
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::Arc;

    use arrow_schema::{DataType, Field, Fields, Schema};

    use super::*;
    use crate::formats::ndjson::NdjsonDecoder;
    use crate::formats::{DecoderSettings, RecordDecoder};

    /// The stack of a thread that reads a source: what a thread gets that asks for nothing else.
    const SMALLEST_STACK_BYTES: usize = 2 << 20;

    fn on_smallest_stack(body: impl FnOnce() + Send + 'static) {
        let thread = std::thread::Builder::new().stack_size(SMALLEST_STACK_BYTES);
        thread.spawn(body).unwrap().join().unwrap();
    }

    /// A line whose key `a` is nested as deep as that, the object itself included.
    fn nested(levels: usize, open: &str, close: &str) -> String {
        format!("{{\"a\": {}1{}}}\n", open.repeat(levels - 1), close.repeat(levels - 1))
    }

    #[test]
    fn lines_nested_too_deep_are_faults_and_the_others_are_read() {
        let item = Arc::new(Field::new("item", DataType::Int64, true));
        let fields = Fields::from(vec![Field::new("a", DataType::Int64, true)]);
        let types = [DataType::Int64, DataType::Utf8, DataType::List(item), DataType::Struct(fields)];
        on_smallest_stack(move || {
            for (data_type, name) in types.iter().flat_map(|found| [(found, "a"), (found, "other")]) {
                let schema = Arc::new(Schema::new(vec![Field::new(name, data_type.clone(), true)]));
                let settings = DecoderSettings { schema, csv: Default::default(), batch_rows: 8 };
                let mut decoder = NdjsonDecoder::new(settings).unwrap();
                let mut batches = VecDeque::new();
                decoder.begin("deep.json");
                for levels in [DEPTH_MAX + 1, 10 * DEPTH_MAX, 30_000] {
                    for (open, close) in
                        [("[", "]"), ("{\"a\":", "}"), ("[{\"b\": [", "]}]"), ("[", ""), ("{\"a\":", "")]
                    {
                        decoder.decode(nested(levels, open, close).as_bytes(), &mut batches).unwrap();
                    }
                }
                decoder.decode(b"{\"other_key\": 1}\n", &mut batches).unwrap();
                assert_eq!(decoder.faults().count, 15, "{name} {data_type}");
                assert_eq!(batches.iter().map(|batch| batch.num_rows()).sum::<usize>(), 1);
            }
        });
    }

    #[test]
    fn the_deepest_lines_are_read() {
        on_smallest_stack(|| {
            let schema = Arc::new(Schema::new(vec![Field::new("b", DataType::Int64, true)]));
            let settings = DecoderSettings { schema, csv: Default::default(), batch_rows: 8 };
            let mut decoder = NdjsonDecoder::new(settings).unwrap();
            let mut batches = VecDeque::new();
            for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
                decoder.decode(nested(DEPTH_MAX, open, close).as_bytes(), &mut batches).unwrap();
            }
            // Brackets in strings do not count.
            let text = format!("{{\"b\": 7, \"a\": \"\\\"{}\"}}\n", "[{".repeat(10 * DEPTH_MAX));
            decoder.decode(text.as_bytes(), &mut batches).unwrap();
            assert_eq!(decoder.faults().count, 0);
            assert_eq!(batches.iter().map(|batch| batch.num_rows()).sum::<usize>(), 3);
        });
    }
}
