//! Keys by which a receiver recognises what it was sent before.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

/// Makes the keys of a sink's requests.
pub(crate) struct RequestKeys {
    prefix: String,
}

impl RequestKeys {
    /// With the identity of a durable query, a cycle that comes again has the same keys again, and the same cycle of another
    /// query has others. Without one, each run has its own keys, because its cycles begin at the same number.
    pub fn new(sink: &str, identity: Option<u64>) -> RequestKeys {
        let name: String =
            sink.chars().map(|part| if part.is_ascii_graphic() { part } else { '_' }).collect();
        RequestKeys { prefix: format!("{name}-{:016x}", identity_of_run(identity)) }
    }

    /// The key of a part of a cycle. Its content counts too: after a journal was removed, the same number may stand for
    /// other rows.
    pub fn key(&self, cycle: u64, part: usize, content: &[u8]) -> String {
        format!("{}-{cycle}-{part}-{:08x}", self.prefix, crc32fast::hash(content))
    }
}

/// The identity of a durable query, or a number that no other run has.
pub(crate) fn identity_of_run(identity: Option<u64>) -> u64 {
    identity.unwrap_or_else(|| RandomState::new().build_hasher().finish())
}

#[cfg(test)]
mod tests {
    use super::RequestKeys;

    #[test]
    fn keys_come_again_only_where_rows_do() {
        let durable = |identity| RequestKeys::new("my sink", Some(identity)).key(7, 1, b"rows");
        assert_eq!(durable(255), durable(255));
        assert!(durable(255).starts_with("my_sink-00000000000000ff-7-1-"));
        assert_ne!(durable(255), durable(256));
        let keys = RequestKeys::new("s", Some(1));
        assert_ne!(keys.key(7, 1, b"rows"), keys.key(7, 1, b"others"));
        assert_ne!(
            RequestKeys::new("s", None).key(7, 1, b"rows"),
            RequestKeys::new("s", None).key(7, 1, b"rows")
        );
    }
}
