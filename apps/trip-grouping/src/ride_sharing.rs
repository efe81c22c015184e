//! Ride sharing (III 3.5 and 3.6): people with cars offer rides to people without.
//!
//! It is trip grouping with these differences. A share is made for an offer, in each grouping cycle in which somebody can
//! be found, and the offers that have waited longest choose first. A share has one car that its owner does not leave behind,
//! at most. Requests need not be served.

use std::collections::{BTreeSet, HashSet};

use thiserror::Error;

use crate::criteria::SHARE_MAX;
use crate::extra_cost::amortized_cost;
use crate::grouping::nearest::Nearest;
use crate::grouping::queue::Queue;
use crate::request::{Request, TIME_MAX};
use crate::share::{Member, Share};

/// Somebody with a car who takes others along.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Offer {
    /// Where the owner goes, and until when others may come.
    pub trip: Request,
    /// Whether the owner may leave the car behind and go along with somebody else.
    pub leaves_car: bool,
    /// The longest detour for all others together, relative to the length of the owner's own trip.
    pub extra_cost_max: f64,
    /// The most others in the car, 1 to [`SHARE_MAX`] - 1.
    pub seats: usize,
}

/// What somebody wants: to be taken along, or to take others along.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Trip {
    /// Somebody without a car.
    Request(Request),
    /// Somebody with a car.
    Offer(Offer),
}

impl Trip {
    /// Where it goes, and when.
    pub fn request(&self) -> &Request {
        match self {
            Trip::Request(request) => request,
            Trip::Offer(offer) => &offer.trip,
        }
    }
}

/// An offer, or a ride-sharing, that is not possible.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
pub enum RideSharingError {
    /// No room, or a bus.
    #[error("the offer has {given} seats; a car has 1 to {max} for others", max = SHARE_MAX - 1)]
    Seats {
        /// The number offered.
        given: usize,
    },
    /// Not a part of a trip.
    #[error("the offer's extra_cost_max is {given}; it is a positive fraction of the trip's length")]
    ExtraCost {
        /// The part given.
        given: f64,
    },
    /// Two trips would be taken for one.
    #[error(
        "somebody who waits has the id {given} already; give every request and every offer an id of its own"
    )]
    Id {
        /// The id of both.
        given: i64,
    },
    /// No cycle at all, or one beyond all times.
    #[error("the grouping cycle is {given}; it must be positive, and at most {TIME_MAX}")]
    Cycle {
        /// The length asked for.
        given: i64,
    },
}

impl Offer {
    /// Reports what is wrong with it, if anything; its trip is checked [like any request](Request::check).
    ///
    /// # Errors
    /// If a value is out of its range.
    pub fn check(&self) -> Result<(), RideSharingError> {
        if !(1..SHARE_MAX).contains(&self.seats) {
            return Err(RideSharingError::Seats { given: self.seats });
        }
        // NaN is not at least 0 either.
        if self.extra_cost_max >= 0.0 {
            Ok(())
        } else {
            Err(RideSharingError::ExtraCost { given: self.extra_cost_max })
        }
    }
}

/// The rides that offers and requests lead to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rides {
    /// Cars that leave, with whoever goes along; the lead is the owner.
    pub shares: Vec<Share>,
    /// Requests that nobody took along until they expired, each with the end of the cycle.
    pub unserved: Vec<(i64, Request)>,
}

/// Brings offers and requests together. It has no clock: its caller says what time it is.
///
/// ```
/// use tidemill_trip_grouping::request::{Place, Request};
/// use tidemill_trip_grouping::ride_sharing::{Offer, RideSharing, Rides};
///
/// let trip = |id, x_m| Request {
///     id, requested: 10, expires: 610,
///     origin: Place { x_m, y_m: 0.0 }, destination: Place { x_m: 5000.0 + x_m, y_m: 0.0 },
/// };
/// let mut sharing = RideSharing::new(60)?;
/// sharing.add_offer(Offer { trip: trip(1, 0.0), leaves_car: false, extra_cost_max: 0.1, seats: 3 })?;
/// sharing.add_request(trip(2, 100.0))?;
/// sharing.add_request(trip(3, 400.0))?;
/// let mut rides = Rides::default();
/// // The car leaves as soon as somebody can be found: request 3 would be too much of a detour.
/// sharing.advance(60, &mut rides);
/// assert_eq!(rides.shares[0].members.iter().map(|member| member.request.id).collect::<Vec<_>>(), [1, 2]);
/// sharing.advance(i64::MAX, &mut rides);
/// assert_eq!(rides.unserved, [(600, trip(3, 400.0))]);
/// # Ok::<(), tidemill_trip_grouping::ride_sharing::RideSharingError>(())
/// ```
#[derive(Clone, Debug)]
pub struct RideSharing {
    cycle: i64,
    last_end: Option<i64>,
    /// What was added, and is not part of a cycle yet.
    coming_requests: Vec<Request>,
    coming_offers: Vec<Offer>,
    /// Whoever may go along with somebody else: requests, and owners who leave their cars.
    passengers: Queue,
    /// In the order of arrival.
    offers: Vec<Offer>,
    /// The ends of cycles in which something comes or expires. In others nothing can change: whoever was taken along
    /// can only be missing.
    ends: BTreeSet<i64>,
    /// The ids of all who wait.
    ids: HashSet<i64>,
}

impl RideSharing {
    /// Nobody waits yet. Cars leave at multiples of the cycle, in the unit of the requests' times.
    ///
    /// # Errors
    /// If there can be no such cycle.
    pub fn new(cycle: i64) -> Result<Self, RideSharingError> {
        if !(1..=TIME_MAX).contains(&cycle) {
            return Err(RideSharingError::Cycle { given: cycle });
        }
        Ok(RideSharing {
            cycle,
            last_end: None,
            coming_requests: Vec::new(),
            coming_offers: Vec::new(),
            passengers: Queue::default(),
            offers: Vec::new(),
            ends: BTreeSet::new(),
            ids: HashSet::new(),
        })
    }

    /// A ride-sharing in the middle of a run, from what [`last_end`](Self::last_end), [`ends`](Self::ends),
    /// [`waiting_requests`](Self::waiting_requests) and [`waiting_offers`](Self::waiting_offers) said.
    ///
    /// # Errors
    /// If there can be no such cycle.
    pub fn resume(
        cycle: i64,
        (last_end, ends): (Option<i64>, BTreeSet<i64>),
        requests: Vec<Request>,
        offers: Vec<Offer>,
    ) -> Result<Self, RideSharingError> {
        // They become part of the next cycle, as they are part of it already.
        let ids = requests.iter().chain(offers.iter().map(|offer| &offer.trip)).map(|trip| trip.id).collect();
        let waiting =
            RideSharing { coming_requests: requests, coming_offers: offers, ..RideSharing::new(cycle)? };
        Ok(RideSharing { last_end, ends, ids, ..waiting })
    }

    /// The length of a cycle.
    pub fn cycle(&self) -> i64 {
        self.cycle
    }

    /// The end of the last cycle that was computed.
    pub fn last_end(&self) -> Option<i64> {
        self.last_end
    }

    /// The ends of the cycles in which something is known to come or to expire.
    pub fn ends(&self) -> &BTreeSet<i64> {
        &self.ends
    }

    /// The requests that nobody has taken along so far, in the order of arrival.
    pub fn waiting_requests(&self) -> Vec<Request> {
        let leaving = self.offers.iter().filter(|offer| offer.leaves_car);
        let owners: BTreeSet<usize> =
            leaving.filter_map(|offer| self.passengers.index_of(&offer.trip)).collect();
        let passengers = self.passengers.requests().iter().enumerate();
        let requests = passengers.filter(|(index, _)| !owners.contains(index)).map(|(_, request)| *request);
        let mut waiting: Vec<Request> = requests.chain(self.coming_requests.iter().copied()).collect();
        waiting.sort_by(Request::by_arrival);
        waiting
    }

    /// The offers of cars that have not left so far, in the order of arrival.
    pub fn waiting_offers(&self) -> Vec<Offer> {
        let mut waiting: Vec<Offer> = self.offers.iter().chain(&self.coming_offers).copied().collect();
        waiting.sort_by(|a, b| a.trip.by_arrival(&b.trip));
        waiting
    }

    /// About how many bytes of memory they take.
    pub fn bytes(&self) -> usize {
        let requests = self.coming_requests.capacity() * size_of::<Request>() + self.passengers.bytes();
        let offers = (self.offers.capacity() + self.coming_offers.capacity()) * size_of::<Offer>();
        // A node of the set holds some numbers, and room for more.
        requests + offers + 2 * (self.ends.len() + self.ids.capacity()) * size_of::<i64>()
    }

    /// Adds a [valid](Request::check) request.
    ///
    /// # Errors
    /// If a request or an offer that waits has the same id; then nothing is added.
    pub fn add_request(&mut self, request: Request) -> Result<(), RideSharingError> {
        self.expect(&request)?;
        self.coming_requests.push(request);
        Ok(())
    }

    /// Adds a [valid](Offer::check) offer.
    ///
    /// # Errors
    /// As [`add_request`](Self::add_request).
    pub fn add_offer(&mut self, offer: Offer) -> Result<(), RideSharingError> {
        self.expect(&offer.trip)?;
        self.coming_offers.push(offer);
        Ok(())
    }

    /// The end of the next cycle in which something can happen: the time to call [`advance`](Self::advance).
    pub fn next_end(&self) -> Option<i64> {
        self.ends.first().copied()
    }

    /// Computes all cycles that end by now: nothing from before `now` may follow.
    pub fn advance(&mut self, now: i64, rides: &mut Rides) {
        while let Some(end) = self.ends.first().copied().filter(|end| *end <= now) {
            self.ends.pop_first();
            self.last_end = Some(end);
            let (earlier_shares, earlier_unserved) = (rides.shares.len(), rides.unserved.len());
            self.begin_cycle(end);
            self.leave_together(end, rides);
            self.expire(end, rides);
            self.passengers.compact();
            let gone = rides.shares[earlier_shares..].iter().flat_map(|share| &share.members);
            let gone = gone.map(|member| &member.request);
            for trip in gone.chain(rides.unserved[earlier_unserved..].iter().map(|(_, trip)| trip)) {
                self.ids.remove(&trip.id);
            }
        }
    }

    /// Notes when something has come, and when it expires.
    fn expect(&mut self, request: &Request) -> Result<(), RideSharingError> {
        if !self.ids.insert(request.id) {
            return Err(RideSharingError::Id { given: request.id });
        }
        let cycle = self.cycle;
        // The first multiple of the cycle that is larger.
        let after = |time: i64| (time.div_euclid(cycle) + 1).saturating_mul(cycle);
        let earliest = self.last_end.map_or(i64::MIN, |last| last.saturating_add(cycle));
        let first = after(request.requested).max(earliest);
        self.ends.insert(first);
        self.ends.insert(first.max(after(request.expires) - cycle));
        Ok(())
    }

    fn begin_cycle(&mut self, end: i64) {
        let requests = self.coming_requests.extract_if(.., |request| request.requested < end);
        let offers: Vec<Offer> =
            self.coming_offers.extract_if(.., |offer| offer.trip.requested < end).collect();
        let leaving = offers.iter().filter(|offer| offer.leaves_car).map(|offer| offer.trip);
        self.passengers.extend(requests.chain(leaving));
        self.offers.extend(offers);
        self.offers.sort_by(|a, b| a.trip.by_arrival(&b.trip));
    }

    /// All offers, those that wait longest first, leave if somebody comes along at a cost that their owners accept.
    fn leave_together(&mut self, end: i64, rides: &mut Rides) {
        let passengers = &mut self.passengers;
        self.offers.retain(|offer| {
            let own = if offer.leaves_car { passengers.index_of(&offer.trip) } else { None };
            if own.is_some_and(|own| passengers.is_taken(own)) {
                return false;
            }
            let nearest = Nearest::find(passengers, &offer.trip, own, offer.seats);
            let Some((count, cost)) = best_accepted(nearest.extra_costs(), offer.extra_cost_max) else {
                return true;
            };
            let mut members = vec![Member { request: offer.trip, extra_cost: 0.0 }];
            for (index, extra_cost) in nearest.indices().iter().zip(nearest.extra_costs()).take(count) {
                members.push(Member { request: passengers.take(*index), extra_cost: *extra_cost });
            }
            own.into_iter().for_each(|own| {
                passengers.take(own);
            });
            rides.shares.push(Share { grouped: end, members, amortized_cost: cost });
            false
        });
    }

    /// Owners who cannot wait until the next cycle go alone; requests that cannot are not served.
    fn expire(&mut self, end: i64, rides: &mut Rides) {
        let next = end.saturating_add(self.cycle);
        let passengers = &mut self.passengers;
        self.offers.retain(|offer| {
            let own = if offer.leaves_car { passengers.index_of(&offer.trip) } else { None };
            // Somebody who had waited less may have taken the owner along.
            if own.is_some_and(|own| passengers.is_taken(own)) {
                return false;
            }
            if offer.trip.expires >= next {
                return true;
            }
            own.into_iter().for_each(|own| {
                passengers.take(own);
            });
            rides.shares.push(Share::alone(end, offer.trip));
            false
        });
        for index in passengers.expiring(next) {
            if !passengers.is_taken(index) {
                rides.unserved.push((end, passengers.take(index)));
            }
        }
    }
}

/// How many others to take along, and what each then pays: of the prefixes whose detours the owner accepts and with which
/// nobody pays more than alone, the one with the lowest amortized cost.
fn best_accepted(extra_costs: &[f64], extra_cost_max: f64) -> Option<(usize, f64)> {
    let prefixes = (1..=extra_costs.len()).map(|count| (count, &extra_costs[..count]));
    let accepted = prefixes.filter(|(_, costs)| costs.iter().sum::<f64>() <= extra_cost_max);
    let priced = accepted.map(|(count, costs)| (count, amortized_cost(costs)));
    priced.filter(|(_, cost)| *cost <= 1.0).min_by(|a, b| a.1.total_cmp(&b.1))
}
