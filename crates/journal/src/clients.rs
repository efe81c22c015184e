//! The last request number of each client.

use std::collections::{BTreeMap, HashMap};

use tidemill_core::fields::{Fields, Malformed, PutFields, TakeFields};
use tidemill_core::source::Request;

/// The last request number of each client, for a bounded number of clients: the one heard from longest ago is
/// forgotten. Requests with keys, each of which is a client of its own, have the same bound for themselves: however many come, those
/// who number their requests stay known.
#[derive(Clone, Debug)]
pub(crate) struct Clients {
    clients_max: usize,
    heard: u64,
    /// Client -> when it was last heard from, and its number.
    last: HashMap<String, (u64, u64)>,
    /// When it was last heard from -> client: those that number their requests, and keys.
    orders: [BTreeMap<u64, String>; 2],
}

impl Clients {
    pub(crate) fn new(clients_max: usize) -> Clients {
        Clients {
            clients_max: clients_max.max(1),
            heard: 0,
            last: HashMap::new(),
            orders: Default::default(),
        }
    }

    /// The number of the last request of a client, if it is known.
    pub(crate) fn last_of(&self, client: &str) -> Option<u64> {
        self.last.get(client).map(|(_, sequence)| *sequence)
    }

    /// Records a request.
    pub(crate) fn note(&mut self, client: &str, sequence: u64) {
        self.heard += 1;
        let order = &mut self.orders[usize::from(Request::is_of_key(client))];
        match self.last.get_mut(client) {
            Some((heard, last)) => {
                let name = order.remove(heard).unwrap_or_else(|| client.to_owned());
                (*heard, *last) = (self.heard, sequence.max(*last));
                order.insert(self.heard, name);
            }
            None => {
                self.last.insert(client.to_owned(), (self.heard, sequence));
                order.insert(self.heard, client.to_owned());
            }
        }
        while order.len() > self.clients_max {
            let Some((_, oldest)) = order.pop_first() else { break };
            self.last.remove(&oldest);
        }
    }

    /// Writes the table, starting with the client heard from longest ago.
    pub(crate) fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.put_u64(self.last.len() as u64);
        for client in self.orders.iter().flat_map(BTreeMap::values) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_forgotten_for_keys_and_clients_for_clients() {
        let mut clients = Clients::new(3);
        clients.note("agent", 7);
        let key = |number: u64| Request::of_key(&format!("post-{number}"));
        let note = |clients: &mut Clients, request: Request| clients.note(&request.client, request.sequence);
        (0..5).for_each(|number| note(&mut clients, key(number)));
        // It comes again, and is the last that was heard of.
        note(&mut clients, key(2));
        note(&mut clients, key(5));
        let mut bytes = Vec::new();
        clients.encode(&mut bytes);
        let read = Clients::decode(&mut Fields(&bytes), 3).unwrap();
        for known in [&clients, &read] {
            assert_eq!(known.last_of("agent"), Some(7));
            let keys: Vec<u64> =
                (0..6).filter(|number| known.last_of(&key(*number).client).is_some()).collect();
            assert_eq!(keys, [2, 4, 5]);
        }
        ["a", "b", "c"].iter().for_each(|name| clients.note(name, 1));
        assert_eq!(clients.last_of("agent"), None);
        assert_eq!(clients.last_of(&key(4).client), Some(1));
    }
}
