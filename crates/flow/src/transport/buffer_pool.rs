//! Memory for arriving messages. It is reused when no one holds a row of it any more, so that it is neither zeroed nor
//! allocated by the system each time.

use std::sync::{Arc, Weak};

use arrow_buffer::{Buffer, MutableBuffer};
use parking_lot::Mutex;

/// Up to this size memory is allocated at once. Beyond it, memory grows with what has arrived, because the length is
/// only a claim of another process.
pub(super) const BYTES_AT_ONCE: usize = 16 << 20;
/// How much a connection keeps for reuse.
const SPARE_BYTES_MAX: usize = 32 << 20;

/// Memory that is currently unused, the most recently used last.
#[derive(Default)]
pub(super) struct BufferPool {
    spare: Mutex<Vec<MutableBuffer>>,
}

impl BufferPool {
    /// Memory for this many bytes, or for the first of them. It contains old bytes.
    pub fn take(&self, bytes: usize) -> MutableBuffer {
        let bytes = bytes.min(BYTES_AT_ONCE).next_power_of_two();
        let mut spare = self.spare.lock();
        let found = spare.iter().rposition(|memory| memory.len() == bytes);
        found.map_or_else(|| MutableBuffer::from_len_zeroed(bytes), |place| spare.remove(place))
    }

    /// The first bytes of memory, for readers; it returns when they have dropped it.
    pub fn share(self: &Arc<Self>, memory: MutableBuffer, length: usize) -> Buffer {
        let lent = PooledBuffer { memory, length, home: Arc::downgrade(self) };
        Buffer::from(bytes::Bytes::from_owner(lent))
    }

    fn give_back(&self, memory: MutableBuffer) {
        if memory.len() > BYTES_AT_ONCE {
            return;
        }
        let mut spare = self.spare.lock();
        spare.push(memory);
        while spare.iter().map(MutableBuffer::len).sum::<usize>() > SPARE_BYTES_MAX {
            spare.remove(0);
        }
    }
}

struct PooledBuffer {
    memory: MutableBuffer,
    length: usize,
    /// Dropped with the connection.
    home: Weak<BufferPool>,
}

impl AsRef<[u8]> for PooledBuffer {
    fn as_ref(&self) -> &[u8] {
        &self.memory[..self.length]
    }
}

impl Drop for PooledBuffer {
    fn drop(&mut self) {
        if let Some(home) = self.home.upgrade() {
            home.give_back(std::mem::take(&mut self.memory));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spare(pool: &BufferPool) -> usize {
        pool.spare.lock().iter().map(MutableBuffer::len).sum()
    }

    #[test]
    fn memory_is_used_again_when_all_its_readers_are_gone() {
        let memory = Arc::new(BufferPool::default());
        let mut bytes = memory.take(100_000);
        assert_eq!(bytes.len(), 1 << 17);
        bytes[..3].copy_from_slice(b"abc");
        let place = bytes.as_ptr();
        let first = memory.share(bytes, 3);
        assert_eq!((&first[..], first.as_ptr()), (&b"abc"[..], place));
        let second = first.slice(1);
        drop(first);
        assert_ne!(memory.take(100_000).as_ptr(), place, "it is still read");
        drop(second);
        assert_eq!(spare(&memory), 1 << 17);
        assert_eq!(memory.take(50_000).len(), 1 << 16, "a row keeps at most twice its message");
        assert_eq!(memory.take(70_000).as_ptr(), place);
        assert_eq!(spare(&memory), 0);
    }

    #[test]
    fn so_much_is_kept_and_not_more() {
        let memory = Arc::new(BufferPool::default());
        let lent: Vec<Buffer> = (0..40).map(|_| memory.share(memory.take(1 << 20), 9)).collect();
        let last = lent[39].as_ptr();
        drop(lent);
        assert_eq!(spare(&memory), SPARE_BYTES_MAX);
        assert_eq!(memory.take(1 << 20).as_ptr(), last, "what is still near the processor");
        assert_eq!(memory.take(usize::MAX).len(), BYTES_AT_ONCE);
        drop(memory.share(MutableBuffer::from_len_zeroed(2 * BYTES_AT_ONCE), 9));
        assert_eq!(spare(&memory), SPARE_BYTES_MAX - (1 << 20));
        let longest = memory.share(memory.take(1 << 20), 9);
        drop(memory);
        assert_eq!(longest.len(), 9);
    }
}
