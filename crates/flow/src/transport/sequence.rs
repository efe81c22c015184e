//! The position of a connection in Timely's own sequence of headers and messages, so that a broken connection can be
//! ended normally.

const HEADER_BYTES: usize = 48;

/// Counts Timely's bytes. A message of length zero is the end.
#[derive(Default)]
pub(super) struct Sequence {
    header: Vec<u8>,
    /// The rest of the current message.
    missing: usize,
    pub ended: bool,
}

impl Sequence {
    /// The number of bytes to the next boundary; at a boundary, the length of a header. 0 after the end.
    pub fn missing(&self) -> usize {
        match (self.ended, self.missing) {
            (true, _) => 0,
            (false, 0) => HEADER_BYTES - self.header.len(),
            (false, missing) => missing,
        }
    }

    pub fn pass(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && !self.ended {
            let (now, later) = bytes.split_at(self.missing().min(bytes.len()));
            bytes = later;
            if self.missing > 0 {
                self.missing -= now.len();
                continue;
            }
            self.header.extend_from_slice(now);
            if self.header.len() == HEADER_BYTES {
                self.missing = length_in(&self.header);
                self.ended = self.missing == 0;
                self.header.clear();
            }
        }
    }
}

/// The length of the message behind a header, which Timely writes.
fn length_in(header: &[u8]) -> usize {
    let length: [u8; 8] = header[32..40].try_into().expect("a header has 48 bytes");
    usize::try_from(u64::from_be_bytes(length)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use timely::communication::networking::MessageHeader;

    use super::*;

    fn frame(length: usize) -> Vec<u8> {
        let header =
            MessageHeader { channel: 1, source: 2, target_lower: 3, target_upper: 4, length, seqno: 300 };
        let mut bytes = Vec::new();
        header.write_to(&mut bytes).unwrap();
        bytes.resize(header.required_bytes(), 7);
        bytes
    }

    /// The lengths of the messages as Timely would read them.
    fn read_all(mut bytes: &[u8]) -> Vec<usize> {
        let mut lengths = Vec::new();
        while let Some(header) = MessageHeader::try_read(bytes) {
            lengths.push(header.length);
            bytes = &bytes[header.required_bytes()..];
        }
        assert!(bytes.is_empty(), "nothing is left of a message");
        lengths
    }

    #[test]
    fn wherever_a_connection_breaks_it_ends_in_order() {
        let whole: Vec<u8> = [frame(8), frame(400), frame(1)].concat();
        for cut in 0..=whole.len() {
            for step in [1, 5, 1000] {
                let mut sequence = Sequence::default();
                whole[..cut].chunks(step).for_each(|part| sequence.pass(part));
                let mut bytes = whole[..cut].to_vec();
                while sequence.missing() > 0 {
                    let padding = vec![0; sequence.missing().min(step)];
                    sequence.pass(&padding);
                    bytes.extend(padding);
                }
                let lengths = read_all(&bytes);
                let (last, before) = lengths.split_last().unwrap();
                assert!(*last == 0 && !before.contains(&0), "cut at {cut}: {lengths:?}");
            }
        }
    }

    #[test]
    fn an_end_in_order_is_seen() {
        let mut sequence = Sequence::default();
        sequence.pass(&[frame(8), frame(0)].concat());
        assert!(sequence.ended && sequence.missing() == 0);
    }
}
