//! The origin of a log's rows up to its end: the last request number of each client, and the place of each part of the
//! source. The head of each segment has both, so the newest segment is enough to know them.

use tidemill_core::error::Cause;
use tidemill_core::fields::{Fields, Malformed, PutFields, TakeFields};
use tidemill_core::source::{Place, Places, Request, note_places};

use crate::clients::Clients;

/// The most bytes of all places together. They are stored in the head of each segment, so they must stay far smaller
/// than a segment.
const PLACES_BYTES_MAX: u64 = 16 << 20;
/// The bytes of a place besides its own bytes: the number of the part, and a length.
const PLACE_BYTES: u64 = 16;

/// What is known at the end of a log about who sent its rows.
#[derive(Clone, Debug)]
pub(crate) struct Origins {
    pub clients: Clients,
    places: Places,
    /// The size of the places as written.
    places_bytes: u64,
}

impl Origins {
    pub(crate) fn new(clients_max: usize) -> Origins {
        Origins { clients: Clients::new(clients_max), places: Places::new(), places_bytes: 0 }
    }

    pub(crate) fn places(&self) -> &Places {
        &self.places
    }

    /// Records where the rows of a record came from.
    pub(crate) fn note(&mut self, request: Option<&Request>, places: impl IntoIterator<Item = Place>) {
        if let Some(request) = request {
            self.clients.note(&request.client, request.sequence);
        }
        for place in places {
            let bytes = |at: Option<&Vec<u8>>| at.map_or(0, |at| PLACE_BYTES + at.len() as u64);
            self.places_bytes -= bytes(self.places.get(&place.part));
            self.places_bytes += bytes(place.at.as_ref());
            note_places(&mut self.places, [place]);
        }
    }

    /// Refuses places that would make the table too large.
    pub(crate) fn check(&self, places: &[Place]) -> Result<(), Cause> {
        let added = |place: &Place| place.at.as_ref().map_or(0, |at| PLACE_BYTES + at.len() as u64);
        let bytes = self.places_bytes + places.iter().map(added).sum::<u64>();
        if bytes <= PLACES_BYTES_MAX {
            return Ok(());
        }
        let parts = self.places.len();
        Err(Cause::user(format!(
            "the journal keeps how far each of {parts} files was read, which takes more than {} MiB; follow fewer \
             files, or move away those that have ended",
            PLACES_BYTES_MAX >> 20
        )))
    }

    pub(crate) fn encode(&self, bytes: &mut Vec<u8>) {
        self.clients.encode(bytes);
        bytes.put_u64(self.places.len() as u64);
        for (part, at) in &self.places {
            bytes.put_u64(*part);
            bytes.put_bytes(at);
        }
    }

    /// Reads what [`Origins::encode`] wrote; before version 2 there were no places.
    pub(crate) fn decode(
        fields: &mut Fields,
        clients_max: usize,
        has_places: bool,
    ) -> Result<Origins, Malformed> {
        let mut origins = Origins { clients: Clients::decode(fields, clients_max)?, ..Origins::new(1) };
        let count = if has_places { fields.u64()? } else { 0 };
        for _ in 0..count {
            let part = fields.u64()?;
            origins.note(None, [Place { part, at: Some(fields.bytes()?.to_vec()) }]);
        }
        Ok(origins)
    }
}

/// The places that a record changes, as its bytes.
pub(crate) fn encode_places(places: &[Place]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for Place { part, at } in places {
        bytes.put_u64(*part);
        bytes.put_u8(u8::from(at.is_some()));
        if let Some(at) = at {
            bytes.put_bytes(at);
        }
    }
    bytes
}

/// Reads what [`encode_places`] wrote.
pub(crate) fn decode_places(bytes: &[u8]) -> Result<Vec<Place>, Malformed> {
    let (mut fields, mut places) = (Fields(bytes), Vec::new());
    while !fields.0.is_empty() {
        let part = fields.u64()?;
        let at = match fields.u8()? {
            0 => None,
            1 => Some(fields.bytes()?.to_vec()),
            _ => return Err(Malformed),
        };
        places.push(Place { part, at });
    }
    Ok(places)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(part: u64, at: Option<&str>) -> Place {
        Place { part, at: at.map(|at| at.as_bytes().to_vec()) }
    }

    #[test]
    fn places_come_back_and_damaged_ones_do_not() {
        let places = [place(1, Some("byte 7")), place(u64::MAX, None), place(3, Some(""))];
        let bytes = encode_places(&places);
        assert_eq!(decode_places(&bytes), Ok(places.to_vec()));
        // Where a place ends, the list may end; anywhere else it is cut off.
        for length in (1..bytes.len()).filter(|length| ![23, 32].contains(length)) {
            assert_eq!(decode_places(&bytes[..length]), Err(Malformed), "{length}");
        }
    }

    #[test]
    fn a_table_comes_back_and_may_not_become_too_large() {
        let mut origins = Origins::new(9);
        let request = Request { client: "agent".into(), sequence: 4 };
        origins.note(Some(&request), [place(1, Some("a")), place(2, Some("b")), place(1, None)]);
        let mut bytes = Vec::new();
        origins.encode(&mut bytes);
        let read = Origins::decode(&mut Fields(&bytes), 9, true).unwrap();
        assert_eq!(read.places(), &Places::from([(2, b"b".to_vec())]));
        assert_eq!(read.clients.last_of("agent"), Some(4));
        assert_eq!(read.places_bytes, origins.places_bytes);
        let large = Place { part: 3, at: Some(vec![0; PLACES_BYTES_MAX as usize - 40]) };
        origins.check(std::slice::from_ref(&large)).unwrap();
        origins.note(None, [large]);
        assert!(origins.check(&[place(4, Some("0123456789"))]).is_err());
    }
}
