//! The requests that wait, sorted by one coordinate.

use std::cmp::Ordering;

use crate::request::Request;

/// Waiting requests in the order of their origins from west to east. Requests are taken out one by one, and removed all
/// together at the end of a cycle.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    requests: Vec<Request>,
    is_taken: Vec<bool>,
}

impl Queue {
    /// The requests that wait; between cycles, nobody else.
    pub fn requests(&self) -> &[Request] {
        &self.requests
    }

    /// The bytes of memory that it has.
    pub fn bytes(&self) -> usize {
        self.requests.capacity() * size_of::<Request>() + self.is_taken.capacity()
    }

    /// How many there are, taken ones included until [`compact`](Self::compact).
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    /// Adds requests.
    pub fn extend(&mut self, requests: impl Iterator<Item = Request>) {
        self.requests.extend(requests);
        // Two runs are sorted already or nearly so; a merge sort uses that.
        self.requests.sort_by(from_west_to_east);
        self.is_taken.resize(self.requests.len(), false);
    }

    /// The indices of the requests that expire before `end`, in the order of arrival.
    pub fn expiring(&self, end: i64) -> Vec<usize> {
        let mut expiring: Vec<usize> =
            (0..self.requests.len()).filter(|index| self.requests[*index].expires < end).collect();
        expiring.sort_unstable_by(|a, b| self.requests[*a].by_arrival(&self.requests[*b]));
        expiring
    }

    /// The index of a request that is there.
    pub fn index_of(&self, request: &Request) -> Option<usize> {
        self.requests.binary_search_by(|other| from_west_to_east(other, request)).ok()
    }

    /// Whether a request is part of a share already.
    pub fn is_taken(&self, index: usize) -> bool {
        self.is_taken[index]
    }

    /// Makes a request part of a share.
    pub fn take(&mut self, index: usize) -> Request {
        self.is_taken[index] = true;
        self.requests[index]
    }

    /// Removes the requests that are part of shares.
    pub fn compact(&mut self) {
        let mut taken = self.is_taken.iter();
        self.requests.retain(|_| !taken.next().copied().unwrap_or(false));
        self.is_taken.clear();
        self.is_taken.resize(self.requests.len(), false);
    }
}

fn from_west_to_east(a: &Request, b: &Request) -> Ordering {
    a.origin.x_m.total_cmp(&b.origin.x_m).then_with(|| a.by_arrival(b))
}
