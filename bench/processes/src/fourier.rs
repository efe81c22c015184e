//! The radix-2 Fourier transform of the thesis: one process receives the arrays, two transform their elements at even and at
//! odd places, and a fourth combines what they send. Beside it: one process that transforms whole arrays.

use tidemill_charts::{Curve, Scale};

use crate::query::{Over, PLACES, cost_note, rate};
use crate::{Arguments, picture};

/// Bytes of all arrays of a run, about.
const BYTES: u64 = 100 << 20;

/// The processes that turn `c` into the stream `spectra`.
const WAYS: [(&str, &str); 2] = [
    ("one process", "CREATE PROCESS spectra PREFER pset1 AS SELECT at, fft(signal) AS spectrum FROM c;"),
    (
        "radix 2",
        "CREATE PROCESS a PREFER pset1 AS SELECT at, fft(array_slice(signal, 1, -1, 2)) AS half FROM c;
         CREATE PROCESS b PREFER pset2 AS SELECT at, fft(array_slice(signal, 2, -1, 2)) AS half FROM c;
         CREATE PROCESS spectra PREFER be AS
         SELECT a.at, fft_combine(a.half, b.half) AS spectrum FROM a JOIN b ON a.at = b.at;",
    ),
];

/// A script that transforms arrays, and its answer: the number of arrays, and the sum of all their elements, which the
/// first elements of the spectra are. Sums of integers are exact.
fn script(way: &str, length: u32, arrays: u32) -> (String, Vec<i64>) {
    let script = format!(
        "{PLACES} SET cycle_fixed = true; SET cycle_events = 1;
         CREATE PROCESS c PREFER 0 AS
         SELECT event_time AS at, CAST(range(value, value + {length}) AS DOUBLE[]) AS signal
         FROM sequence(count => {arrays});
         {way}
         SELECT n, total FROM (
            SELECT window_end, count(*) AS n, CAST(sum(spectrum['re'][1]) AS BIGINT) AS total
            FROM tumble(TABLE(spectra), at, INTERVAL '1 day') GROUP BY window_end);"
    );
    let (arrays, length) = (i64::from(arrays), i64::from(length));
    let total = arrays * (length * (length - 1) / 2) + length * (arrays * (arrays - 1) / 2);
    (script, vec![arrays, total])
}

/// Prints the table, and draws the picture.
///
/// # Errors
/// If an answer is wrong, or a picture cannot be written.
pub fn measure(arguments: &Arguments) -> anyhow::Result<()> {
    println!("\n## Fourier transform: MB/s of arrays\n");
    println!("{}\n", cost_note());
    println!("| length | over | {} | {} |\n|---|---|---|---|", WAYS[0].0, WAYS[1].0);
    let mut curves = Vec::new();
    for over in Over::ALL {
        let mut points = vec![Vec::new(); WAYS.len()];
        for length in &arguments.lengths {
            let mut line = format!("| {length} | {} |", over.name());
            let arrays = (BYTES / (8 * u64::from(*length))).clamp(1, u64::from(arguments.buffers_max)) as u32;
            for ((_, way), points) in WAYS.iter().zip(&mut points) {
                let round_bytes = 8.0 * f64::from(*length);
                let script = |arrays| script(way, *length, arrays);
                let rate = rate(arguments.runs, over, script, (arrays, round_bytes))?;
                line += &rate.cell();
                points.push((f64::from(*length), rate.mb_per_s));
            }
            println!("{line}");
        }
        for ((name, _), points) in WAYS.iter().zip(points) {
            curves.push(Curve::new(format!("{name}, {}", over.name()), points));
        }
    }
    picture::write(arguments, "fourier", "Fourier transform", ("length", Scale::Logarithmic), &curves)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::run;

    #[test]
    fn both_ways_give_the_sum_of_the_elements() {
        for (_, way) in WAYS {
            let (script, expected) = script(way, 16, 3);
            assert_eq!(expected, [3, 3 * 120 + 16 * 3]);
            run(&script, Over::Threads, &expected).unwrap();
        }
    }
}
