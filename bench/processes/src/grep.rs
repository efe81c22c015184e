//! A search in many files, each in a process of its own, and the same search by a plain loop.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, ensure};

use crate::Arguments;
use crate::query::{Over, PLACES, Rate, cost_note, run};

/// The text of a file: each tenth line has the word that is searched for.
fn text(file: u32, lines: u32) -> String {
    let mut text = String::new();
    for line in 0..lines {
        let what = if (line + file).is_multiple_of(10) {
            "error: the disk is full"
        } else {
            "the request was answered"
        };
        writeln!(text, "2026-01-01T00:00:00 host-{file} service[{line}]: {what} after {} ms", line % 97)
            .expect("a text takes text");
    }
    text
}

/// Writes the files, and the table of their paths. Returns their bytes, and how many lines have the word.
fn write_files(folder: &Path, files: u32, lines: u32) -> anyhow::Result<(u64, i64)> {
    let (mut bytes, mut matching, mut table) = (0, 0, "path\n".to_owned());
    for file in 0..files {
        let (path, text) = (folder.join(format!("{file}.log")), text(file, lines));
        fs::write(&path, &text).with_context(|| format!("cannot write {}", path.display()))?;
        bytes += text.len() as u64;
        matching += (0..lines).filter(|line| (line + file).is_multiple_of(10)).count() as i64;
        writeln!(table, "{}", path.display())?;
    }
    fs::write(folder.join("files.csv"), table)?;
    Ok((bytes, matching))
}

fn script(folder: &Path) -> String {
    format!(
        "{PLACES} CREATE PLACES all_places (be, pset1, pset2);
         CREATE TABLE files (path VARCHAR) WITH (path = '{}');
         CREATE PROCESS grep FOR path IN (SELECT path FROM files) PREFER NEXT OF all_places AS
         SELECT line FROM lines(path) WHERE regexp_like(line, '\\berror\\b');
         SELECT count(*) AS n FROM grep;",
        folder.join("files.csv").display()
    )
}

/// Seconds that a loop over all files takes, which looks for the word in each line.
fn plain_loop(folder: &Path, files: u32, matching: i64) -> anyhow::Result<f64> {
    let start = Instant::now();
    let mut found = 0;
    for file in 0..files {
        let text = fs::read_to_string(folder.join(format!("{file}.log")))?;
        found += text.lines().filter(|line| line.contains("error")).count() as i64;
    }
    ensure!(found == matching, "the plain loop finds {found} lines instead of {matching}");
    Ok(start.elapsed().as_secs_f64().max(1e-9))
}

/// Prints the table.
///
/// # Errors
/// If an answer is wrong, or a file cannot be written.
pub fn measure(arguments: &Arguments) -> anyhow::Result<()> {
    let folder = tempfile::tempdir().context("cannot make a folder for the files")?;
    let (bytes, matching) = write_files(folder.path(), arguments.files, arguments.lines)?;
    println!("\n## Search in {} files, {:.1} MB in all\n", arguments.files, bytes as f64 / 1e6);
    println!("{}\n", cost_note());
    println!("| over | MB/s | a loop in one thread, MB/s |\n|---|---|---|");
    for over in Over::ALL {
        let (mut best, mut plain) = (Rate::default(), f64::INFINITY);
        for _ in 0..arguments.runs {
            let took = run(&script(folder.path()), over, &[matching])?;
            let mb = bytes as f64 / 1e6;
            best = best.best(Rate { mb_per_s: mb / took.seconds, mb_per_unit: took.used.amount_of_each(mb) });
            plain = plain.min(plain_loop(folder.path(), arguments.files, matching)?);
        }
        println!("| {} |{} {:.0} |", over.name(), best.cell(), bytes as f64 / plain / 1e6);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_matching_lines_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let (bytes, matching) = write_files(folder.path(), 4, 25).unwrap();
        assert!(bytes > 1000 && matching == 9);
        run(&script(folder.path()), Over::Threads, &[9]).unwrap();
        plain_loop(folder.path(), 4, 9).unwrap();
        assert!(plain_loop(folder.path(), 4, 10).is_err());
    }
}
