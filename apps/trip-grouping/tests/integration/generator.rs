//! The generated day has the properties that the paper states of its own.

use std::sync::LazyLock;

use tidemill_trip_grouping::generator::{Day, GeneratorConfig, GeneratorError};
use tidemill_trip_grouping::request::Request;

/// The paper's city.
static DAY: LazyLock<Day> = LazyLock::new(|| GeneratorConfig::default().day().unwrap());

/// Coordinates along the dimensions of a request: origin x and y, destination x and y.
const DIMENSIONS: [fn(&Request) -> f64; 4] = [
    |request| request.origin.x_m,
    |request| request.origin.y_m,
    |request| request.destination.x_m,
    |request| request.destination.y_m,
];

fn between(from_h: f64, to_h: f64) -> Vec<&'static Request> {
    let is_in = |request: &&Request| (from_h..to_h).contains(&(request.requested as f64 / 3600.0));
    DAY.requests.iter().filter(is_in).collect()
}

fn median(requests: &[&Request], of: fn(&Request) -> f64) -> f64 {
    let mut values: Vec<f64> = requests.iter().map(|request| of(request)).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// How many requests are in each half kilometre of a dimension, from its 3rd to its 97th percentile.
fn histogram(requests: &[&Request], of: fn(&Request) -> f64) -> Vec<f64> {
    let mut values: Vec<f64> = requests.iter().map(|request| of(request)).collect();
    values.sort_by(f64::total_cmp);
    let values = &values[values.len() * 3 / 100..values.len() * 97 / 100];
    let (low, high) = (values[0], values[values.len() - 1]);
    let bins = ((high - low) / 500.0) as usize;
    let mut counts = vec![0.0; bins];
    for value in values {
        let bin = ((value - low) / 500.0) as usize;
        if bin < bins {
            counts[bin] += 1.0;
        }
    }
    counts
}

/// The number of modes: peaks that are at least twice as high as the valleys to both sides of them.
fn modes(counts: &[f64]) -> usize {
    let (mut modes, mut peak, mut valley, mut rises) = (0, 0.0f64, 0.0f64, true);
    for count in counts.iter().chain([&0.0]) {
        if rises {
            peak = peak.max(*count);
            if *count < peak / 2.0 {
                (modes, valley, rises) = (modes + 1, *count, false);
            }
        } else {
            valley = valley.min(*count);
            if *count > 2.0 * valley + 10.0 {
                (peak, rises) = (*count, true);
            }
        }
    }
    modes
}

#[test]
fn a_city_of_the_papers_size_makes_its_number_of_trips_and_requests() {
    assert!((1_500_000..1_600_000).contains(&DAY.trips), "{} trips", DAY.trips);
    assert!((245_000..257_000).contains(&DAY.requests.len()), "{} requests", DAY.requests.len());
    for (id, request) in (0..).zip(&DAY.requests) {
        assert_eq!((request.id, request.expires), (id, request.requested + 600));
        assert!(request.length_m() >= 3000.0 && request.requested < 86_400);
    }
    assert!(DAY.requests.is_sorted_by_key(|request| request.requested));
}

#[test]
fn in_rush_hour_about_5200_requests_wait() {
    let most = (0..1440).map(|minute| {
        let now = 60 * minute;
        DAY.requests.iter().filter(|request| request.requested < now && request.expires >= now).count()
    });
    let most = most.max().unwrap();
    assert!((4700..6000).contains(&most), "{most}");
}

#[test]
fn most_requests_are_made_in_peak_hours() {
    let peaks = between(6.0, 10.5).len() + between(14.0, 19.0).len();
    assert!(peaks > DAY.requests.len() * 6 / 10, "{peaks}");
}

#[test]
fn in_peak_hours_no_dimension_has_sparse_regions() {
    for (from_h, to_h) in [(7.0, 9.0), (16.5, 18.5)] {
        let requests = between(from_h, to_h);
        for dimension in DIMENSIONS {
            let counts = histogram(&requests, dimension);
            let mean = counts.iter().sum::<f64>() / counts.len() as f64;
            let least = counts.iter().copied().fold(f64::MAX, f64::min);
            assert!(least > mean / 8.0, "{from_h} h: {counts:?}");
            assert_eq!(modes(&counts), 1, "{from_h} h: {counts:?}");
        }
    }
}

#[test]
fn off_peak_destinations_have_several_modes() {
    let requests = between(11.5, 13.0);
    for dimension in [DIMENSIONS[2], DIMENSIONS[3]] {
        let counts = histogram(&requests, dimension);
        assert!(modes(&counts) >= 3, "{} modes: {counts:?}", modes(&counts));
    }
}

#[test]
fn the_evening_is_the_reverse_of_the_morning() {
    let (morning, evening) = (between(7.0, 9.0), between(16.5, 18.5));
    for (there, back) in [(0, 2), (1, 3), (2, 0), (3, 1)] {
        let (there, back) = (median(&morning, DIMENSIONS[there]), median(&evening, DIMENSIONS[back]));
        assert!((there - back).abs() < 500.0, "{there} {back}");
    }
    let (home, work) = (median(&morning, DIMENSIONS[0]), median(&morning, DIMENSIONS[2]));
    assert!((home - work).abs() > 800.0, "homes and workplaces are in different districts: {home} {work}");
}

#[test]
fn the_same_seed_makes_the_same_day() {
    let config = GeneratorConfig { people: 2000, ..GeneratorConfig::default() };
    assert_eq!(config.day(), config.day());
    let other = GeneratorConfig { seed: 8, ..config }.day().unwrap();
    assert_ne!(config.day().unwrap().requests, other.requests);
}

#[test]
fn impossible_cities_are_refused() {
    let config = GeneratorConfig { people: 0, ..GeneratorConfig::default() };
    assert_eq!(config.day(), Err(GeneratorError::People { given: 0 }));
    let config = GeneratorConfig { wait_s: 100_000, ..GeneratorConfig::default() };
    assert_eq!(config.day(), Err(GeneratorError::Wait { given: 100_000 }));
}
