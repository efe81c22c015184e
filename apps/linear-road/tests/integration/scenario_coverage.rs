//! The scenarios really meet the edges of the rules: counted over a fixed sample of them.

use crate::reference;
use crate::scenarios;

use std::collections::BTreeMap;

use crate::reference::accidents::Accident;
use crate::reference::tolls::toll;
use crate::reference::trips::{Entry, enters_segment, opens_new_trip, with_previous};
use crate::reference::{Answers, Road, Second, Segment, minute};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use tidemill_linear_road::event::{EXIT_LANE, Event, Report, TIME_MAX_S};

const SAMPLES: usize = 300;
/// All samples together meet each edge at least this often.
const MET_MIN: usize = 20;

/// One scenario and what the reference says about it.
struct Sample {
    events: usize,
    reports: BTreeMap<u32, Vec<Report>>,
    road: Road,
    answers: Answers,
    expenditure_queries: usize,
}

/// What is counted, and how.
type Edge = (&'static str, fn(&Sample) -> usize);

#[test]
fn every_edge_is_met() {
    let samples = samples(scenarios::scenario());
    let events: Vec<usize> = samples.iter().map(|sample| sample.events).collect();
    println!(
        "{} events on average, {:?} at most",
        events.iter().sum::<usize>() / SAMPLES,
        events.iter().max()
    );
    assert_met(&samples, &[TOLLS, TRIPS, ACCIDENTS, NOTICES, QUERIES].concat());
}

#[test]
fn every_gap_is_met() {
    let samples = samples(scenarios::scenario_with_gaps());
    assert_met(&samples, GAPS);
}

fn samples(scenarios: impl Strategy<Value = Vec<Event>>) -> Vec<Sample> {
    let mut runner = TestRunner::deterministic();
    (0..SAMPLES)
        .map(|_| scenarios.new_tree(&mut runner).expect("no filter rejects").current())
        .map(|events| sample(&events))
        .collect()
}

fn sample(events: &[Event]) -> Sample {
    let mut reports: BTreeMap<u32, Vec<Report>> = BTreeMap::new();
    for event in events {
        if let Event::Report(report) = event {
            reports.entry(report.vid).or_default().push(*report);
        }
    }
    Sample {
        events: events.len(),
        reports,
        road: Road::new(events),
        answers: reference::answers(events, &scenarios::history(events)),
        expenditure_queries: events.iter().filter(|event| matches!(event, Event::Expenditure(_))).count(),
    }
}

/// Prints all counts, then fails if one is too small.
fn assert_met(samples: &[Sample], edges: &[Edge]) {
    let met: Vec<(usize, &str)> =
        edges.iter().map(|(name, count)| (samples.iter().map(count).sum(), *name)).collect();
    for (count, name) in &met {
        println!("{count:8} {name}");
    }
    let missed: Vec<_> = met.iter().filter(|(count, _)| *count < MET_MIN).collect();
    assert!(missed.is_empty(), "met less than {MET_MIN} times in {SAMPLES} scenarios: {missed:?}");
}

/// Section 6.
const TOLLS: &[Edge] = &[
    ("tolls told", |s| s.answers.type0.iter().filter(|told| told.toll > 0).count()),
    ("tolls charged", |s| s.answers.charges.len()),
    ("tolls of 51 cars", |s| s.answers.type0.iter().filter(|told| told.toll == 2).count()),
    ("no toll of 50 slow cars", |s| crowd(s, |cars, lav| cars == 50 && (0..40).contains(&lav))),
    ("crowds of Lav 39", |s| crowd(s, |cars, lav| cars > 50 && lav == 39)),
    ("crowds of Lav 40", |s| crowd(s, |cars, lav| cars > 50 && lav == 40)),
    ("Lav over an empty minute", |s| entries(s).filter(|entry| lav_over_empty_minute(s, entry)).count()),
    ("no toll because of an accident", |s| {
        let no_toll = |entry: &&Entry| toll_at(s, entry) == 0;
        entries(s)
            .filter(no_toll)
            .filter(|entry| is_crowd(s, entry, |cars, lav| cars > 50 && lav < 40))
            .count()
    }),
    ("tolls charged by an exit", |s| {
        let by_exit = |vid, time| report_at(s, vid, time).is_some_and(|report| report.lane == EXIT_LANE);
        s.answers.charges.iter().filter(|charge| by_exit(charge.vid, charge.time)).count()
    }),
    ("tolls dropped by an exit", |s| {
        let drops = |report: &Report| report.lane == EXIT_LANE && told_before(s, report) > 0;
        pairs(s).filter(|(before, after)| !enters_segment(Some(before), after) && drops(after)).count()
    }),
    ("tolls dropped, and the car came back", |s| {
        let dropped = |entries: &&[Entry]| {
            entries[1].opens_new_trip
                && entries[0].report.vid == entries[1].report.vid
                && entries[0].report.lane != EXIT_LANE
                && toll_at(s, &entries[0]) > 0
        };
        s.road.entries.windows(2).filter(dropped).count()
    }),
];

/// Section 4.
const TRIPS: &[Edge] = &[
    ("entries in the last second of a minute", |s| {
        entries(s).filter(|entry| entry.report.time % 60 == 59).count()
    }),
    ("entries in the first second of a minute", |s| {
        entries(s).filter(|entry| entry.report.time % 60 == 0).count()
    }),
    ("returns on the same expressway", |s| returns(s, |before, after| before.xway == after.xway)),
    ("returns on another expressway", |s| returns(s, |before, after| before.xway != after.xway)),
    ("returns into the segment of the exit", |s| {
        returns(s, |before, after| Segment::of(before) == Segment::of(after))
    }),
    ("returns after 61 s", |s| returns(s, |before, after| after.time - before.time == 61)),
    ("entries in the exit lane", |s| {
        pairs(s)
            .filter(|(before, after)| after.lane == EXIT_LANE && enters_segment(Some(before), after))
            .count()
    }),
    ("exits from the segment that the car was in", |s| {
        pairs(s)
            .filter(|(before, after)| after.lane == EXIT_LANE && !enters_segment(Some(before), after))
            .count()
    }),
];

/// Section 5.
const ACCIDENTS: &[Edge] = &[
    ("accidents of 2 cars", |s| accidents(s, |accident| accident.vids.len() == 2)),
    ("accidents of 3 cars", |s| accidents(s, |accident| accident.vids.len() == 3)),
    ("accidents in direction 0", |s| accidents(s, |accident| accident.place.dir == 0)),
    ("accidents in direction 1", |s| accidents(s, |accident| accident.place.dir == 1)),
    ("accidents at the west end", |s| accidents(s, |accident| accident.place.seg < 5)),
    ("accidents at the east end", |s| accidents(s, |accident| accident.place.seg > 94)),
    ("accidents on the entry ramp", |s| accidents(s, |accident| accident.place.lane == 0)),
    ("accidents that begin in the first second of a minute", |s| {
        accidents(s, |accident| accident.begin % 60 == 0)
    }),
    ("accidents that outlast one of their cars", |s| {
        accidents(s, |accident| {
            accident.vids.iter().any(|vid| last_from(s, accident, *vid) + 30 < accident.end)
        })
    }),
    // Section 12, number 24.
    ("accidents cleared in the second of a partner's report from there", |s| {
        let reports_at_end = |accident: &Accident| {
            let end = accident.end as u16;
            let there = |vid: &&u32| {
                report_at(s, **vid, end).is_some_and(|report| {
                    report.pos == accident.place.pos && report.lane == accident.place.lane
                })
            };
            let elsewhere = |vid: &&u32| report_at(s, **vid, end).is_some() && !there(vid);
            accident.vids.iter().any(|vid| there(&vid)) && accident.vids.iter().any(|vid| elsewhere(&vid))
        };
        accidents(s, reports_at_end)
    }),
    ("accidents that all cars leave in one second", |s| {
        accidents(s, |accident| {
            accident.vids.iter().all(|vid| last_from(s, accident, *vid) + 30 == accident.end)
        })
    }),
    ("accidents at the same time in one segment", |s| {
        let pair = |a: &Accident, b: &Accident| {
            (a.place.xway, a.place.dir, a.place.seg) == (b.place.xway, b.place.dir, b.place.seg)
                && a.place != b.place
                && a.begin < b.end
                && b.begin < a.end
        };
        let all = &s.answers.accidents;
        all.iter().map(|a| all.iter().filter(|b| pair(a, b)).count()).sum::<usize>() / 2
    }),
];

/// Section 7.
const NOTICES: &[Edge] = &[
    ("notices", |s| s.answers.type1.len()),
    ("notices of the segment entered", |s| notices(s, |report, seg| report.seg == seg)),
    ("notices from 4 segments upstream", |s| notices(s, |report, seg| report.seg.abs_diff(seg) == 4)),
    ("notices with the reach clipped in direction 0", |s| {
        notices(s, |report, _| report.dir == 0 && report.seg > 95)
    }),
    ("notices with the reach clipped in direction 1", |s| {
        notices(s, |report, _| report.dir == 1 && report.seg < 4)
    }),
    ("notices with two segments to choose from", |s| {
        let in_reach = |report: &Report| {
            Segment::of(report)
                .in_reach()
                .filter(|ahead| s.road.accidents.acc(minute(report.time) - 1, *ahead))
                .count()
        };
        notices(s, |report, _| in_reach(report) > 1)
    }),
    ("notices after the accident was cleared", |s| {
        notices(s, |report, seg| {
            let stands = |accident: &Accident| {
                accident.place.seg == seg
                    && (accident.place.xway, accident.place.dir) == (report.xway, report.dir)
                    && accident.end > Second::from(report.time)
            };
            !s.answers.accidents.iter().any(stands)
        })
    }),
];

/// Section 8.
const QUERIES: &[Edge] = &[
    ("balances above 0", |s| balances(s, |permitted| permitted[60].1 > 0)),
    ("balances with more than one answer", |s| balances(s, |permitted| permitted[0].1 != permitted[60].1)),
    ("balances in the second of a charge", |s| balances(s, |permitted| permitted[59].1 != permitted[60].1)),
    ("balances before the first minute is over", |s| balances(s, |permitted| permitted[0].0 < 0)),
    ("balances of cars that never report", |s| {
        s.answers.type2.iter().filter(|answer| !s.reports.contains_key(&answer.vid)).count()
    }),
    ("balances of cars charged on two expressways", |s| {
        s.answers.type2.iter().filter(|answer| charged_on_two(s, answer.vid)).count()
    }),
    ("expenditures", |s| s.answers.type3.len()),
    ("expenditures without a row", |s| s.expenditure_queries - s.answers.type3.len()),
];

/// Section 4, where reports are further apart than valid data has them.
const GAPS: &[Edge] = &[
    ("gaps of 31 s to 59 s", |s| gaps(s, |before, after| (31..60).contains(&(after.time - before.time)))),
    ("gaps of 60 s", |s| gaps(s, |before, after| after.time - before.time == 60)),
    ("gaps of 61 s", |s| gaps(s, |before, after| after.time - before.time == 61)),
    ("gaps in a crash", |s| {
        gaps(s, |before, after| (before.pos, before.lane) == (after.pos, after.lane) && before.speed == 0)
    }),
    ("gaps that drop a toll", |s| {
        gaps(s, |before, after| opens_new_trip(Some(before), after) && told_before(s, after) > 0)
    }),
];

/// Entries that are told a toll.
fn entries(sample: &Sample) -> impl Iterator<Item = &Entry> {
    sample.road.entries.iter().filter(|entry| entry.report.lane != EXIT_LANE)
}

/// Each report of a car with the one before it.
fn pairs(sample: &Sample) -> impl Iterator<Item = (&Report, &Report)> {
    let all = sample.reports.values().flat_map(|reports| with_previous(reports));
    all.filter_map(|(before, after)| Some((before?, after)))
}

fn returns(sample: &Sample, wanted: impl Fn(&Report, &Report) -> bool) -> usize {
    pairs(sample).filter(|(before, _)| before.lane == EXIT_LANE).filter(|(b, a)| wanted(b, a)).count()
}

fn gaps(sample: &Sample, wanted: impl Fn(&Report, &Report) -> bool) -> usize {
    let longer = |before: &Report, after: &Report| before.lane != EXIT_LANE && after.time - before.time > 30;
    pairs(sample).filter(|(b, a)| longer(b, a)).filter(|(b, a)| wanted(b, a)).count()
}

fn accidents(sample: &Sample, wanted: impl Fn(&Accident) -> bool) -> usize {
    sample.answers.accidents.iter().filter(|accident| wanted(accident)).count()
}

fn balances(sample: &Sample, wanted: impl Fn(&[(Second, u64)]) -> bool) -> usize {
    sample.answers.type2.iter().filter(|answer| wanted(&answer.permitted)).count()
}

/// Counts accident notices by the entering report and the segment told.
fn notices(sample: &Sample, wanted: impl Fn(&Report, u8) -> bool) -> usize {
    let told = sample.answers.type1.iter().filter_map(|notice| {
        let report = report_at(sample, notice.vid, notice.time)?;
        Some((report, notice.seg))
    });
    told.filter(|(report, seg)| wanted(report, *seg)).count()
}

fn crowd(sample: &Sample, wanted: fn(u64, i64) -> bool) -> usize {
    entries(sample).filter(|entry| is_crowd(sample, entry, wanted)).count()
}

/// Looks at `Cars` of the minute before and `Lav` where a car enters.
fn is_crowd(sample: &Sample, entry: &Entry, wanted: fn(u64, i64) -> bool) -> bool {
    let (minute, segment) = (minute(entry.report.time), Segment::of(&entry.report));
    wanted(sample.road.statistics.cars(minute - 1, segment), sample.road.statistics.lav(minute, segment))
}

fn lav_over_empty_minute(sample: &Sample, entry: &Entry) -> bool {
    let (minute, segment) = (minute(entry.report.time), Segment::of(&entry.report));
    let seen: Vec<bool> =
        (minute - 5..minute).map(|earlier| sample.road.statistics.cars(earlier, segment) > 0).collect();
    let first = seen.iter().position(|seen| *seen);
    let last = seen.iter().rposition(|seen| *seen);
    first.zip(last).is_some_and(|(first, last)| seen[first..last].contains(&false))
}

fn toll_at(sample: &Sample, entry: &Entry) -> u64 {
    toll(&sample.road, minute(entry.report.time), Segment::of(&entry.report))
}

/// The toll that the car was told last before a report.
fn told_before(sample: &Sample, report: &Report) -> u64 {
    let earlier = entries(sample)
        .filter(|entry| entry.report.vid == report.vid && entry.report.time < report.time)
        .last();
    earlier.map_or(0, |entry| toll_at(sample, entry))
}

fn report_at(sample: &Sample, vid: u32, time: u16) -> Option<&Report> {
    sample.reports.get(&vid)?.iter().find(|report| report.time == time)
}

/// The second of a car's last report from an accident's place.
fn last_from(sample: &Sample, accident: &Accident, vid: u32) -> Second {
    let there = |report: &&Report| {
        (report.pos, report.lane, report.xway, report.dir)
            == (accident.place.pos, accident.place.lane, accident.place.xway, accident.place.dir)
    };
    let last = sample.reports[&vid].iter().rfind(there);
    Second::from(last.map_or(TIME_MAX_S, |report| report.time))
}

fn charged_on_two(sample: &Sample, vid: u32) -> bool {
    let mut xways: Vec<u16> = sample
        .answers
        .charges
        .iter()
        .filter(|charge| charge.vid == vid)
        .filter_map(|charge| Some(report_at(sample, vid, charge.time)?.xway))
        .collect();
    xways.sort();
    xways.dedup();
    xways.len() > 1
}
