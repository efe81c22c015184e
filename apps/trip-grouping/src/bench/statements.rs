//! What the paper says about its results, checked on ours.

use std::time::Duration;

use super::measure::Measured;
use super::{GROUPS, HISTORIES_S, LOADS, PERIODS_S, Results};
use crate::partitioner::Partitioning::{
    self, AdaptiveKdTree, AdaptivePointQuad, RoundRobin, StaticKdTree, StaticPointQuad,
};

/// A statement of the paper, and whether our data agrees.
#[derive(Clone, Debug)]
pub struct Statement {
    /// What the paper says.
    pub text: &'static str,
    /// Whether it holds here.
    pub holds: bool,
    /// The numbers that decide it.
    pub numbers: String,
}

/// The paper's own four.
const SPATIAL: [Partitioning; 4] = [StaticPointQuad, StaticKdTree, AdaptivePointQuad, AdaptiveKdTree];

/// Every statement of III 6 that our measurements can decide.
pub fn statements(results: &Results) -> Vec<Statement> {
    let all = [time_falls, adaptive_is_faster, quads_gain_most, quads_are_uneven, near_round_robin];
    let of_savings =
        [turns_lose, full_load_keeps, small_load_keeps, nearly_equal, savings_rise, understated, best];
    all.iter().chain(&of_savings).map(|statement| statement(results)).collect()
}

/// What the paper leaves to future work (III 7), as far as our measurements decide it.
pub fn open_questions(results: &Results) -> Vec<Statement> {
    let kept = |history_s, period_s| saved(results.history(history_s, period_s)) / serial(results, 1);
    let listed = |histories: &[i64], periods: &[i64]| {
        let pairs = histories
            .iter()
            .flat_map(|history_s| periods.iter().map(move |period_s| (*history_s, *period_s)));
        let number =
            |(history_s, period_s)| format!("{history_s}/{period_s} s {:.3}", kept(history_s, period_s));
        pairs.map(number).collect::<Vec<_>>().join(", ")
    };
    vec![
        Statement {
            text: "borders from a longer history keep more savings: of an hour more than of ten minutes",
            holds: kept(3600, 600) > kept(600, 600),
            numbers: format!("akd, 16 groups, history/renewal: {}", listed(&HISTORIES_S, &[600])),
        },
        Statement {
            text: "more frequent renewal keeps more savings",
            holds: kept(600, 60) > kept(600, 600) && kept(600, 600) > kept(600, 3600),
            numbers: format!("akd, 16 groups, history/renewal: {}", listed(&[600], &PERIODS_S)),
        },
    ]
}

fn time(results: &Results, partitioning: Partitioning, groups: u32) -> Duration {
    results.groups(partitioning, groups).map(Measured::time).unwrap_or_default()
}

fn saved(measured: Option<&Measured>) -> f64 {
    measured.map_or(f64::NAN, |measured| measured.savings.of_distance())
}

fn serial(results: &Results, every: usize) -> f64 {
    results.serial(every).map_or(f64::NAN, |serial| serial.savings.of_distance())
}

/// One number for each of several partitionings.
fn listed(numbers: impl IntoIterator<Item = (Partitioning, f64)>) -> String {
    let numbers = numbers.into_iter().map(|(partitioning, number)| format!("{partitioning} {number:.3}"));
    numbers.collect::<Vec<_>>().join(", ")
}

fn time_falls(results: &Results) -> Statement {
    let times = |partitioning| GROUPS.map(|groups| time(results, partitioning, groups));
    let all = || SPATIAL.into_iter().chain([RoundRobin]);
    Statement {
        text: "the time falls with the number of groups, for all partitionings",
        holds: all().all(|partitioning| times(partitioning).is_sorted_by(|fewer, more| more < fewer)),
        numbers: "time with 16 groups / with 2: ".to_owned()
            + &listed(all().map(|partitioning| {
                let [two, .., sixteen] = times(partitioning);
                (partitioning, sixteen.as_secs_f64() / two.as_secs_f64())
            })),
    }
}

/// The slowest group's time: what partitioning itself costs is no matter of balance.
fn slowest(results: &Results, partitioning: Partitioning) -> f64 {
    let measured = results.groups(partitioning, 16);
    measured.and_then(|measured| measured.group_times.iter().max()).map_or(f64::NAN, Duration::as_secs_f64)
}

fn adaptive_is_faster(results: &Results) -> Statement {
    let time = |partitioning| time(results, partitioning, 16).as_secs_f64();
    Statement {
        text: "adaptive partitionings are always faster than static ones",
        holds: time(AdaptivePointQuad) < time(StaticPointQuad) && time(AdaptiveKdTree) < time(StaticKdTree),
        numbers: format!(
            "16 groups, ms: {}; the slowest group alone: {}",
            listed(SPATIAL.map(|partitioning| (partitioning, 1e3 * time(partitioning)))),
            listed(SPATIAL.map(|partitioning| (partitioning, 1e3 * slowest(results, partitioning))))
        ),
    }
}

fn quads_gain_most(results: &Results) -> Statement {
    let gain = |fixed, adaptive| slowest(results, fixed) / slowest(results, adaptive);
    let (quads, trees) = (gain(StaticPointQuad, AdaptivePointQuad), gain(StaticKdTree, AdaptiveKdTree));
    Statement {
        text: "adaptive point quads gain more over static ones than k-d trees do",
        holds: quads > trees,
        numbers: format!("static / adaptive, slowest group: point quads {quads:.2}, k-d trees {trees:.2}"),
    }
}

fn quads_are_uneven(results: &Results) -> Statement {
    let largest =
        |partitioning| results.groups(partitioning, 16).map_or(f64::NAN, |measured| measured.largest);
    let others = [StaticKdTree, AdaptivePointQuad, AdaptiveKdTree];
    Statement {
        text: "static point quads are the least balanced",
        holds: others.iter().all(|other| largest(*other) < largest(StaticPointQuad)),
        numbers: format!(
            "largest of 16 groups / equal groups: {}",
            listed(SPATIAL.map(|partitioning| (partitioning, largest(partitioning))))
        ),
    }
}

fn near_round_robin(results: &Results) -> Statement {
    let ratio = |partitioning| {
        time(results, partitioning, 16).as_secs_f64() / time(results, RoundRobin, 16).as_secs_f64()
    };
    let others = [StaticKdTree, AdaptivePointQuad, AdaptiveKdTree];
    Statement {
        text: "all but static point quads are within one order of magnitude of round robin's time",
        holds: others.iter().all(|other| ratio(*other) < 10.0),
        numbers: listed(SPATIAL.map(|partitioning| (partitioning, ratio(partitioning)))),
    }
}

fn turns_lose(results: &Results) -> Statement {
    let lost = |partitioning| 1.0 - saved(results.groups(partitioning, 16)) / serial(results, 1);
    Statement {
        text: "round robin's savings fall clearly with the number of groups, the others' hardly",
        holds: lost(RoundRobin) > 0.1 && SPATIAL.iter().all(|other| lost(*other) < lost(RoundRobin) / 2.0),
        numbers: format!(
            "lost with 16 groups: {}",
            listed(
                [RoundRobin]
                    .into_iter()
                    .chain(SPATIAL)
                    .map(|partitioning| (partitioning, lost(partitioning)))
            )
        ),
    }
}

fn keeps(results: &Results, every: usize) -> [(Partitioning, f64); 4] {
    SPATIAL
        .map(|partitioning| (partitioning, saved(results.load(partitioning, every)) / serial(results, every)))
}

fn full_load_keeps(results: &Results) -> Statement {
    let kept = keeps(results, 1);
    Statement {
        text: "with the full load all four keep at least 95 % of the savings of one group",
        holds: kept.iter().all(|(_, kept)| *kept >= 0.95),
        numbers: listed(kept),
    }
}

fn small_load_keeps(results: &Results) -> Statement {
    let kept = keeps(results, 16);
    Statement {
        text: "with a sixteenth of the load they keep about 90 %",
        holds: kept.iter().all(|(_, kept)| *kept >= 0.88),
        numbers: listed(kept),
    }
}

fn nearly_equal(results: &Results) -> Statement {
    let saved = SPATIAL.map(|partitioning| (partitioning, saved(results.load(partitioning, 1))));
    let (least, most) = saved
        .iter()
        .fold((f64::MAX, f64::MIN), |(least, most), (_, saved)| (least.min(*saved), most.max(*saved)));
    Statement {
        text: "the savings of the four are nearly equal",
        holds: most - least < 0.02,
        numbers: listed(saved),
    }
}

fn savings_rise(results: &Results) -> Statement {
    let rises = |partitioning| {
        LOADS.map(|every| saved(results.load(partitioning, every))).is_sorted_by(|less, more| less < more)
    };
    let of_one = LOADS.map(|every| serial(results, every));
    Statement {
        text: "savings rise with the load",
        holds: SPATIAL.into_iter().all(rises) && of_one.is_sorted_by(|less, more| less < more),
        numbers: format!("one group: {}", of_one.map(|saved| format!("{saved:.3}")).join(", ")),
    }
}

fn understated(results: &Results) -> Statement {
    let serial = results.serial(1);
    let numbers = serial.map_or((f64::NAN, f64::NAN, f64::NAN), |serial| {
        (serial.savings.of_distance(), serial.true_savings, 100.0 * serial.underestimated)
    });
    let (reported, by_tours, underestimated) = numbers;
    Statement {
        text: "reported savings understate the true ones",
        holds: reported <= by_tours,
        numbers: format!(
            "reported {reported:.3}, by the shortest tours {by_tours:.3}; but {underestimated:.1} % of the shares \
             are longer than reported"
        ),
    }
}

fn best(results: &Results) -> Statement {
    let times =
        SPATIAL.map(|partitioning| (partitioning, 1e3 * time(results, partitioning, 16).as_secs_f64()));
    let fastest = times.iter().min_by(|a, b| a.1.total_cmp(&b.1)).map(|(partitioning, _)| *partitioning);
    Statement {
        text: "adaptive k-d trees are the best overall: the fastest, as savings are about the same",
        holds: fastest == Some(AdaptiveKdTree),
        numbers: format!("16 groups, ms: {}", listed(times)),
    }
}
