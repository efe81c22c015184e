//! Shares: requests that are served by one ride.

use crate::request::Request;

/// A member of a share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Member {
    /// Who goes along.
    pub request: Request,
    /// The lead's detour for this member, relative to the length of the lead's own trip; 0 for the lead.
    pub extra_cost: f64,
}

/// Requests that are served together, or one that goes alone.
#[derive(Clone, Debug, PartialEq)]
pub struct Share {
    /// The end of the grouping cycle that made it.
    pub grouped: i64,
    /// The expiring request that it was made for, then the others, in ascending order of their extra costs.
    pub members: Vec<Member>,
    /// What each member pays, relative to the length of the lead's own trip: 1 if it goes alone.
    pub amortized_cost: f64,
}

impl Share {
    /// A request that goes alone.
    pub fn alone(grouped: i64, request: Request) -> Share {
        Share { grouped, members: vec![Member { request, extra_cost: 0.0 }], amortized_cost: 1.0 }
    }

    /// The request that the share was made for.
    pub fn lead(&self) -> &Request {
        // A share has a member by construction.
        &self.members[0].request
    }

    /// The part of the cost that each member saves.
    pub fn savings(&self) -> f64 {
        1.0 - self.amortized_cost
    }

    /// The length of the ride as the heuristic estimates it: the lead's own trip, and its detour for each of the others.
    /// [`shortest_m`](crate::tour::shortest_m) is the true one.
    pub fn length_m(&self) -> f64 {
        self.members.len() as f64 * self.amortized_cost * self.lead().length_m()
    }
}
