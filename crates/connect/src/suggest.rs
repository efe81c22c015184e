//! Suggests the name that was probably meant.

use strsim::osa_distance;

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
    let (wanted, length) = lower(name)?;
    let allowed = if length <= 4 { 1 } else { length / 3 };
    let mut best: Option<(usize, &str)> = None;
    for candidate in candidates {
        let Some((other, other_length)) = lower(candidate) else { continue };
        let mut far = osa_distance(&wanted, &other);
        if far > allowed && contains(&wanted, &other) {
            far = allowed + 1;
        } else if far > allowed {
            continue;
        }
        // One letter for another is not a misspelling but another name.
        if length.max(other_length) <= far {
            continue;
        }
        if best.is_none_or(|(nearest, _)| far < nearest) {
            best = Some((far, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// Returns the name in lower case, and its length in characters; `None` if it is empty or too long.
fn lower(name: &str) -> Option<(String, usize)> {
    let lower: String = name.chars().flat_map(char::to_lowercase).take(MAX_CHARS + 1).collect();
    let length = lower.chars().count();
    (1..=MAX_CHARS).contains(&length).then_some((lower, length))
}

fn contains(name: &str, candidate: &str) -> bool {
    let (short, long) = if name.len() < candidate.len() { (name, candidate) } else { (candidate, name) };
    short.chars().count() >= 4 && (long.starts_with(short) || long.ends_with(short))
}

#[cfg(test)]
mod tests {
    use super::closest;

    #[test]
    fn nearest() {
        let names = ["event_time", "user_id", "ts", "campaign_id"];
        assert_eq!(closest("evnt_time", names), Some("event_time"));
        assert_eq!(closest("campaign", names), Some("campaign_id"));
        assert_eq!(closest("EVENT_TIME", names), Some("event_time"));
        assert_eq!(closest("st", names), Some("ts"), "a swap is one edit");
        assert_eq!(closest("a", ["b"]), None);
        assert_eq!(closest("", names), None);
        assert_eq!(closest(&"x".repeat(100_000), names), None);
    }
}
