//! What shares save, by two definitions.

use crate::share::Share;

/// Sums over shares. The paper does not say what its savings are an average over, so there are two.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Savings {
    /// All requests, alone or not.
    pub requests: u64,
    /// Requests that go alone.
    pub alone: u64,
    /// Shares of two and more.
    pub shares: u64,
    /// The lengths of all trips, each alone.
    pub alone_m: f64,
    /// The lengths of all rides.
    pub shared_m: f64,
    /// The savings of each request, summed up.
    pub savings_sum: f64,
    /// The time that each request has waited, summed up.
    pub waited_sum: i64,
    /// The longest time that a request has waited.
    pub waited_max: i64,
}

impl Savings {
    /// Adds a share.
    pub fn add(&mut self, share: &Share) {
        let members = share.members.len() as u64;
        self.requests += members;
        match members {
            1 => self.alone += 1,
            _ => self.shares += 1,
        }
        for member in &share.members {
            let waited = share.grouped - member.request.requested;
            self.alone_m += member.request.length_m();
            self.waited_sum = self.waited_sum.saturating_add(waited);
            self.waited_max = self.waited_max.max(waited);
        }
        self.shared_m += share.length_m();
        self.savings_sum += members as f64 * share.savings();
    }

    /// Adds other sums.
    pub fn merge(&mut self, other: &Savings) {
        self.requests += other.requests;
        self.alone += other.alone;
        self.shares += other.shares;
        self.alone_m += other.alone_m;
        self.shared_m += other.shared_m;
        self.savings_sum += other.savings_sum;
        self.waited_sum = self.waited_sum.saturating_add(other.waited_sum);
        self.waited_max = self.waited_max.max(other.waited_max);
    }

    /// The part of all distance that is saved: `1 - (lengths of rides) / (lengths of trips)`. Long trips count more.
    pub fn of_distance(&self) -> f64 {
        if self.alone_m > 0.0 { 1.0 - self.shared_m / self.alone_m } else { 0.0 }
    }

    /// The mean of what each request saves; those that go alone save nothing.
    pub fn per_request(&self) -> f64 {
        if self.requests > 0 { self.savings_sum / self.requests as f64 } else { 0.0 }
    }

    /// The mean time that a request has waited.
    pub fn waited_mean(&self) -> f64 {
        if self.requests > 0 { self.waited_sum as f64 / self.requests as f64 } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{Place, Request};
    use crate::share::Member;

    /// Two go together, 1 km and 2 km, with a detour of half of the lead's kilometre; a third goes 3 km alone.
    #[test]
    fn both_definitions_follow_the_specification() {
        let request = |id, requested, kilometres: f64| {
            let (origin, destination) = (Place::default(), Place { x_m: 1000.0 * kilometres, y_m: 0.0 });
            Request { id, requested, expires: requested + 600, origin, destination }
        };
        let members = vec![
            Member { request: request(1, 0, 1.0), extra_cost: 0.0 },
            Member { request: request(2, 100, 2.0), extra_cost: 0.5 },
        ];
        let mut savings = Savings::default();
        assert_eq!((savings.of_distance(), savings.per_request(), savings.waited_mean()), (0.0, 0.0, 0.0));
        savings.add(&Share { grouped: 600, members, amortized_cost: 0.75 });
        savings.add(&Share::alone(660, request(3, 60, 3.0)));
        assert_eq!((savings.requests, savings.alone, savings.shares), (3, 1, 1));
        assert_eq!(savings.of_distance(), 1.0 - (1500.0 + 3000.0) / 6000.0);
        assert_eq!(savings.per_request(), (0.25 + 0.25) / 3.0);
        assert_eq!((savings.waited_mean(), savings.waited_max), ((600.0 + 500.0 + 600.0) / 3.0, 600));
    }
}
