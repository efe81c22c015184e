//! The reference implementation at edges of the rules that the shared data set does not have, each worked out by
//! hand from the specification.

use crate::reference;

use crate::reference::Answers;
use tidemill_linear_road::event::{Event, Report, SEGMENT_FEET};

/// A report from the middle of a segment of expressway 0.
fn report(time: u16, vid: u32, dir: u8, seg: u8, lane: u8) -> Event {
    let pos = u32::from(seg) * SEGMENT_FEET + SEGMENT_FEET / 2;
    Event::Report(Report { time, vid, speed: 30, xway: 0, lane, dir, seg, pos })
}

/// This many reports of a car from one place, in lane 2.
fn stands(vid: u32, from: u16, reports: u16, dir: u8, seg: u8) -> impl Iterator<Item = Event> {
    (0..reports).map(move |i| report(from + 30 * i, vid, dir, seg, 2))
}

/// 60 cars that report from a segment in each of the minutes 1 to 4.
fn crowd(seg: u8) -> impl Iterator<Item = Event> {
    (0..240).map(move |i| report(i, 1000 * u32::from(seg) + u32::from(i) % 60, 0, seg, 1))
}

/// `(begin, end)` of all accidents.
fn times(answers: &Answers) -> Vec<(i64, i64)> {
    answers.accidents.iter().map(|accident| (accident.begin, accident.end)).collect()
}

/// `(time, toll)` of all charges to a car.
fn charged(answers: &Answers, vid: u32) -> Vec<(u16, u64)> {
    answers
        .charges
        .iter()
        .filter(|charge| charge.vid == vid)
        .map(|charge| (charge.time, charge.toll))
        .collect()
}

#[test]
fn three_cars_are_one_accident_until_fewer_than_two_are_left() {
    let leave = [report(150, 1, 0, 51, 1), report(240, 2, 0, 51, 1)];
    let events: Vec<Event> = stands(1, 0, 5, 0, 50)
        .chain(stands(2, 0, 8, 0, 50))
        .chain(stands(3, 5, 9, 0, 50))
        .chain(leave)
        .collect();
    let answers = reference::answers(&events, &[]);
    assert_eq!(times(&answers), [(90, 240)]);
    assert_eq!(answers.accidents[0].vids, [1, 2, 3].into());
}

#[test]
fn reports_of_one_second_are_simultaneous() {
    // Car 2's last report from there, at 120, comes with the one by which car 1 leaves: it finds no accident.
    let events: Vec<Event> = stands(1, 0, 4, 0, 50)
        .chain([report(120, 1, 0, 51, 1)])
        .chain(stands(2, 0, 5, 0, 50))
        .chain([report(130, 7, 0, 50, 0), report(190, 8, 0, 50, 0)])
        .collect();
    let answers = reference::answers(&events, &[]);
    assert_eq!(times(&answers), [(90, 120)]);
    let told: Vec<u32> = answers.type1.iter().map(|notice| notice.vid).collect();
    assert_eq!(told, [7], "Acc holds in minute 2 only, so cars are told in minute 3 only");
}

#[test]
fn four_reports_with_another_place_between_do_not_stop_a_car() {
    let events: Vec<Event> = stands(1, 0, 6, 0, 50)
        .chain(stands(2, 0, 3, 0, 50))
        .chain([report(90, 2, 0, 50, 3)])
        .chain(stands(2, 120, 3, 0, 50))
        .collect();
    assert_eq!(times(&reference::answers(&events, &[])), []);
}

#[test]
fn the_nearest_of_two_accidents_is_told_and_the_reach_ends_with_the_road() {
    let accident =
        |vid: u32, dir: u8, seg: u8| stands(vid, 0, 4, dir, seg).chain(stands(vid + 1, 0, 4, dir, seg));
    let entering = |vid: u32, dir: u8, seg: u8| report(120, vid, dir, seg, 0);
    let events: Vec<Event> = accident(1, 0, 97)
        .chain(accident(3, 0, 99))
        .chain(accident(5, 1, 2))
        .chain([entering(10, 0, 95), entering(11, 0, 98), entering(12, 0, 92)])
        .chain([entering(20, 1, 1), entering(21, 1, 6), entering(22, 1, 7), entering(23, 0, 2)])
        .collect();
    let answers = reference::answers(&events, &[]);
    let told: Vec<(u32, u8)> = answers.type1.iter().map(|notice| (notice.vid, notice.seg)).collect();
    assert_eq!(told, [(10, 97), (11, 99), (21, 2)]);
}

#[test]
fn an_exit_charges_the_segment_left_and_never_its_own() {
    let first_from_segment = [report(100, 1, 0, 10, 0), report(130, 1, 0, 11, 4)];
    let later_from_segment = [report(100, 2, 0, 10, 0), report(130, 2, 0, 11, 1), report(160, 2, 0, 11, 4)];
    // Comes back after its exit: the toll told at 100 is dropped.
    let comes_back = [
        report(100, 3, 0, 10, 0),
        report(130, 3, 0, 10, 4),
        report(191, 3, 0, 11, 0),
        report(221, 3, 0, 12, 1),
    ];
    let events: Vec<Event> = crowd(10)
        .chain(crowd(11))
        .chain(first_from_segment)
        .chain(later_from_segment)
        .chain(comes_back)
        .collect();
    let answers = reference::answers(&events, &[]);
    assert_eq!(charged(&answers, 1), [(130, 200)]);
    assert_eq!(charged(&answers, 2), [(130, 200)]);
    // In minute 3 segment 11 had the crowd's 60 cars and the two above.
    assert_eq!(charged(&answers, 3), [(221, 2 * 12 * 12)]);
}

#[test]
fn a_gap_of_more_than_60_s_opens_a_new_trip() {
    let with_gap = |vid: u32, gap_s: u16| [report(100, vid, 0, 10, 0), report(100 + gap_s, vid, 0, 12, 1)];
    let events: Vec<Event> = crowd(10).chain(with_gap(1, 60)).chain(with_gap(2, 61)).collect();
    let answers = reference::answers(&events, &[]);
    assert_eq!(charged(&answers, 1), [(160, 200)]);
    assert_eq!(charged(&answers, 2), []);
}
