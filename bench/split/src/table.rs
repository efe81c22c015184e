//! The table of an experiment: model and measurement side by side.

use tidemill_engine::Prediction;
use tidemill_split::predict::QUERY;

use crate::measure::Measured;

/// A plan at a point.
pub struct Line {
    pub x: f64,
    pub prediction: Prediction,
    pub measured: Measured,
    pub is_auto: bool,
}

impl Line {
    /// The part of the work that splits, rather than handing on and merging: measured, and by the model.
    fn efficiency(&self) -> f64 {
        let splitting_ns: f64 = self.measured.splitters().map(|(_, cost_ns)| cost_ns).sum();
        splitting_ns / (self.measured.splitting_ns() + self.measured.operator_ns)
    }

    /// Each stage's measured cost over the predicted one, without the window router, which is next to nothing.
    fn stage_ratios(&self) -> String {
        let stages = self.prediction.stages.iter().filter(|stage| stage.name != QUERY);
        let measured = |name: &str| self.measured.stages.iter().find(|(known, _)| known == name);
        let ratios = stages.filter(|stage| !stage.name.contains("router")).map(|stage| {
            let ratio = measured(&stage.name).map_or(f64::NAN, |(_, cost_ns)| cost_ns / stage.total_ns());
            format!("{ratio:.2}")
        });
        ratios.collect::<Vec<_>>().join(" ")
    }
}

pub fn heading(x_name: &str) {
    println!(
        "| {x_name} | plan | M/s | model M/s | splitting, ns | model, ns | measured / model, by stage | router, ns | \
         operators, ns | eta | auto |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
}

/// The lines of one point, and how far the engine's choice is from the best of them.
pub fn print(lines: &[Line]) {
    let best = lines.iter().map(|line| line.measured.rate).fold(0.0, f64::max);
    for line in lines {
        let Line { x, prediction, measured, .. } = line;
        let router_ns = measured.stages.iter().find(|stage| stage.0.contains("router")).map_or(0.0, |s| s.1);
        let auto =
            if line.is_auto { format!("{:.2} of the best", measured.rate / best) } else { String::new() };
        println!(
            "| {x} | {} | {:.2} | {:.2} | {:.1} | {:.1} | {} | {router_ns:.2} | {:.1} | {:.2} | {auto} |",
            prediction.plan.to_string().split(" to ").next().unwrap_or_default(),
            measured.rate / 1e6,
            prediction.rate_max / 1e6,
            measured.splitting_ns(),
            prediction.splitting_ns(),
            line.stage_ratios(),
            measured.operator_ns,
            line.efficiency(),
        );
    }
}
