//! The last request number of each client.

use std::collections::{BTreeMap, HashMap};

use tidemill_core::fields::{Fields, Malformed, PutFields, TakeFields};

/// The last request number of each client, for a bounded number of clients: the one heard from longest ago is
/// forgotten.
#[derive(Clone, Debug)]
pub(crate) struct Clients {
    clients_max: usize,
    heard: u64,
    /// Client -> when it was last heard from, and its number.
    last: HashMap<String, (u64, u64)>,
    /// When it was last heard from -> client.
    order: BTreeMap<u64, String>,
}

impl Clients {
    pub(crate) fn new(clients_max: usize) -> Clients {
        Clients { clients_max: clients_max.max(1), heard: 0, last: HashMap::new(), order: BTreeMap::new() }
    }

    /// The number of the last request of a client, if it is known.
    pub(crate) fn last_of(&self, client: &str) -> Option<u64> {
        self.last.get(client).map(|(_, sequence)| *sequence)
    }

    /// Records a request.
    pub(crate) fn note(&mut self, client: &str, sequence: u64) {
        self.heard += 1;
        match self.last.get_mut(client) {
            Some((heard, last)) => {
                let name = self.order.remove(heard).unwrap_or_else(|| client.to_owned());
                (*heard, *last) = (self.heard, sequence.max(*last));
                self.order.insert(self.heard, name);
            }
            None => {
                self.last.insert(client.to_owned(), (self.heard, sequence));
                self.order.insert(self.heard, client.to_owned());
            }
        }
        while self.last.len() > self.clients_max {
            let Some((_, oldest)) = self.order.pop_first() else { break };
            self.last.remove(&oldest);
        }
    }

    /// Writes the table, starting with the client heard from longest ago.
    pub(crate) fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.put_u64(self.order.len() as u64);
        for client in self.order.values() {
            bytes.put_bytes(client.as_bytes());
            bytes.put_u64(self.last[client].1);
        }
    }

    /// Reads what [`Clients::encode`] wrote.
    pub(crate) fn decode(fields: &mut Fields, clients_max: usize) -> Result<Clients, Malformed> {
        let mut clients = Clients::new(clients_max);
        for _ in 0..fields.u64()? {
            let client = fields.text()?;
            clients.note(&client, fields.u64()?);
        }
        Ok(clients)
    }
}
