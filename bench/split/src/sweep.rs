//! An experiment: all plans at each of several points, in a table and a picture.

use anyhow::Context;
use tidemill_charts::{Chart, Curve, Scale};
use tidemill_split::choose::{candidates, choose};

use crate::Arguments;
use crate::input::{Compared, Input};
use crate::table::{self, Line};

/// The plans' names, in the order of the candidates for the highest rate.
const NAMES: [&str; 4] = ["parasplit", "fsplit", "exptree", "maxtree"];

/// Measures all plans at each point: its place on the axis, the number of partitions, the part that is broadcast.
pub fn sweep(
    arguments: &Arguments,
    name: &str,
    x_name: &str,
    points: impl Iterator<Item = (f64, u32, f64)>,
) -> anyhow::Result<()> {
    let workers = arguments.workers as u32;
    let mut measured_rates = NAMES.map(|_| Vec::new());
    let mut model_rates = NAMES.map(|_| Vec::new());
    let mut all = Vec::new();
    table::heading(x_name);
    for (x, partitions, broadcast) in points {
        let mut input = Input::new(partitions, broadcast, arguments.workers, arguments)?;
        let auto = choose(&input.profile, partitions, f64::INFINITY, workers);
        let mut lines = Vec::new();
        for plan in candidates(&input.profile, partitions, f64::INFINITY, workers) {
            let compared = input.best_beside_model(&plan, arguments)?;
            let is_auto = auto.prediction().plan == plan;
            lines.push(Line { x, compared, is_auto });
        }
        table::print(&lines);
        for ((line, measured_rates), model_rates) in
            lines.iter().zip(&mut measured_rates).zip(&mut model_rates)
        {
            let Compared { prediction, measured, .. } = &line.compared;
            measured_rates.push((x, measured.rate));
            model_rates.push((x, prediction.rate_max));
        }
        all.extend(lines);
    }
    println!("\n{}", table::summary(&all));
    if let Some(folder) = &arguments.pictures {
        let path = folder.join(format!("{name}.svg"));
        let curves = NAMES.iter().zip(measured_rates).zip(model_rates);
        let curves = curves.map(|((name, measured), model)| Curve::new(*name, measured).with_model(model));
        let title = format!("{name}: events/s, measured (lines) and model (dashes)");
        let chart = Chart::new(title, x_name).y(Scale::Logarithmic);
        std::fs::write(&path, chart.svg(&curves.collect::<Vec<_>>()))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
