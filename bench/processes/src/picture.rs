//! Pictures of tables.

use anyhow::Context;
use tidemill_charts::{Chart, Curve, Scale};

use crate::Arguments;

/// Writes a picture of rates in MB/s, if pictures are asked for.
///
/// # Errors
/// If it cannot be written.
pub fn write(
    arguments: &Arguments,
    name: &str,
    title: &str,
    x: (&str, Scale),
    curves: &[Curve],
) -> anyhow::Result<()> {
    let Some(folder) = &arguments.pictures else { return Ok(()) };
    let path = folder.join(format!("{name}.svg"));
    let chart = Chart::new(format!("{title}, MB/s"), x.0).x(x.1).y(Scale::Logarithmic);
    std::fs::write(&path, chart.svg(curves)).with_context(|| format!("cannot write {}", path.display()))
}
