//! Lines of the table.

use std::time::Duration;

/// Prints messages and bytes per second, with a remark.
pub fn speed(stage: &str, messages: u64, bytes: u64, time: Duration, remark: &str) {
    let seconds = time.as_secs_f64();
    let (millions, gigabytes) = (messages as f64 / seconds / 1e6, bytes as f64 / seconds / 1e9);
    println!("| {stage} | {millions:.2} | {gigabytes:.2} | {remark} |");
}

/// The processor time that this process has used, in seconds; 0 if it is unknown.
pub fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0);
    // User and system time, in hundredths of a second.
    (ticks(11) + ticks(12)) / 100.0
}

/// The best time of several rounds.
pub fn best_of<T>(
    rounds: usize,
    mut round: impl FnMut() -> anyhow::Result<(T, Duration)>,
) -> anyhow::Result<(T, Duration)> {
    let mut best = round()?;
    for _ in 1..rounds {
        let next = round()?;
        if next.1 < best.1 {
            best = next;
        }
    }
    Ok(best)
}
