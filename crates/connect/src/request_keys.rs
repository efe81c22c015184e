//! Keys by which a receiver recognises what it was sent before.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

/// Makes the keys of a sink's requests.
pub(crate) struct RequestKeys {
    prefix: String,
}

impl RequestKeys {
    /// With `resume`, a cycle that comes again has the same keys again. Otherwise each run has its own, because its cycles
    /// begin at the same number.
    pub fn new(sink: &str, resume: bool) -> RequestKeys {
        let name: String =
            sink.chars().map(|part| if part.is_ascii_graphic() { part } else { '_' }).collect();
        let prefix = match resume {
            true => name,
            false => format!("{name}-{:016x}", RandomState::new().build_hasher().finish()),
        };
        RequestKeys { prefix }
    }

    /// The key of a part of a cycle. Its content counts too: after a journal was removed, the same number may stand for
    /// other rows.
    pub fn key(&self, cycle: u64, part: usize, content: &[u8]) -> String {
        format!("{}-{cycle}-{part}-{:08x}", self.prefix, crc32fast::hash(content))
    }
}

#[cfg(test)]
mod tests {
    use super::RequestKeys;

    #[test]
    fn keys_come_again_only_where_rows_do() {
        let durable = || RequestKeys::new("my sink", true).key(7, 1, b"rows");
        assert_eq!(durable(), durable());
        assert!(durable().starts_with("my_sink-7-1-"));
        let keys = RequestKeys::new("s", true);
        assert_ne!(keys.key(7, 1, b"rows"), keys.key(7, 1, b"others"));
        assert_ne!(
            RequestKeys::new("s", false).key(7, 1, b"rows"),
            RequestKeys::new("s", false).key(7, 1, b"rows")
        );
    }
}
