//! The reference implementation against the worked example of the specification (section 14).

use crate::reference;

use crate::reference::{Answers, Second};
use tidemill_linear_road::event::{BalanceQuery, Event, Report, SEGMENT_FEET};

/// A report from the middle of a segment of expressway 0, direction 0.
fn report(time: u16, vid: u32, seg: u8, lane: u8, speed: u8) -> Event {
    let pos = u32::from(seg) * SEGMENT_FEET + SEGMENT_FEET / 2;
    Event::Report(Report { time, vid, speed, xway: 0, lane, dir: 0, seg, pos })
}

/// `(Lav, Toll)` as a car was told at a second.
fn told(answers: &Answers, vid: u32, time: u16) -> Option<(i64, u64)> {
    answers.type0.iter().find(|toll| (toll.vid, toll.time) == (vid, time)).map(|toll| (toll.lav, toll.toll))
}

#[test]
fn tolls_are_told_and_charged() {
    let in_segment_10 = (0..60).map(|i| report(i as u16, 1000 + i, 10, 1, 30));
    let in_segment_11 = (0..70).map(|i| report(60 + i as u16 % 60, 2000 + i, 11, 1, 30));
    let car_7 = [
        report(90, 7, 10, 0, 30),
        report(120, 7, 11, 1, 30),
        report(150, 7, 12, 1, 30),
        report(180, 7, 12, 4, 30),
    ];
    let query = Event::Balance(BalanceQuery { time: 150, vid: 7, qid: 1 });
    let events: Vec<Event> = in_segment_10.chain(in_segment_11).chain(car_7).chain([query]).collect();

    let answers = reference::answers(&events, &[]);

    assert_eq!(told(&answers, 7, 90), Some((30, 200)));
    assert_eq!(told(&answers, 7, 120), Some((30, 800)));
    assert_eq!(told(&answers, 7, 150), Some((-1, 0)));
    assert_eq!(told(&answers, 7, 180), None);
    let charged: Vec<(u16, u64)> = answers
        .charges
        .iter()
        .filter(|charge| charge.vid == 7)
        .map(|charge| (charge.time, charge.toll))
        .collect();
    assert_eq!(charged, [(120, 200), (150, 800)]);
    let right = |second: Second| match second {
        90..=119 => (second, 0),
        120..=149 => (second, 200),
        _ => (second, 1000),
    };
    assert_eq!(answers.type2[0].permitted, (90..=150).map(right).collect::<Vec<_>>());
}

#[test]
fn an_accident_is_told_upstream_from_the_minute_after() {
    let stands = |vid: u32, from: u16| (0..=20).map(move |i| report(from + 30 * i, vid, 50, 1, 0));
    let drives_on = [report(630, 1, 51, 1, 20), report(640, 2, 51, 1, 20)];
    let mut events: Vec<Event> = stands(1, 0).chain(stands(2, 10)).chain(drives_on).collect();
    // One car enters each of the segments 45 to 51 in every second up to 779, in lanes 0 to 3.
    for (seg, second) in (45..=51u8).flat_map(|seg| (0..780).map(move |second| (seg, second))) {
        let vid = 10_000 + u32::from(seg) * 1000 + u32::from(second);
        events.push(report(second, vid, seg, (second % 4) as u8, 60));
    }

    let answers = reference::answers(&events, &[]);

    assert_eq!(answers.accidents.len(), 1);
    let accident = &answers.accidents[0];
    assert_eq!((accident.begin, accident.end), (100, 630));
    assert_eq!(accident.vids, [1, 2].into());
    for seg in 45..=51u8 {
        let first_vid = 10_000 + u32::from(seg) * 1000;
        let notices =
            answers.type1.iter().filter(|notice| (first_vid..first_vid + 1000).contains(&notice.vid));
        let seconds: Vec<u16> = notices.clone().map(|notice| notice.time).collect();
        let expected: Vec<u16> = if (46..=50).contains(&seg) { (120..720).collect() } else { Vec::new() };
        assert_eq!(seconds, expected, "segment {seg}");
        assert!(notices.clone().all(|notice| notice.seg == 50));
    }
}

#[test]
fn no_toll_where_an_accident_is_ahead() {
    let stands = |vid: u32, from: u16| (0..4).map(move |i| report(from + 30 * i, vid, 50, 1, 0));
    let crowd =
        |seg: u8| (0..60).map(move |i| report(60 + i, 1000 * u32::from(seg) + u32::from(i), seg, 1, 30));
    let entering = [45, 46].map(|seg| report(120, 100 + u32::from(seg), seg, 0, 30));
    let events: Vec<Event> =
        stands(1, 0).chain(stands(2, 10)).chain(crowd(45)).chain(crowd(46)).chain(entering).collect();

    let answers = reference::answers(&events, &[]);

    assert_eq!(told(&answers, 145, 120), Some((30, 200)), "5 segments before the accident");
    assert_eq!(told(&answers, 146, 120), Some((30, 0)), "4 segments before the accident");
}
