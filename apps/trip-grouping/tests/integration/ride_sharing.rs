//! Ride sharing against a slow reference, which looks at every cycle and at everybody.

use crate::reference::rides;

use std::sync::Arc;

use proptest::prelude::*;
use rides::{CYCLE, Outcome, reference};
use tidemill_engine::arrow::array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch};
use tidemill_engine::{Batch, Cut, Operator, Output, SnapshotReader, SnapshotWriter};
use tidemill_trip_grouping::operators::ShareRides;
use tidemill_trip_grouping::request::{Place, Request};
use tidemill_trip_grouping::ride_sharing::{Offer, RideSharing, RideSharingError, Rides};
use tidemill_trip_grouping::schema;

fn described(rides: &Rides) -> Outcome {
    let shares = rides.shares.iter().map(|share| {
        (share.grouped, share.members.iter().map(|member| member.request.id).collect::<Vec<i64>>())
    });
    (shares.collect(), rides.unserved.iter().map(|(end, request)| (*end, request.id)).collect())
}

fn offers_batch(offers: &[Offer]) -> Batch {
    let trips: Vec<Request> = offers.iter().map(|offer| offer.trip).collect();
    let mut columns = schema::batch_of(&trips).unwrap().rows.columns().to_vec();
    let terms: [ArrayRef; 3] = [
        Arc::new(offers.iter().map(|offer| Some(offer.leaves_car)).collect::<BooleanArray>()),
        Arc::new(Float64Array::from_iter_values(offers.iter().map(|offer| offer.extra_cost_max))),
        Arc::new(Int64Array::from_iter_values(offers.iter().map(|offer| offer.seats as i64))),
    ];
    columns.extend(terms);
    let rows = RecordBatch::try_new(schema::offers(), columns).unwrap();
    Batch::from_source(rows, (0..offers.len() as u32).collect())
}

/// What the operator writes if a cycle has what comes within `step`. It is restored from its snapshot before cycle
/// `restored`.
fn by_operator(requests: &[Request], offers: &[Offer], step: i64, restored: i64) -> Outcome {
    let mut operator = ShareRides::new(CYCLE).unwrap();
    let mut output = Output::new(&[schema::members(), schema::unserved_requests()]);
    let (mut shares, mut unserved) = (Vec::new(), Vec::new());
    let ends = (1..=2000 / step + 1).map(|cycle| cycle * step).chain([i64::MAX]);
    for (number, end) in (0..).zip(ends) {
        if number == restored {
            let mut writer = SnapshotWriter::default();
            operator.snapshot(&mut writer);
            let bytes = writer.finish();
            operator = ShareRides::new(CYCLE).unwrap();
            let mut reader = SnapshotReader::new(&bytes).unwrap();
            operator.restore(&mut reader).unwrap();
            assert!(reader.is_empty());
            let mut again = SnapshotWriter::default();
            operator.snapshot(&mut again);
            assert!(again.finish() == bytes, "the same state has the same bytes");
        }
        let is_in = |trip: &Request| (number * step..end).contains(&trip.requested) && end < i64::MAX;
        let coming: Vec<Request> = requests.iter().filter(|trip| is_in(trip)).copied().collect();
        let offered: Vec<Offer> = offers.iter().filter(|offer| is_in(&offer.trip)).copied().collect();
        output.begin_cycle((coming.len() + offered.len()) as u32);
        if !coming.is_empty() {
            operator.rows(0, schema::batch_of(&coming).unwrap().as_rows(), &mut output).unwrap();
        }
        if !offered.is_empty() {
            operator.rows(1, offers_batch(&offered).as_rows(), &mut output).unwrap();
        }
        let is_due = operator.next_timer().is_some_and(|timer| timer <= end);
        if is_due || !coming.is_empty() || !offered.is_empty() {
            let cut = Cut { watermarks: vec![end], ..Cut::first() };
            operator.end_of_cycle(&cut, &mut output).unwrap();
        }
        for share in output.finish(0).iter().flat_map(schema::shares_of) {
            shares.push((share.grouped, share.members.iter().map(|member| member.request.id).collect()));
        }
        if let Some(batch) = output.finish(1) {
            let rows = batch.as_rows();
            let grouped = rows.column::<tidemill_engine::arrow::array::types::Int64Type>(0).to_vec();
            unserved.extend(grouped.into_iter().zip(schema::requests_of(&rows, 1).map(|request| request.id)));
        }
    }
    (shares, unserved)
}

#[test]
fn impossible_offers_and_requests_are_named() {
    let trip =
        Request { id: 7, requested: 0, expires: 9, origin: Place::default(), destination: Place::default() };
    let offer = Offer { trip, leaves_car: true, extra_cost_max: 0.5, seats: 3 };
    let mut output = Output::new(&[schema::members(), schema::unserved_requests()]);
    let mut refused = |offer: Offer| {
        let mut operator = ShareRides::new(CYCLE).unwrap();
        operator.rows(1, offers_batch(&[offer]).as_rows(), &mut output).unwrap_err().to_string()
    };
    assert!(refused(Offer { seats: 8, ..offer }).contains("offer 7: the offer has 8 seats"));
    assert!(refused(Offer { extra_cost_max: -1.0, ..offer }).contains("offer 7"));
    let far = Request { requested: i64::MAX, ..trip };
    assert!(refused(Offer { trip: far, ..offer }).contains("offer 7"));
    assert!(ShareRides::new(0).err().unwrap().to_string().contains("share_rides: the grouping cycle is 0"));
}

fn trips(count: usize) -> impl Strategy<Value = Vec<Request>> {
    let place =
        || (0..6, 0..6).prop_map(|(x, y)| Place { x_m: 100.0 * f64::from(x), y_m: 100.0 * f64::from(y) });
    let trip = (0..400i64, 0..400i64, place(), place());
    prop::collection::vec(trip, 0..count).prop_map(|trips| {
        let trip = |(id, (requested, wait, origin, destination))| Request {
            id,
            requested,
            expires: requested + wait,
            origin,
            destination,
        };
        (0i64..).zip(trips).map(trip).collect()
    })
}

/// Terms of offers: leaves the car, extra cost, seats.
fn terms() -> impl Strategy<Value = Vec<(bool, f64, usize)>> {
    prop::collection::vec((any::<bool>(), prop_oneof![Just(0.0), Just(0.5), 0.0..3.0f64], 1..=7usize), 25)
}

fn offers(trips: &[Request], terms: &[(bool, f64, usize)]) -> Vec<Offer> {
    let offer = |(trip, (leaves_car, extra_cost_max, seats)): (&Request, &(bool, f64, usize))| Offer {
        trip: Request { id: trip.id + 1000, ..*trip },
        leaves_car: *leaves_car,
        extra_cost_max: *extra_cost_max,
        seats: *seats,
    };
    trips.iter().zip(terms).map(offer).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn rides_are_those_of_the_reference_however_time_advances(
        requests in trips(40), owners in trips(25), terms in terms(), step in 1..500i64
    ) {
        let offers = offers(&owners, &terms);
        let expected = reference(&requests, &offers);
        let mut sharing = RideSharing::new(CYCLE).unwrap();
        requests.iter().for_each(|request| sharing.add_request(*request).unwrap());
        offers.iter().for_each(|offer| sharing.add_offer(*offer).unwrap());
        let mut rides = Rides::default();
        sharing.advance(i64::MAX, &mut rides);
        prop_assert_eq!(described(&rides), expected.clone());
        prop_assert_eq!(sharing.next_end(), None);

        let (mut sharing, mut rides, mut now) = (RideSharing::new(CYCLE).unwrap(), Rides::default(), 0);
        while now < 2000 {
            let is_in = |trip: &Request| (now..now + step).contains(&trip.requested);
            requests.iter().filter(|trip| is_in(trip)).for_each(|trip| sharing.add_request(*trip).unwrap());
            offers.iter().filter(|offer| is_in(&offer.trip)).for_each(|offer| sharing.add_offer(*offer).unwrap());
            now += step;
            sharing.advance(now, &mut rides);
        }
        prop_assert_eq!(described(&rides), expected);
    }

    #[test]
    fn the_operator_gives_the_rides_of_the_reference_also_from_a_snapshot(
        requests in trips(40), owners in trips(25), terms in terms(), step in 1..500i64, restored in 0..8i64
    ) {
        let offers = offers(&owners, &terms);
        let expected = reference(&requests, &offers);
        for restored in [restored, -1] {
            prop_assert_eq!(by_operator(&requests, &offers, step, restored), expected.clone());
        }
    }

    /// III 3.6: a share has an offer, and one car at most that its owner does not leave.
    #[test]
    fn shares_have_one_car_that_stays_at_most(requests in trips(40), owners in trips(25), terms in terms()) {
        let offers = offers(&owners, &terms);
        let mut sharing = RideSharing::new(CYCLE).unwrap();
        requests.iter().for_each(|request| sharing.add_request(*request).unwrap());
        offers.iter().for_each(|offer| sharing.add_offer(*offer).unwrap());
        let mut rides = Rides::default();
        sharing.advance(i64::MAX, &mut rides);
        let served: usize = rides.shares.iter().map(|share| share.members.len()).sum();
        prop_assert_eq!(served + rides.unserved.len(), requests.len() + offers.len());
        for share in &rides.shares {
            let of = |id: i64| offers.iter().find(|offer| offer.trip.id == id);
            let lead = of(share.lead().id).expect("an offer");
            prop_assert!(share.members.len() <= lead.seats + 1);
            let detours: f64 = share.members.iter().map(|member| member.extra_cost).sum();
            prop_assert!(share.members.len() == 1 || detours <= lead.extra_cost_max);
            let others = share.members[1..].iter().filter_map(|member| of(member.request.id));
            prop_assert!(others.into_iter().all(|offer| offer.leaves_car));
        }
        prop_assert!(rides.unserved.iter().all(|(_, request)| request.id < 1000));
    }
}

#[test]
fn two_who_wait_have_different_ids() {
    let trip = |requested| {
        let destination = Place { x_m: 5000.0, y_m: 0.0 };
        Request { id: 7, requested, expires: requested + 600, origin: Place::default(), destination }
    };
    let offer = |requested| Offer { trip: trip(requested), leaves_car: true, extra_cost_max: 0.5, seats: 3 };
    let (mut sharing, mut rides) = (RideSharing::new(CYCLE).unwrap(), Rides::default());
    sharing.add_request(trip(10)).unwrap();
    assert_eq!(sharing.add_offer(offer(20)), Err(RideSharingError::Id { given: 7 }));
    sharing.advance(600, &mut rides);
    assert_eq!((rides.shares.len(), rides.unserved.len()), (0, 1));
    // Nobody has the id any more.
    sharing.add_offer(offer(700)).unwrap();
    assert_eq!(sharing.add_request(trip(700)), Err(RideSharingError::Id { given: 7 }));
    sharing.advance(i64::MAX, &mut rides);
    assert_eq!((rides.shares.len(), rides.unserved.len()), (1, 1));
    sharing.add_request(trip(2000)).unwrap();

    let mut operator = ShareRides::new(CYCLE).unwrap();
    let mut output = Output::new(&[schema::members(), schema::unserved_requests()]);
    operator.rows(0, schema::batch_of(&[trip(10)]).unwrap().as_rows(), &mut output).unwrap();
    let error = operator.rows(1, offers_batch(&[offer(20)]).as_rows(), &mut output).unwrap_err().to_string();
    assert!(error.starts_with("share_rides: offer 7: somebody who waits has the id 7 already"), "{error}");
}

#[test]
fn impossible_offers_are_refused() {
    let trip =
        Request { id: 1, requested: 0, expires: 9, origin: Place::default(), destination: Place::default() };
    let offer = Offer { trip, leaves_car: true, extra_cost_max: 0.5, seats: 7 };
    assert_eq!(offer.check(), Ok(()));
    for given in [0, 8] {
        assert_eq!(Offer { seats: given, ..offer }.check(), Err(RideSharingError::Seats { given }));
    }
    assert!(Offer { extra_cost_max: f64::NAN, ..offer }.check().is_err());
    assert_eq!(RideSharing::new(0).err(), Some(RideSharingError::Cycle { given: 0 }));
}
