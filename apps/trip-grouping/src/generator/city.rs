//! Where people live, work and shop, in a square of 30 km.

use super::random::Random;
use crate::request::Place;

/// The side of the city, in metres.
const SIDE_M: f64 = 30_000.0;

/// A district: its part of the city, its middle, and how far it spreads, in metres.
type District = (f64, (f64, f64), f64);

/// People live all over the city. Districts overlap so far that nowhere between them is empty.
const HOMES: [District; 3] = [
    (0.5, (13_500.0, 16_500.0), 4_000.0),
    (0.3, (18_000.0, 12_000.0), 4_500.0),
    (0.2, (15_000.0, 15_000.0), 6_500.0),
];

/// They work in the business district, in an industrial one, or elsewhere.
const WORKPLACES: [District; 3] = [
    (0.6, (17_500.0, 15_500.0), 2_500.0),
    (0.25, (12_000.0, 11_500.0), 2_500.0),
    (0.15, (15_000.0, 15_000.0), 6_000.0),
];

/// Malls are small and far from each other, along both dimensions.
const MALLS: [District; 5] = [
    (0.25, (9_000.0, 19_500.0), 250.0),
    (0.25, (20_500.0, 9_000.0), 250.0),
    (0.2, (13_000.0, 12_500.0), 250.0),
    (0.15, (16_500.0, 22_500.0), 250.0),
    (0.15, (24_000.0, 16_000.0), 250.0),
];

/// How far people go for what they do near their homes, in each dimension.
const NEAR_M: f64 = 1_500.0;

pub(super) fn home(random: &mut Random) -> Place {
    place(random, &HOMES)
}

/// People choose the nearer one of two workplaces.
pub(super) fn workplace(random: &mut Random, home: Place) -> Place {
    nearer(home, place(random, &WORKPLACES), place(random, &WORKPLACES))
}

/// The nearer one of two malls.
pub(super) fn mall(random: &mut Random, home: Place) -> Place {
    nearer(home, place(random, &MALLS), place(random, &MALLS))
}

fn nearer(home: Place, a: Place, b: Place) -> Place {
    if home.distance_m(b) < home.distance_m(a) { b } else { a }
}

/// A place near another one.
pub(super) fn near(random: &mut Random, place: Place) -> Place {
    let mut shifted = |coordinate: f64| (coordinate + random.between(-NEAR_M, NEAR_M)).round();
    Place { x_m: shifted(place.x_m), y_m: shifted(place.y_m) }
}

/// A place in one of the districts, in whole metres.
fn place(random: &mut Random, districts: &[District]) -> Place {
    let mut left = random.fraction();
    let district = districts.iter().find(|(part, ..)| {
        left -= part;
        left < 0.0
    });
    let (_, (x_m, y_m), deviation_m) = *district.unwrap_or(&districts[districts.len() - 1]);
    let mut coordinate = |middle_m| random.normal(middle_m, deviation_m).clamp(0.0, SIDE_M).round();
    Place { x_m: coordinate(x_m), y_m: coordinate(y_m) }
}
