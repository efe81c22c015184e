//! What the toll operator costs when a minute begins, and otherwise: on one thread, in ticks as a rating has them, without the
//! engine. Processor time, so other programs disturb it little.

use anyhow::Context;
use tidemill_engine::arrow::array::types::{UInt8Type, UInt16Type, UInt32Type};
use tidemill_engine::{Batch, Clock, Operator, Output, Rows, SnapshotReader, ThreadTime};
use tidemill_linear_road::event::{Event, Report};
use tidemill_linear_road::intake::EventColumns;
use tidemill_linear_road::rating::{BaseGroup, feeder};
use tidemill_linear_road::schema;
use tidemill_linear_road::tolls::{ACCIDENT_PORT, CHARGE_PORT, TOLL_PORT, Tolls};

const TICKS_PER_SECOND: usize = 200;
/// Ticks of which one mean is printed.
const TICKS_TOGETHER: usize = 20;
/// The engine tells an operator so many calls ahead what comes.
const CALLS_AHEAD: usize = 2;

/// The seconds of a minute whose parts are printed.
const SECONDS: [usize; 3] = [0, 1, 30];

/// Nanoseconds per report in each tenth of some seconds of a minute, over all minutes that begin in the window.
pub fn measure(base: &BaseGroup, expressways: u16, seconds: usize) -> anyhow::Result<()> {
    let copies = base.copies_for(expressways)?;
    let mut road = Road::clone_of(base, copies)?;
    let mut costs = vec![[Cost::default(); TICKS_PER_SECOND / TICKS_TOGETHER]; 60];
    for second in 0..seconds.min(base.window.seconds()) {
        for tick in 0..TICKS_PER_SECOND {
            let cost = road.tick(base, copies, (second, tick))?;
            // The first minute of the window begins with a state that has just been restored.
            if second >= SECONDS[2] {
                costs[second % 60][tick / TICKS_TOGETHER].add(cost);
            }
        }
    }
    let of_second = |second: usize| costs[second].iter().fold(Cost::default(), |all, cost| all.plus(*cost));
    println!("{:>6} expressways, ns per report by tenth of a second:", road.tolls.len());
    for second in SECONDS {
        let tenths: Vec<String> =
            costs[second].iter().map(|cost| format!("{:.0}", cost.per_report_ns())).collect();
        let all = of_second(second);
        println!("    second {second:>2} of the minute  {:.1}: {}", all.per_report_ns(), tenths.join(" "));
    }
    let mut each: Vec<f64> = (2..60).map(|second| of_second(second).per_report_ns()).collect();
    each.sort_by(f64::total_cmp);
    println!("    seconds 2 to 59        {:.1} (median)", each[each.len() / 2]);
    Ok(())
}

#[derive(Clone, Copy, Default)]
struct Cost {
    time_ns: u64,
    reports: u64,
}

impl Cost {
    fn plus(self, other: Cost) -> Cost {
        Cost { time_ns: self.time_ns + other.time_ns, reports: self.reports + other.reports }
    }

    fn add(&mut self, other: Cost) {
        *self = self.plus(other);
    }

    fn per_report_ns(self) -> f64 {
        self.time_ns as f64 / self.reports.max(1) as f64
    }
}

/// A partition for each expressway, as in a rating.
struct Road {
    tolls: Vec<Box<dyn Operator>>,
    output: Output,
}

impl Road {
    fn clone_of(base: &BaseGroup, copies: u16) -> anyhow::Result<Road> {
        let expressways = u32::from(copies) * u32::from(base.spans.expressways);
        let mut tolls: Vec<Box<dyn Operator>> = Vec::new();
        for partition in 0..expressways {
            let (copy, of) = (partition / u32::from(base.spans.expressways), base.state.tolls.len() as u32);
            let bytes = base.state.tolls[(partition % of) as usize].snapshot_shifted(copy * base.spans.vids);
            let mut clone = Tolls::new(expressways);
            clone.restore(&mut SnapshotReader::new(&bytes)?)?;
            tolls.push(Box::new(clone));
        }
        let ports = [schema::toll_notifications(), schema::accident_notifications(), schema::charges()];
        Ok(Road { tolls, output: Output::new(&ports) })
    }

    /// Gives the operator what falls due in a tick.
    fn tick(&mut self, base: &BaseGroup, copies: u16, at: (usize, usize)) -> anyhow::Result<Cost> {
        let events = base.window.events_of(at.0, at.1, TICKS_PER_SECOND);
        let chunk = feeder::chunk(&base.window, events, base.spans, 0..copies);
        let Some(Some(reports)) = chunk.streams.first() else { return Ok(Cost::default()) };
        let (batch, calls) = by_expressway(reports, chunk.events)?;
        let start_ns = ThreadTime.now_ns();
        self.output.begin_cycle(chunk.events);
        for (index, (partition, start, end)) in calls.iter().enumerate() {
            if let Some((partition, start, end)) = calls.get(index + CALLS_AHEAD) {
                self.tolls[*partition].prefetch(0, Rows::new(&batch, *start, *end));
            }
            self.output.begin_partition(*partition as u32);
            self.tolls[*partition].rows(0, Rows::new(&batch, *start, *end), &mut self.output)?;
        }
        for port in [TOLL_PORT, ACCIDENT_PORT, CHARGE_PORT] {
            drop(self.output.finish(port));
        }
        Ok(Cost { time_ns: ThreadTime.now_ns() - start_ns, reports: batch.len() as u64 })
    }
}

/// An expressway, and where its reports begin and end.
type ReportsOf = (usize, usize, usize);

/// Reports in the order of expressways, and where those of each begin and end.
fn by_expressway(reports: &Batch, events: u32) -> anyhow::Result<(Batch, Vec<ReportsOf>)> {
    let rows = reports.as_rows();
    let xway = rows.column::<UInt16Type>(3);
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by_key(|row| xway[*row]);
    let (time, vid, pos) =
        (rows.column::<UInt16Type>(0), rows.column::<UInt32Type>(1), rows.column::<UInt32Type>(7));
    let [speed, lane, dir, seg] = [2, 4, 5, 6].map(|column| rows.column::<UInt8Type>(column));
    let mut columns = EventColumns::default();
    for row in &order {
        columns.push(&Event::Report(Report {
            time: time[*row],
            vid: vid[*row],
            speed: speed[*row],
            xway: xway[*row],
            lane: lane[*row],
            dir: dir[*row],
            seg: seg[*row],
            pos: pos[*row],
        }));
    }
    let sorted = columns.take().streams.swap_remove(0).context("a tick has reports")?;
    debug_assert!(sorted.len() <= events as usize);
    let ordered: Vec<u16> = order.iter().map(|row| xway[*row]).collect();
    let (mut calls, mut start) = (Vec::new(), 0);
    for run in ordered.chunk_by(|one, next| one == next) {
        calls.push((usize::from(run[0]), start, start + run.len()));
        start += run.len();
    }
    Ok((sorted, calls))
}
