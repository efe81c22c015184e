//! JSON that is not written line by line: an array, or objects over several lines.

/// Why a body cannot be divided into lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NotJson(pub &'static str);

/// Brings each object onto a line of its own, in place: an array loses its brackets and commas, an object its line breaks.
/// Returns whether anything had to be done. Whether each line is an object, the decoder finds out.
pub(super) fn make_lines(body: &mut [u8]) -> Result<bool, NotJson> {
    match body.iter().position(|byte| !byte.is_ascii_whitespace()) {
        Some(first) if body[first] == b'[' => {
            body[first] = b' ';
            divide(&mut body[first + 1..], true).map(|()| true)
        }
        Some(first) if is_spread(&body[first..]) => divide(body, false).map(|()| true),
        _ => Ok(false),
    }
}

/// Whether an object does not end on its first line. A line that was cut off is followed by another object, which is
/// none of these.
fn is_spread(body: &[u8]) -> bool {
    let Some(end) = body.iter().position(|byte| *byte == b'\n') else { return false };
    let next = body[end..].iter().find(|byte| !byte.is_ascii_whitespace());
    body.starts_with(b"{")
        && !body[..end].trim_ascii_end().ends_with(b"}")
        && next.is_some_and(|next| *next != b'{')
}

/// Divides elements by line breaks, which stand nowhere else afterwards.
fn divide(body: &mut [u8], is_array: bool) -> Result<(), NotJson> {
    let (mut depth, mut in_string, mut is_escaped, mut has_ended) = (0_usize, false, false, false);
    for byte in body {
        if in_string {
            match byte {
                b'\n' => return Err(NotJson("a line break within a text")),
                _ if is_escaped => is_escaped = false,
                b'\\' => is_escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        if has_ended && !byte.is_ascii_whitespace() {
            return Err(NotJson("something follows the end of the array"));
        }
        match byte {
            b'"' => in_string = true,
            b'{' | b'[' => depth += 1,
            b']' if depth == 0 && is_array => (*byte, has_ended) = (b' ', true),
            b'}' | b']' => depth = depth.checked_sub(1).ok_or(NotJson("a bracket that was not opened"))?,
            b',' if depth == 0 && is_array => *byte = b'\n',
            b'\n' | b'\r' if depth > 0 || is_array => *byte = b' ',
            _ => {}
        }
    }
    match (in_string || depth > 0, is_array && !has_ended) {
        (true, _) => Err(NotJson("it ends within an object")),
        (false, true) => Err(NotJson("the array has no end")),
        (false, false) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The objects after division, read by a parser that shares nothing with it.
    fn objects(text: &str) -> Result<Vec<serde_json::Value>, &'static str> {
        let mut body = text.as_bytes().to_vec();
        let is_made = make_lines(&mut body).map_err(|NotJson(why)| why)?;
        assert!(is_made, "{text}");
        let lines = body.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty());
        Ok(lines.map(|line| serde_json::from_slice(line).unwrap()).collect())
    }

    #[test]
    fn arrays_and_objects_over_several_lines_become_lines() {
        let values = serde_json::json!([{"a": "x,y]}\"\\", "b": [1, {"c": [2]}]}, {"a": "[{", "b": null}]);
        let array = values.as_array().unwrap();
        for text in [values.to_string(), serde_json::to_string_pretty(&values).unwrap()] {
            assert_eq!(objects(&text).unwrap(), *array, "{text}");
            assert_eq!(objects(&format!("\r\n {text} \n")).unwrap(), *array, "{text}");
        }
        let spread: Vec<String> =
            array.iter().map(|value| serde_json::to_string_pretty(value).unwrap()).collect();
        assert_eq!(objects(&spread.join("\n")).unwrap(), *array);
        assert_eq!(objects(&spread[0].replace('\n', "\r\n")).unwrap(), array[..1]);
        assert_eq!(objects("[]").unwrap(), Vec::<serde_json::Value>::new());
    }

    #[test]
    fn lines_stay_as_they_are() {
        for text in
            ["{\"a\":1}\n{\"a\":2}\n", "{\"a\":1", "{\"a\":\n{\"a\":2}\n", "", " \n", "broken\n{\"a\":2}"]
        {
            let mut body = text.as_bytes().to_vec();
            assert_eq!(make_lines(&mut body), Ok(false), "{text}");
            assert_eq!(body, text.as_bytes());
        }
    }

    #[test]
    fn what_is_cut_off_is_refused() {
        assert_eq!(objects("[{\"a\":1}, {\"a\":"), Err("it ends within an object"));
        assert_eq!(objects("[{\"a\":1}"), Err("the array has no end"));
        assert_eq!(objects("[{\"a\":1}] {"), Err("something follows the end of the array"));
        assert_eq!(objects("[{\"a\":1}}]"), Err("a bracket that was not opened"));
        assert_eq!(objects("{\n\"a\": \"x\ny\"}"), Err("a line break within a text"));
        assert_eq!(objects("{\n\"a\": 1\n"), Err("it ends within an object"));
    }
}
