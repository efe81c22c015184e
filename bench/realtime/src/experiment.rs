//! An experiment: setups, each run several times with the same arrivals, as a table and a picture.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use tidemill_charts::{Chart, Curve, Scale};

use crate::late::LateAnswer;
use crate::periodic::Done;
use crate::trial::{Machine, Outcome, Setup, Side};

/// How often, with how many elements, and where its pictures go.
pub struct Runs<'a> {
    pub machine: Machine,
    pub runs: u64,
    pub elements: usize,
    /// How many late answers of each setup are listed.
    pub late_max: usize,
    pub pictures: Option<&'a Path>,
}

/// All runs of a setup.
pub struct Result {
    pub name: String,
    pub setup: Setup,
    pub outcomes: Vec<Outcome>,
}

impl Runs<'_> {
    /// Runs the setups, each under its name, and prints a line for each.
    ///
    /// # Errors
    /// If one cannot run, or gives wrong answers.
    pub fn experiment(&self, title: &str, setups: &[(String, Setup)]) -> anyhow::Result<Vec<Result>> {
        println!("\n## {title}\n");
        println!(
            "| | elements | p50, ms | p99, ms | max, ms | deadline, ms | late | of them while the host took time, at \
             most ms | T1, T2, T3: late of all | budget empty | sent late, ms |"
        );
        println!("|---|---|---|---|---|---|---|---|---|---|---|");
        let mut results = Vec::new();
        for (name, setup) in setups {
            let run = |run| {
                // Not by the side: both have the same arrivals.
                let arrivals = setup.stream.arrivals(self.elements, run + 1, self.machine.scale);
                setup.run(&arrivals, &self.machine)
            };
            let outcomes = (0..self.runs).map(run).collect::<anyhow::Result<Vec<_>>>();
            let outcomes = outcomes.with_context(|| format!("{title}, {name}"))?;
            let result = Result { name: name.clone(), setup: *setup, outcomes };
            println!("{}", result.line(&self.machine));
            results.push(result);
        }
        results.iter().filter(|result| result.missed() > 0).for_each(|result| self.list_late(result));
        Ok(results)
    }

    /// Lists what was late, each with what ran instead.
    fn list_late(&self, result: &Result) {
        let missed = result.missed();
        println!("\nLate in {}:\n", result.name);
        let late = result.late().take(self.late_max);
        late.for_each(|(run, late)| println!("- run {run}, {late}"));
        match missed.saturating_sub(self.late_max as u64) {
            0 => {}
            more => println!("- and {more} more"),
        }
    }

    /// Draws the distributions of latencies: which part of the elements was answered within which time.
    ///
    /// # Errors
    /// If the picture cannot be written.
    pub fn draw_distributions(&self, name: &str, title: &str, results: &[&Result]) -> anyhow::Result<()> {
        let curve = |result: &&Result| {
            let latencies = result.sorted_latencies_ms();
            let at = |percent: u32| (f64::from(percent), quantile(&latencies, f64::from(percent) / 100.0));
            Curve::new(&result.name, (0..=100).map(at).collect())
        };
        let chart = Chart::new(format!("{title}, ms"), "% of the elements").x(Scale::Linear);
        self.draw(name, &chart.y(Scale::Logarithmic), 100.0, results, curve)
    }

    /// Draws the latency of each element of the first run.
    ///
    /// # Errors
    /// If the picture cannot be written.
    pub fn draw_elements(&self, name: &str, title: &str, results: &[&Result]) -> anyhow::Result<()> {
        let curve = |result: &&Result| {
            let latencies = result.outcomes.first().map_or(&[][..], |outcome| &outcome.latencies);
            let points = latencies.iter().enumerate();
            let points = points.map(|(index, latency)| (index as f64, milliseconds(*latency)));
            Curve::new(&result.name, points.collect())
        };
        let chart = Chart::new(format!("{title}, ms"), "element").x(Scale::Linear).y(Scale::Logarithmic);
        self.draw(name, &chart, self.elements as f64 - 1.0, results, curve)
    }

    fn draw(
        &self,
        name: &str,
        chart: &Chart,
        last: f64,
        results: &[&Result],
        curve: impl Fn(&&Result) -> Curve,
    ) -> anyhow::Result<()> {
        let (Some(folder), Some(first)) = (self.pictures, results.first()) else { return Ok(()) };
        let deadline_ms = milliseconds(self.machine.scale.time(first.setup.stream.deadline_ms));
        let deadline =
            Curve::new("deadline", Vec::new()).with_model(vec![(0.0, deadline_ms), (last, deadline_ms)]);
        let mut curves = vec![deadline];
        curves.extend(results.iter().map(curve));
        let path = folder.join(format!("{name}.svg"));
        std::fs::write(&path, chart.svg(&curves)).with_context(|| format!("cannot write {}", path.display()))
    }
}

impl Result {
    fn sorted_latencies_ms(&self) -> Vec<f64> {
        let latencies = self.outcomes.iter().flat_map(|outcome| &outcome.latencies);
        let mut latencies: Vec<f64> = latencies.copied().map(milliseconds).collect();
        latencies.sort_by(f64::total_cmp);
        latencies
    }

    /// How many elements were late.
    pub fn missed(&self) -> u64 {
        self.late().count() as u64
    }

    /// All late answers, with the numbers of their runs from 1.
    fn late(&self) -> impl Iterator<Item = (usize, &LateAnswer)> {
        let runs = (1..).zip(&self.outcomes);
        runs.flat_map(|(run, outcome)| outcome.late.iter().map(move |late| (run, late)))
    }

    /// What each periodic thread has done in all runs.
    pub fn periodic(&self) -> [Done; 3] {
        let mut all = [Done::default(); 3];
        for outcome in &self.outcomes {
            for (sum, done) in all.iter_mut().zip(&outcome.periodic) {
                sum.released += done.released;
                sum.missed += done.missed;
            }
        }
        all
    }

    fn line(&self, machine: &Machine) -> String {
        let latencies = self.sorted_latencies_ms();
        let at = |share| quantile(&latencies, share);
        let stolen = self.late().filter(|(_, late)| !late.stolen.is_zero()).count();
        let stolen_max = self.late().map(|(_, late)| late.stolen).max().unwrap_or_default();
        let longest = |of: fn(&Outcome) -> Duration| {
            milliseconds(self.outcomes.iter().map(of).max().unwrap_or_default())
        };
        let periodic = self.periodic().map(|done| format!("{} of {}", done.missed, done.released));
        let emptied: u64 = self.outcomes.iter().map(|outcome| outcome.pool.emptied).sum();
        let budget = self.setup.budget_ms.map_or("-".to_owned(), |_| format!("{emptied} times"));
        format!(
            "| {} | {} | {:.1} | {:.1} | {:.1} | {:.1} | {} | {stolen}, {:.0} | {} | {budget} | {:.1} |",
            self.name,
            latencies.len(),
            at(0.5),
            at(0.99),
            at(1.0),
            milliseconds(machine.scale.time(self.setup.stream.deadline_ms)),
            self.missed(),
            milliseconds(stolen_max),
            periodic.join(", "),
            longest(|outcome| outcome.sent_late),
        )
    }
}

/// As the tables name a side.
pub fn side_name(side: Side) -> &'static str {
    match side {
        Side::RealTime => "RT",
        Side::Standard => "standard",
    }
}

/// The value that this share of the sorted values does not exceed.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    sorted.get((last as f64 * share).ceil() as usize).copied().unwrap_or(f64::NAN)
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
