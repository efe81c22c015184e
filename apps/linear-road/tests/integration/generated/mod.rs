//! What the generated events must satisfy: the "properties of valid data" of section 2, checked report by report,
//! and the counts that section 13 gives for comparison.

use std::collections::{BTreeMap, BTreeSet};

use tidemill_linear_road::event::{ENTRY_LANE, EXIT_LANE, Event, POSITION_MAX, Report, SEGMENT_FEET};
use tidemill_linear_road::generator::{Generator, GeneratorConfig};

/// Reports from one place that make a stopped car (section 5).
const STOPPED_REPORTS: u32 = 4;

/// A car's last report, and how many there have been from its place without a break.
#[derive(Clone, Copy)]
struct Last {
    report: Report,
    from_same_place: u32,
}

/// Expressway, direction, lane and position.
pub type Place = (u16, u8, u8, u32);

/// The counts over a run whose events were all found valid.
#[derive(Default)]
pub struct Run {
    cars: Vec<Option<Last>>,
    now: u16,
    pub expressways: u16,
    /// Position reports and queries by type.
    pub by_type: [u64; 5],
    pub lanes: [u64; 5],
    /// Reports by tens of miles per hour.
    pub speeds: [u64; 11],
    /// All events by second.
    pub seconds: Vec<u64>,
    pub trips: u64,
    pub exits: u64,
    pub returns: u64,
    pub returns_elsewhere: u64,
    /// The second of the 4th report from one place, by place and car.
    pub stops: BTreeMap<Place, BTreeMap<u32, u16>>,
    /// What the type 3 queries asked for: vehicle, day, expressway.
    pub asked: BTreeSet<(u32, u8, u16)>,
}

impl Run {
    /// Generates a run, checking everything.
    pub fn of(config: GeneratorConfig) -> (Run, Generator) {
        let mut generator = Generator::new(config).expect("a valid configuration");
        let mut run = Run { expressways: config.expressways, ..Run::default() };
        let mut events = Vec::new();
        while generator.next_second(&mut events) {
            let second = run.seconds.len();
            run.seconds.push(events.len() as u64);
            for event in events.drain(..) {
                assert_eq!(usize::from(event.time()), second, "the time of {event:?}");
                run.now = event.time();
                run.event(&event);
            }
        }
        assert!(events.is_empty() && !generator.next_second(&mut events), "the end is the end");
        assert_eq!(run.seconds.len(), config.duration_s() as usize);
        run.check_end();
        (run, generator)
    }

    /// Places at which at least two cars stood for four reports.
    pub fn accidents(&self) -> usize {
        self.stops.values().filter(|cars| cars.len() >= 2).count()
    }

    pub fn mean_rate(&self, seconds: std::ops::Range<usize>) -> f64 {
        let length = seconds.len() as f64;
        self.seconds[seconds].iter().sum::<u64>() as f64 / length
    }

    pub fn events(&self) -> u64 {
        self.by_type.iter().sum()
    }

    fn event(&mut self, event: &Event) {
        match event {
            Event::Report(report) => self.report(report),
            Event::Balance(query) => self.query(2, query.vid, query.qid),
            Event::Expenditure(query) => {
                assert!((1..=69).contains(&query.day) && query.xway < self.expressways, "{query:?}");
                self.asked.insert((query.vid, query.day, query.xway));
                self.query(3, query.vid, query.qid);
            }
            Event::TravelTime(query) => {
                assert!(query.xway < self.expressways, "{query:?}");
                assert!(query.seg_from < 100 && query.seg_to < 100, "{query:?}");
                assert!((1..=7).contains(&query.day_of_week), "{query:?}");
                assert!((1..=1440).contains(&query.minute_of_day), "{query:?}");
                self.query(4, query.vid, query.qid);
            }
        }
    }

    fn query(&mut self, kind: usize, vid: u32, qid: u64) {
        let last = self.cars[vid as usize].expect("the car that asks has reported");
        assert_eq!(last.report.time, self.now, "the report comes before the query in the same second");
        assert_eq!(qid, self.by_type[2..].iter().sum::<u64>(), "query ids are dense");
        self.by_type[kind] += 1;
    }

    fn report(&mut self, report: &Report) {
        check_ranges(report, self.expressways);
        self.by_type[0] += 1;
        self.lanes[usize::from(report.lane)] += 1;
        self.speeds[usize::from(report.speed) / 10] += 1;
        self.exits += u64::from(report.lane == EXIT_LANE);
        let vid = report.vid as usize;
        if vid >= self.cars.len() {
            assert_eq!(vid, self.cars.len(), "vehicle ids are dense, in the order of entry");
            self.cars.push(None);
        }
        let last = self.cars[vid];
        let goes_on = last.filter(|last| last.report.lane != EXIT_LANE);
        let mut from_same_place = 1;
        if let Some(last) = goes_on {
            check_step(&last.report, report);
            if place(&last.report) == place(report) {
                from_same_place += last.from_same_place;
            }
        } else {
            self.begin_trip(last.map(|last| last.report), report);
        }
        if from_same_place == STOPPED_REPORTS {
            self.stops.entry(place(report)).or_default().insert(report.vid, report.time);
        }
        self.cars[vid] = Some(Last { report: *report, from_same_place });
    }

    fn begin_trip(&mut self, before: Option<Report>, report: &Report) {
        assert_eq!(report.lane, ENTRY_LANE, "the first report of a trip: {report:?}");
        self.trips += 1;
        if let Some(before) = before {
            assert!(report.time - before.time > 60, "came back too early: {before:?}, {report:?}");
            self.returns += 1;
            self.returns_elsewhere += u64::from(before.xway != report.xway);
        }
    }

    /// No trip stops in the middle of the road.
    fn check_end(&self) {
        let end = self.seconds.len();
        for last in self.cars.iter().flatten() {
            let left = last.report.lane == EXIT_LANE;
            assert!(left || usize::from(last.report.time) + 30 >= end, "got lost: {:?}", last.report);
        }
    }
}

fn place(report: &Report) -> Place {
    (report.xway, report.dir, report.lane, report.pos)
}

fn check_ranges(report: &Report, expressways: u16) {
    assert!(report.xway < expressways && report.dir < 2 && report.lane <= EXIT_LANE, "{report:?}");
    assert!(report.speed <= 100 && report.pos <= POSITION_MAX, "{report:?}");
    assert_eq!(u32::from(report.seg), report.pos / SEGMENT_FEET, "{report:?}");
}

/// Two successive reports of one trip.
fn check_step(before: &Report, report: &Report) {
    assert_eq!(report.time - before.time, 30, "{before:?}, {report:?}");
    assert_eq!((report.xway, report.dir), (before.xway, before.dir), "{before:?}, {report:?}");
    let (from, to) = if report.dir == 0 { (before.pos, report.pos) } else { (report.pos, before.pos) };
    assert!(from <= to && to - from <= 4400, "the way between {before:?} and {report:?}");
    let back_to_ramp = report.lane == ENTRY_LANE && before.lane != ENTRY_LANE;
    assert!(!back_to_ramp, "{before:?}, {report:?}");
}
