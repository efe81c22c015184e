//! Suggests the name that was probably meant.

/// Longer names, in characters, are not compared, because the time grows with the square of the length.
const MAX_CHARS: usize = 64;

/// The candidate that `name` most likely misspells; `None` if none is close. Case is ignored. Among equally close
/// candidates the first one is taken.
///
/// Close means at most one edit (a letter inserted, deleted, replaced, or swapped with its neighbour) in names of up to
/// 4 characters, and at most a third of the length in longer ones. A candidate of at least 4 characters is also close
/// if it begins or ends with the name, or if the name begins or ends with it.
///
/// ```
/// use tidemill_connect::closest;
/// assert_eq!(closest("evnt_tiem", ["event_time", "user"]), Some("event_time"));
/// assert_eq!(closest("campaign", ["event_time", "user"]), None);
/// ```
pub fn closest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = lower(name)?;
    let allowed = if wanted.len() <= 4 { 1 } else { wanted.len() / 3 };
    let mut best: Option<(usize, &str)> = None;
    for candidate in candidates {
        let Some(other) = lower(candidate) else { continue };
        let mut far = distance(&wanted, &other);
        if far > allowed && contains(&wanted, &other) {
            far = allowed + 1;
        } else if far > allowed {
            continue;
        }
        // One letter for another is not a misspelling but another name.
        if wanted.len().max(other.len()) <= far {
            continue;
        }
        if best.is_none_or(|(nearest, _)| far < nearest) {
            best = Some((far, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

fn lower(name: &str) -> Option<Vec<char>> {
    let chars: Vec<char> = name.chars().flat_map(char::to_lowercase).take(MAX_CHARS + 1).collect();
    (!chars.is_empty() && chars.len() <= MAX_CHARS).then_some(chars)
}

fn contains(name: &[char], candidate: &[char]) -> bool {
    let (short, long) = if name.len() < candidate.len() { (name, candidate) } else { (candidate, name) };
    short.len() >= 4 && (long.starts_with(short) || long.ends_with(short))
}

/// The number of edits between two names, where a swap of neighbours counts as one (optimal string alignment).
fn distance(left: &[char], right: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=right.len()).collect();
    for (row, &a) in left.iter().enumerate() {
        let mut line = Vec::with_capacity(right.len() + 1);
        line.push(row + 1);
        for (column, &b) in right.iter().enumerate() {
            let replaced = above[column] + usize::from(a != b);
            let mut least = replaced.min(above[column + 1] + 1).min(line[column] + 1);
            if row > 0 && column > 0 && a == right[column - 1] && left[row - 1] == b {
                least = least.min(before[column - 1] + 1);
            }
            line.push(least);
        }
        before = std::mem::replace(&mut above, line);
    }
    above[right.len()]
}

#[cfg(test)]
mod tests {
    use super::{closest, distance};

    fn edits(left: &str, right: &str) -> usize {
        distance(&left.chars().collect::<Vec<_>>(), &right.chars().collect::<Vec<_>>())
    }

    #[test]
    fn distances() {
        for (left, right, far) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("abc", "abc", 0),
            ("abc", "acb", 1),
            ("FORM", "FROM", 1),
        ] {
            assert_eq!(edits(left, right), far, "{left} {right}");
        }
        assert_eq!(edits("kitten", "sitting"), 3);
        assert_eq!(edits("ca", "abc"), 3);
    }

    #[test]
    fn nearest() {
        let names = ["event_time", "user_id", "ts", "campaign_id"];
        assert_eq!(closest("evnt_time", names), Some("event_time"));
        assert_eq!(closest("campaign", names), Some("campaign_id"));
        assert_eq!(closest("EVENT_TIME", names), Some("event_time"));
        assert_eq!(closest("st", names), Some("ts"));
        assert_eq!(closest("a", ["b"]), None);
        assert_eq!(closest("", names), None);
        assert_eq!(closest(&"x".repeat(100_000), names), None);
    }
}
