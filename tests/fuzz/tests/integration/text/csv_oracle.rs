//! A slow reader of CSV: byte by byte, all columns texts.

/// The rows, `|` between their fields and `~` for NULL, and how many records are bad.
pub fn read(bytes: &[u8], fields: usize) -> (Vec<String>, u64) {
    let mut rest = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let ended = [rest, b"\n"].concat();
    if !rest.is_empty() && !rest.ends_with(b"\n") {
        rest = &ended;
    }
    let (mut rows, mut bad) = (Vec::new(), 0);
    while !rest.is_empty() {
        match record(rest) {
            Some((found, after)) if found.len() == fields => {
                match text(&rest[..rest.len() - after.len()], found) {
                    Some(row) => rows.push(row),
                    None => bad += 1,
                }
                rest = after;
            }
            Some((found, after)) if found.is_empty() => rest = after,
            _ => {
                bad += 1;
                let end = rest.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |end| end + 1);
                rest = &rest[end..];
            }
        }
    }
    (rows, bad)
}

fn text(record: &[u8], fields: Vec<Option<Vec<u8>>>) -> Option<String> {
    if record.contains(&0) || std::str::from_utf8(record).is_err() {
        return None;
    }
    let texts =
        fields.into_iter().map(|field| field.map_or("~".into(), |field| String::from_utf8(field).unwrap()));
    Some(texts.collect::<Vec<_>>().join("|"))
}

/// The fields of the first record and what follows it; no fields for an empty line; `None` if it is broken.
#[allow(clippy::type_complexity)]
fn record(mut rest: &[u8]) -> Option<(Vec<Option<Vec<u8>>>, &[u8])> {
    let mut fields = Vec::new();
    loop {
        let (field, after) = if rest.first() == Some(&b'"') { quoted(&rest[1..])? } else { unquoted(rest)? };
        let is_nothing = fields.is_empty() && field.is_none() && after.first() != Some(&b',');
        if !is_nothing {
            fields.push(field);
        }
        match after {
            [b',', after @ ..] => rest = after,
            [b'\n', after @ ..] | [b'\r', b'\n', after @ ..] => return Some((fields, after)),
            _ => return None,
        }
    }
}

fn quoted(bytes: &[u8]) -> Option<(Option<Vec<u8>>, &[u8])> {
    let (mut field, mut at) = (Vec::new(), 0);
    loop {
        match (bytes.get(at)?, bytes.get(at + 1)) {
            (b'"', Some(b'"')) => {
                field.push(b'"');
                at += 2;
            }
            (b'"', _) => return Some((Some(field), &bytes[at + 1..])),
            (byte, _) => {
                field.push(*byte);
                at += 1;
            }
        }
    }
}

fn unquoted(bytes: &[u8]) -> Option<(Option<Vec<u8>>, &[u8])> {
    let end = bytes.iter().position(|byte| matches!(byte, b',' | b'\n'))?;
    let has_return = bytes[end] == b'\n' && end > 0 && bytes[end - 1] == b'\r';
    let end = end - usize::from(has_return);
    Some(((end > 0).then(|| bytes[..end].to_vec()), &bytes[end..]))
}
