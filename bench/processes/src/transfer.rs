//! Arrays from one place to another, in buffers of several sizes: point to point, and two streams merged.

use tidemill_charts::{Curve, Scale};

use crate::query::{Over, PLACES, Rate, cost_note, rate};
use crate::{Arguments, limits, picture};

/// Who sends to whom.
#[derive(Clone, Copy)]
struct Route {
    name: &'static str,
    /// The number of streams, each sent by a process of its own.
    streams: u32,
    /// Where they are sent from.
    senders: &'static str,
    /// Where they are counted.
    receiver: &'static str,
}

const ROUTES: [Route; 4] = [
    Route { name: "point to point, one place", streams: 1, senders: "AT 2", receiver: "AT 2" },
    Route { name: "point to point", streams: 1, senders: "AT 0", receiver: "AT 2" },
    Route { name: "merge, one sender", streams: 2, senders: "AT 0", receiver: "AT 2" },
    Route { name: "merge, two senders", streams: 2, senders: "PREFER EACH OF (be, pset2)", receiver: "AT 2" },
];

impl Route {
    /// A script that sends this many buffers of each stream, and its answer.
    fn script(&self, elements: u32, buffers: u32) -> (String, Vec<i64>) {
        let Route { streams, senders, receiver, .. } = self;
        // `EACH OF` takes the name of a group of groups.
        let senders = senders.replace("(be, pset2)", "apart");
        let script = format!(
            "{PLACES} CREATE PLACES apart (be, pset2);
             SET cycle_fixed = true; SET cycle_events = {streams};
             CREATE PROCESS a FOR i IN generate_series(1, {streams}) {senders} AS
             SELECT array_repeat(CAST(value AS DOUBLE), {elements}) AS signal, event_time
             FROM sequence(count => {buffers});
             CREATE PROCESS b {receiver} AS
             SELECT window_end, count(signal) AS n, sum(CAST(array_length(signal) AS BIGINT)) AS elements
             FROM tumble(TABLE(a), event_time, INTERVAL '1 day') GROUP BY window_end;
             SELECT n, elements FROM b;"
        );
        let all = i64::from(*streams) * i64::from(buffers);
        (script, vec![all, all * i64::from(elements)])
    }

    fn rate(&self, arguments: &Arguments, bytes: u32, over: Over) -> anyhow::Result<Rate> {
        let elements = (bytes / 8).max(1);
        let all = u64::from(arguments.arrays) * u64::from(arguments.array_bytes) / u64::from(bytes);
        let buffers = all.clamp(1, u64::from(arguments.buffers_max)) as u32;
        let round_bytes = f64::from(self.streams) * f64::from(elements) * 8.0;
        rate(arguments.runs, over, |buffers| self.script(elements, buffers), (buffers, round_bytes))
    }
}

/// Prints the table, and draws the pictures.
///
/// # Errors
/// If an answer is wrong, or a picture cannot be written.
pub fn measure(arguments: &Arguments) -> anyhow::Result<()> {
    println!("## Arrays in buffers: MB/s\n");
    println!("Each buffer is a row, and a cycle of its own. {}\n", cost_note());
    print!("| bytes | over |");
    ROUTES.iter().for_each(|route| print!(" {} |", route.name));
    println!(" plain copy | plain socket |");
    println!("|---|---|{}---|---|", "---|".repeat(ROUTES.len()));
    for over in Over::ALL {
        let mut curves = vec![Vec::new(); ROUTES.len() + 1];
        for bytes in &arguments.buffers {
            let x = f64::from(*bytes);
            let mut line = format!("| {bytes} | {} |", over.name());
            for (route, curve) in ROUTES.iter().zip(&mut curves) {
                let rate = route.rate(arguments, *bytes, over)?;
                line += &rate.cell();
                curve.push((x, rate.mb_per_s));
            }
            let total = limits::total(arguments.quick);
            let copied = limits::copy(*bytes as usize, total) / 1e6;
            let sent = limits::socket(*bytes as usize, total.min(*bytes as usize * 1_000_000))? / 1e6;
            let limit = if over == Over::Threads { copied } else { sent };
            curves[ROUTES.len()].push((x, limit));
            println!("{line} {copied:.0} | {sent:.0} |");
        }
        let names = ROUTES.iter().map(|route| route.name).chain(["the machine"]);
        let curves: Vec<Curve> = names.zip(curves).map(|(name, points)| Curve::new(name, points)).collect();
        let (name, title) =
            (format!("buffers-{}", over.name()), format!("arrays in buffers over {}", over.name()));
        picture::write(arguments, &name, &title, ("bytes of a buffer", Scale::Logarithmic), &curves)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::run;

    #[test]
    fn all_buffers_arrive_on_each_route() {
        for route in ROUTES {
            let (script, expected) = route.script(5, 7);
            run(&script, Over::Threads, &expected).unwrap();
        }
    }
}
