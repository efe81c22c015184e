//! The origin of a log's rows up to its end: the last request number of each client, and the offset of each part of the
//! source. The head of each segment has both, so the newest segment is enough to know them.

use tidemill_core::error::Cause;
use tidemill_core::fields::{Fields, Malformed, PutFields, TakeFields};
use tidemill_core::source::{Request, SourceOffset, SourceOffsets, note_offsets};

use crate::clients::Clients;

/// The most bytes of all offsets together. They are stored in the head of each segment, so they must stay far smaller
/// than a segment.
const OFFSETS_BYTES_MAX: u64 = 16 << 20;
/// The bytes of an offset besides its own bytes: the number of the part, and a length.
const OFFSET_BYTES: u64 = 16;

/// What is known at the end of a log about who sent its rows.
#[derive(Clone, Debug)]
pub(crate) struct Origins {
    pub clients: Clients,
    offsets: SourceOffsets,
    /// The size of the offsets as written.
    offsets_bytes: u64,
}

impl Origins {
    pub(crate) fn new(clients_max: usize) -> Origins {
        Origins { clients: Clients::new(clients_max), offsets: SourceOffsets::new(), offsets_bytes: 0 }
    }

    pub(crate) fn offsets(&self) -> &SourceOffsets {
        &self.offsets
    }

    /// Records where the rows of a record came from.
    pub(crate) fn note(
        &mut self,
        request: Option<&Request>,
        offsets: impl IntoIterator<Item = SourceOffset>,
    ) {
        if let Some(request) = request {
            self.clients.note(&request.client, request.sequence);
        }
        for offset in offsets {
            let bytes = |at: Option<&Vec<u8>>| at.map_or(0, |at| OFFSET_BYTES + at.len() as u64);
            self.offsets_bytes -= bytes(self.offsets.get(&offset.part));
            self.offsets_bytes += bytes(offset.at.as_ref());
            note_offsets(&mut self.offsets, [offset]);
        }
    }

    /// Refuses offsets that would make the table too large.
    pub(crate) fn check(&self, offsets: &[SourceOffset]) -> Result<(), Cause> {
        let added = |offset: &SourceOffset| offset.at.as_ref().map_or(0, |at| OFFSET_BYTES + at.len() as u64);
        let bytes = self.offsets_bytes + offsets.iter().map(added).sum::<u64>();
        if bytes <= OFFSETS_BYTES_MAX {
            return Ok(());
        }
        let parts = self.offsets.len();
        Err(Cause::user(format!(
            "the journal records how far each of {parts} files was read, which takes more than {} MiB; follow \
             fewer files, or move away those that no longer grow",
            OFFSETS_BYTES_MAX >> 20
        )))
    }

    pub(crate) fn encode(&self, bytes: &mut Vec<u8>) {
        self.clients.encode(bytes);
        bytes.put_u64(self.offsets.len() as u64);
        for (part, at) in &self.offsets {
            bytes.put_u64(*part);
            bytes.put_bytes(at);
        }
    }

    /// Reads what [`Origins::encode`] wrote; before version 2 there were no offsets.
    pub(crate) fn decode(
        fields: &mut Fields,
        clients_max: usize,
        has_offsets: bool,
    ) -> Result<Origins, Malformed> {
        let mut origins = Origins { clients: Clients::decode(fields, clients_max)?, ..Origins::new(1) };
        let count = if has_offsets { fields.u64()? } else { 0 };
        for _ in 0..count {
            let part = fields.u64()?;
            origins.note(None, [SourceOffset { part, at: Some(fields.bytes()?.to_vec()) }]);
        }
        Ok(origins)
    }
}

/// The offsets that a record changes, as its bytes.
pub(crate) fn encode_offsets(offsets: &[SourceOffset]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for SourceOffset { part, at } in offsets {
        bytes.put_u64(*part);
        bytes.put_u8(u8::from(at.is_some()));
        if let Some(at) = at {
            bytes.put_bytes(at);
        }
    }
    bytes
}

/// Reads what [`encode_offsets`] wrote.
pub(crate) fn decode_offsets(bytes: &[u8]) -> Result<Vec<SourceOffset>, Malformed> {
    let (mut fields, mut offsets) = (Fields(bytes), Vec::new());
    while !fields.0.is_empty() {
        let part = fields.u64()?;
        let at = match fields.u8()? {
            0 => None,
            1 => Some(fields.bytes()?.to_vec()),
            _ => return Err(Malformed),
        };
        offsets.push(SourceOffset { part, at });
    }
    Ok(offsets)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offset(part: u64, at: Option<&str>) -> SourceOffset {
        SourceOffset { part, at: at.map(|at| at.as_bytes().to_vec()) }
    }

    #[test]
    fn offsets_come_back_and_damaged_ones_do_not() {
        let offsets = [offset(1, Some("byte 7")), offset(u64::MAX, None), offset(3, Some(""))];
        let bytes = encode_offsets(&offsets);
        assert_eq!(decode_offsets(&bytes), Ok(offsets.to_vec()));
        // Where an offset ends, the list may end; anywhere else it is cut off.
        for length in (1..bytes.len()).filter(|length| ![23, 32].contains(length)) {
            assert_eq!(decode_offsets(&bytes[..length]), Err(Malformed), "{length}");
        }
    }

    #[test]
    fn a_table_comes_back_and_may_not_become_too_large() {
        let mut origins = Origins::new(9);
        let request = Request { client: "agent".into(), sequence: 4 };
        origins.note(Some(&request), [offset(1, Some("a")), offset(2, Some("b")), offset(1, None)]);
        let mut bytes = Vec::new();
        origins.encode(&mut bytes);
        let read = Origins::decode(&mut Fields(&bytes), 9, true).unwrap();
        assert_eq!(read.offsets(), &SourceOffsets::from([(2, b"b".to_vec())]));
        assert_eq!(read.clients.last_of("agent"), Some(4));
        assert_eq!(read.offsets_bytes, origins.offsets_bytes);
        let large = SourceOffset { part: 3, at: Some(vec![0; OFFSETS_BYTES_MAX as usize - 40]) };
        origins.check(std::slice::from_ref(&large)).unwrap();
        origins.note(None, [large]);
        assert!(origins.check(&[offset(4, Some("0123456789"))]).is_err());
    }
}
