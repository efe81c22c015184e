//! Trials of the rating, short and as fast as possible, with all copies checked.

use crate::reference;

use std::sync::Arc;

use tidemill_engine::CyclePolicy;
use tidemill_linear_road::InputSplit;
use tidemill_linear_road::answers::{ACCIDENTS, BALANCES, EXPENDITURES, TOLLS};
use tidemill_linear_road::generator::Generator;
use tidemill_linear_road::rating::search::{SearchEvent, SearchOptions, search};
use tidemill_linear_road::rating::{BaseGroup, BaseOptions, Pace, RatingError, TrialOptions, run_trial};

fn base_options() -> BaseOptions {
    BaseOptions { expressways: 2, minutes_before: 4, minutes: 2, workers: 2, ..BaseOptions::default() }
}

fn trial(expressways: u16, workers: usize, pace: Pace) -> TrialOptions {
    TrialOptions {
        expressways,
        workers,
        seconds: 90,
        pace,
        ticks_per_second: 50,
        check_every: 1,
        cycles: CyclePolicy::default(),
        split: if workers == 2 { InputSplit::Auto } else { InputSplit::Parasplit },
        stop: Arc::default(),
    }
}

#[test]
fn the_right_answers_of_the_base_group_are_those_of_the_reference() {
    let options = base_options();
    let base = BaseGroup::prepare(&options, |_| {}).unwrap();
    let mut generator = Generator::new(options.traffic()).unwrap();
    let mut events = Vec::new();
    while generator.next_second(&mut events) {}
    let expected = reference::answers(&events, generator.history());
    let from = options.minutes_before * 60;

    let mut tolls: Vec<_> = base.right.kinds[TOLLS].clone();
    tolls.sort_by_key(|answer| (answer.1, answer.0));
    let expected_tolls: Vec<_> = expected.type0.iter().filter(|toll| toll.time >= from).collect();
    assert_eq!(tolls.len(), expected_tolls.len());
    for (found, toll) in tolls.iter().zip(expected_tolls) {
        assert_eq!(*found, (toll.vid.into(), toll.time, toll.lav, toll.toll));
    }
    let due = |times: Vec<u16>| times.into_iter().filter(|time| *time >= from).count();
    let accidents = due(expected.type1.iter().map(|notice| notice.time).collect());
    assert_eq!(base.right.kinds[ACCIDENTS].len(), accidents);
    let expenditures = due(expected.type3.iter().map(|answer| answer.time).collect());
    assert_eq!(base.right.kinds[EXPENDITURES].len(), expenditures);
    for (qid, time, _, balance) in &base.right.kinds[BALANCES] {
        let answer = expected.type2.iter().find(|answer| answer.qid == *qid).unwrap();
        assert!(answer.permitted.contains(&(i64::from(*time), *balance as _)), "query {qid}");
    }
}

#[test]
fn clones_answer_as_the_base_group_does() {
    let base = BaseGroup::prepare(&base_options(), |_| {}).unwrap();
    for (expressways, workers) in [(2, 1), (9, 2), (40, 2)] {
        let result = run_trial(&base, &trial(expressways, workers, Pace::Max), |_, _| {}).unwrap();
        assert_eq!(result.expressways, u32::from(expressways.next_multiple_of(2)));
        assert_eq!((result.wrong, result.missing), (0, 0));
        let answers: u64 = result.counts.kinds.iter().map(|kind| kind.answers).sum();
        assert_eq!(result.checked, answers);
        assert!(answers > 0);
    }
}

#[test]
fn wrong_and_missing_answers_are_found() {
    let mut base = BaseGroup::prepare(&base_options(), |_| {}).unwrap();
    let mut right = (*base.right).clone();
    right.kinds[TOLLS][100].3 += 2;
    let extra = *right.kinds[BALANCES].first().unwrap();
    right.kinds[BALANCES].insert(0, extra);
    base.right = Arc::new(right);
    let result = run_trial(&base, &trial(4, 2, Pace::Max), |_, _| {}).unwrap();
    assert!(!result.is_valid());
    assert!(result.wrong >= 2, "{}", result.wrong);
    assert_eq!(result.missing, 2);
}

#[test]
fn a_search_ends_with_the_most_that_it_may_try() {
    let base = BaseGroup::prepare(&BaseOptions { minutes_before: 1, ..base_options() }, |_| {}).unwrap();
    let options = SearchOptions {
        from: 4,
        to: 9,
        precision: 0.1,
        trial_seconds: 1,
        final_seconds: 2,
        is_search: true,
        trial: trial(0, 2, Pace::Real),
    };
    let mut tried = Vec::new();
    let found = search(&base, &options, |event| {
        if let SearchEvent::Begins { expressways, .. } = event {
            tried.push(expressways);
        }
    });
    // Eight expressways at their first minutes' rates are a few hundred reports a second.
    assert_eq!(found.unwrap().unwrap().expressways, 8);
    assert_eq!(tried, [4, 8, 8]);
}

#[test]
fn too_many_expressways_are_refused() {
    let base = BaseGroup::prepare(&BaseOptions { minutes_before: 1, ..base_options() }, |_| {}).unwrap();
    for expressways in [0, u16::MAX] {
        let result = run_trial(&base, &trial(expressways, 1, Pace::Max), |_, _| {});
        assert!(matches!(result, Err(RatingError::Options(_))));
    }
}
