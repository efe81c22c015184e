//! Routing by place, on points that are skewed and on any points at all.

use proptest::prelude::*;
use tidemill_core::{SnapshotReader, SnapshotWriter};
use tidemill_split::spatial::{AdaptiveRegions, Cuts, KdTree, Method, PointQuad, Regions, RoundRobin};

/// Points in this many dimensions, of which most are near one of three places.
fn skewed(count: usize, dimensions: usize) -> impl Strategy<Value = Vec<Vec<f64>>> {
    let place = (0..3usize, prop::collection::vec(-1.0..1.0f64, dimensions));
    let point = place.prop_map(|(place, offsets)| {
        let spread = [0.5, 2.0, 50.0][place];
        offsets.iter().map(|offset| 10.0 * place as f64 + offset * offset * offset * spread).collect()
    });
    prop::collection::vec(point, 1..count)
}

fn counts(regions: &dyn Regions, points: &[Vec<f64>]) -> Vec<usize> {
    let mut counts = vec![0; regions.count() as usize];
    points.iter().for_each(|point| counts[regions.region(point) as usize] += 1);
    counts
}

fn halves_well(values: Vec<f64>, least: usize) -> bool {
    let mut sorted = values.clone();
    sorted.sort_by(f64::total_cmp);
    sorted.dedup();
    // Equal values cannot be torn apart.
    sorted.len() < values.len() || least >= values.len() / 2
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_point_quad_halves_each_dimension(points in skewed(300, 4)) {
        let quad = PointQuad::from_points(&points);
        prop_assert_eq!(quad.count(), 16);
        for dimension in 0..4 {
            let above = points.iter().filter(|point| quad.region(point) >> dimension & 1 == 1).count();
            let values = points.iter().map(|point| point[dimension]).collect();
            prop_assert!(halves_well(values, above.min(points.len() - above)), "{} of {}", above, points.len());
        }
    }

    #[test]
    fn the_regions_of_a_k_d_tree_get_equally_many_points(points in skewed(300, 2), levels in 0..6u32) {
        let tree = KdTree::from_points(&points, levels, Cuts::Median);
        prop_assert_eq!(tree.count(), 1 << levels);
        let counts = counts(&tree, &points);
        // Each level halves, and may be off by one.
        let fair = points.len() / counts.len();
        prop_assert!(counts.iter().all(|count| count.abs_diff(fair) <= 1 + levels as usize), "{:?}", counts);
    }

    /// A point is in a region just if it is within the bounds of that region, and of no other.
    #[test]
    fn a_region_is_where_its_bounds_say(points in skewed(100, 3), others in skewed(30, 3), levels in 0..6u32) {
        let quad = PointQuad::from_points(&points);
        let tree = KdTree::from_points(&points, levels, Cuts::Median);
        let all: [&dyn Regions; 2] = [&quad, &tree];
        for regions in all {
            for (point, region) in points.iter().chain(&others).map(|point| (point, regions.region(point))) {
                for other in 0..regions.count() {
                    let bounds = regions.bounds(other);
                    let mut sides = bounds.iter().zip(point);
                    let is_within = sides.all(|((low, high), coordinate)| low <= coordinate && coordinate < high);
                    prop_assert_eq!(is_within, other == region, "{:?} {:?}", bounds, point);
                }
            }
        }
        let mut adaptive = AdaptiveRegions::new(Method::PointQuad, 10, 10, 1000);
        points.iter().for_each(|point| { adaptive.region(0, point); });
        let region = adaptive.region(10, &others[0]);
        prop_assert_eq!(adaptive.bounds(region), quad.bounds(region));
    }

    #[test]
    fn a_sparse_cut_is_in_a_gap_at_least_as_wide_and_leaves_each_side_its_part(
        points in skewed(200, 1), percent in 1..50usize
    ) {
        prop_assume!(points.len() >= 4);
        let least = percent as f64 / 100.0;
        let gap_at = |tree: &KdTree| {
            let side = |wanted| points.iter().filter(move |point| tree.region(point) == wanted).map(|point| point[0]);
            let (low, high) = (side(0).fold(f64::MIN, f64::max), side(1).fold(f64::MAX, f64::min));
            (high - low, side(0).count().min(side(1).count()))
        };
        let (median_gap, _) = gap_at(&KdTree::from_points(&points, 1, Cuts::Median));
        let (gap, smaller) = gap_at(&KdTree::from_points(&points, 1, Cuts::Sparse { least }));
        prop_assert!(gap >= median_gap);
        prop_assert!(smaller as f64 >= (points.len() as f64 * least).floor().max(1.0) - 1.0);
    }

    #[test]
    fn any_coordinates_have_a_region(
        points in prop::collection::vec(prop::collection::vec(prop::num::f64::ANY, 3), 0..40),
        asked in prop::collection::vec(prop::num::f64::ANY, 3), least in prop::num::f64::ANY, levels in 0..9u32
    ) {
        for cuts in [Cuts::Median, Cuts::Sparse { least }, Cuts::Weighed { imbalance: least }] {
            let tree = KdTree::from_points(&points, levels, cuts);
            prop_assert!(tree.region(&asked) < tree.count());
            prop_assert!(points.iter().all(|point| tree.region(point) < tree.count()));
        }
        let quad = PointQuad::from_points(&points);
        prop_assert!(quad.region(&asked) < quad.count());
    }

    #[test]
    fn adaptive_regions_are_those_of_the_points_of_the_last_while(
        points in skewed(300, 2),
        steps in prop::collection::vec(0..40i64, 300),
        sparse in any::<bool>(),
        at in 0..300usize
    ) {
        let cuts = if sparse { Cuts::Sparse { least: 0.3 } } else { Cuts::Median };
        let method = Method::KdTree { levels: 3, cuts };
        let new = || AdaptiveRegions::new(method, 600, 300, 100_000);
        let times: Vec<i64> = steps.iter().scan(-50, |time, step| { *time += step; Some(*time) }).collect();
        let mut adaptive = new();
        let mut naive: Box<dyn Regions> = method.regions(&[]);
        let mut renewals = times[0] + 300;
        for (number, point) in points.iter().enumerate() {
            let time = times[number];
            if time >= renewals {
                let recent: Vec<&[f64]> =
                    (0..number).filter(|past| times[*past] >= time - 600).map(|past| &points[past][..]).collect();
                if !recent.is_empty() {
                    naive = method.regions(&recent);
                }
                while renewals <= time { renewals += 300; }
            }
            if number == at {
                // What is restored continues as if nothing had happened.
                let mut writer = SnapshotWriter::default();
                adaptive.snapshot(&mut writer);
                adaptive = new();
                adaptive.restore(&mut SnapshotReader::new(&writer.finish()).unwrap()).unwrap();
            }
            prop_assert_eq!(adaptive.region(time, point), naive.region(point), "point {} at {}", number, time);
        }
    }
}

#[test]
fn a_sparse_cut_goes_between_two_towns() {
    // 60 points in one town, 40 in another far away: the median is in the middle of the first.
    let points: Vec<[f64; 1]> =
        (0..100).map(|n| [if n < 60 { n as f64 } else { 1000.0 + n as f64 }]).collect();
    let sides = |cuts| {
        let tree = KdTree::from_points(&points, 1, cuts);
        points.iter().filter(|point| tree.region(*point) == 0).count()
    };
    assert_eq!(sides(Cuts::Median), 50);
    assert_eq!(sides(Cuts::Sparse { least: 0.3 }), 60);
    assert_eq!(sides(Cuts::Sparse { least: 0.45 }), 50);
}

#[test]
fn adaptive_regions_follow_where_the_points_go_and_static_ones_do_not() {
    // In the morning all is in the west, in the evening in the east.
    let point = |time: i64| [(time * 7919 % 100) as f64 + if time < 5000 { 0.0 } else { 1000.0 }];
    let mut adaptive = AdaptiveRegions::new(Method::PointQuad, 600, 600, 10_000);
    let morning: Vec<[f64; 1]> = (0..600).map(point).collect();
    let fixed = PointQuad::from_points(&morning);
    let (mut moved, mut stayed) = ([0; 2], [0; 2]);
    for time in 0..10_000 {
        let region = adaptive.region(time, &point(time));
        if time >= 6000 {
            moved[region as usize] += 1;
            stayed[fixed.region(&point(time)) as usize] += 1;
        }
    }
    assert!(moved.iter().all(|count| *count > 1500), "{moved:?}");
    assert_eq!(stayed, [0, 4000]);
    assert_eq!(adaptive.count(), 2);
}

#[test]
fn turns_are_even() {
    let mut turns = RoundRobin::new(7);
    let mut counts = [0; 7];
    (0..700).for_each(|_| counts[turns.next_region() as usize] += 1);
    assert_eq!(counts, [100; 7]);
}

/// Two thirds of the points around 10 and one third around 30, few between them.
fn two_hills() -> Vec<[f64; 1]> {
    let hill = |middle: f64, count: i32| {
        (0..count).map(move |i| {
            let part = f64::from(i) / f64::from(count) * 2.0 - 1.0;
            [middle + 9.5 * part * part * part]
        })
    };
    hill(10.0, 2000).chain(hill(30.0, 1000)).collect()
}

#[test]
fn a_weighed_cut_is_in_the_valley_or_near_the_median_as_the_weight_says() {
    let split = |imbalance| KdTree::from_points(&two_hills(), 1, Cuts::Weighed { imbalance }).splits()[0];
    // The hills are steep at their tops, which are at 10 and 30.
    assert!((17.0..25.0).contains(&split(0.0)), "{}", split(0.0));
    assert!((17.0..25.0).contains(&split(0.5)), "{}", split(0.5));
    let median = KdTree::from_points(&two_hills(), 1, Cuts::Median).splits()[0];
    assert!((split(1e9) - median).abs() < 0.1, "{} {median}", split(1e9));
}

#[test]
fn a_weighed_cut_leaves_each_side_an_eighth() {
    // The only sparse place is at the edge.
    let points: Vec<[f64; 1]> = (0..1000).map(|i| [f64::from(i) + if i < 20 { 0.0 } else { 1e6 }]).collect();
    let tree = KdTree::from_points(&points, 1, Cuts::Weighed { imbalance: 0.0 });
    let below = points.iter().filter(|point| tree.region(*point) == 0).count();
    assert!((125..=875).contains(&below), "{below}");
}
