//! `tidemill test pipeline.sql`: cases of a pipeline, with rows and a clock of their own.

mod case_file;
mod comparison;
mod coverage;
mod from_journal;
mod given_rows;
mod junit;
mod run;
mod stand_in;
mod table;
mod typed_rows;
mod update;

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use tidemill_engine::Rebalancing;
use tidemill_sql::{Planner, closest};

use self::case_file::Case;
use self::comparison::{Difference, compare};
use self::coverage::Coverage;
use self::junit::{TestedCase, Verdict, junit};
use self::run::{Ended, Outcome, Run, TestedScript, run};
use crate::exit::Exit;
use crate::interrupt::parse_time;
use crate::sql::{planner_with_all_names, read_script, user_error};
use crate::{quantity, terminal};

/// What the name of a case ends with.
const CASE: &str = "case";
/// The most cycles of a journal in one case.
const CYCLES_MAX: u64 = 1000;
/// What the name of the folder with the cases of a script ends with.
const CASES: &str = "cases";

/// Test a pipeline with cases: rows, a clock, and what is expected of its sinks and views
#[derive(Debug, clap::Args)]
#[command(after_help = exit_codes!())]
pub(crate) struct TestPipeline {
    /// The script, whose cases are in the folder beside it: those of visits.sql are visits.cases/*.case. A folder stands for all
    /// scripts in it that have cases
    #[arg(value_name = "FILE", required = true)]
    script: PathBuf,
    /// Only these cases
    #[arg(value_name = "CASE")]
    cases: Vec<PathBuf>,
    /// Numbers of workers with which each case runs
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1,2,5",
          value_parser = crate::linear_road::parse_workers)]
    workers: Vec<usize>,
    /// Sizes of cycles with which each case runs, in rows
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1,10,1000", value_parser = parse_rows)]
    cycle_rows: Vec<usize>,
    /// Write what comes out into the cases
    #[arg(long)]
    update: bool,
    /// Write a case with what a durable pipeline took in, and with what the script makes of it
    #[arg(long, value_name = "JOURNAL", requires = "cycles", conflicts_with_all = ["cases", "update"])]
    from_journal: Option<PathBuf>,
    /// The cycles of the journal, such as 4711..4720
    #[arg(long, value_name = "FIRST..LAST", requires = "from_journal", value_parser = parse_range)]
    cycles: Option<RangeInclusive<u64>>,
    /// Columns whose values are replaced in that case, equal ones by equal ones: user, or clicks.user
    #[arg(long, value_name = "COLUMN,...", requires = "from_journal", value_delimiter = ',')]
    mask: Vec<String>,
    /// Write the results in the format of JUnit
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Show which parts of the plan the cases reach
    #[arg(long)]
    coverage: bool,
    /// How long one run of a case may take
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "60 s")]
    timeout: Duration,
}

fn parse_rows(text: &str) -> Result<usize, String> {
    let rows = text.trim().parse().map_err(|_| format!("'{text}' is not a number of rows"))?;
    if (1..=1_000_000).contains(&rows) { Ok(rows) } else { Err("from 1 to 1000000 rows".to_owned()) }
}

fn parse_range(text: &str) -> Result<RangeInclusive<u64>, String> {
    let (first, last) = text.split_once("..").unwrap_or((text, text));
    let number =
        |text: &str| text.trim().parse::<u64>().map_err(|_| format!("'{text}' is not the number of a cycle"));
    let (first, last) = (number(first)?, number(last)?);
    if first > last || last - first >= CYCLES_MAX {
        return Err(format!("the first cycle comes first, and there are at most {CYCLES_MAX}"));
    }
    Ok(first..=last)
}

/// What is wrong with a case, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CaseError {
    place: String,
    reason: String,
}

impl CaseError {
    fn of_file(path: &Path, reason: String) -> CaseError {
        CaseError { place: path.display().to_string(), reason }
    }
}

impl std::fmt::Display for CaseError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}: {}", self.place, self.reason)
    }
}

/// What somebody may have meant who wrote an unknown name, and what there is.
fn instead_of(name: &str, known: &[&str]) -> String {
    let meant = closest(name, known.iter().copied());
    let meant = meant.map_or(";".to_owned(), |meant| format!("; did you mean '{meant}'?"));
    format!("{meant} there is {}", if known.is_empty() { "none".to_owned() } else { known.join(", ") })
}

impl TestPipeline {
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        let started = Instant::now();
        let mut tested = Vec::new();
        for script in self.scripts()? {
            let cases = match &self.from_journal {
                Some(journal) => vec![self.write_from_journal(&script, journal)?],
                None if self.cases.is_empty() => cases_of(&script)?,
                None => self.cases.clone(),
            };
            let text = read_script(&script)?;
            let script = Arc::new(TestedScript { name: script.display().to_string(), text });
            let mut coverage = Coverage::default();
            for case in cases {
                let result = self.test(&script, &case, &mut coverage);
                tell(&result);
                tested.push(result);
            }
            if self.coverage {
                print!("{}", coverage.describe(&script.name));
            }
        }
        if let Some(path) = &self.junit {
            std::fs::write(path, junit(&tested)).map_err(|error| {
                user_error(format!("'{}' cannot be written: {error}; name another file", path.display()))
            })?;
        }
        Ok(sum_up(&tested, started.elapsed()))
    }

    /// The scripts that were named.
    fn scripts(&self) -> anyhow::Result<Vec<PathBuf>> {
        if !self.script.is_dir() {
            return Ok(vec![self.script.clone()]);
        }
        if !self.cases.is_empty() {
            return Err(user_error("cases belong to one script; name it in place of its folder".to_owned()));
        }
        let mut scripts = files_in(&self.script, "sql")?;
        scripts.retain(|script| script.with_extension(CASES).is_dir());
        if scripts.is_empty() {
            let folder = self.script.display();
            let text = format!(
                "no script in '{folder}' has cases; put those of visits.sql into visits.cases/, as NAME.{CASE}"
            );
            return Err(user_error(text));
        }
        Ok(scripts)
    }

    fn test(&self, script: &Arc<TestedScript>, path: &Path, coverage: &mut Coverage) -> TestedCase {
        let started = Instant::now();
        let verdict = match self.verdict(script, path, coverage) {
            Ok(verdict) => verdict,
            Err(error) => Verdict::Wrong(error.to_string()),
        };
        TestedCase {
            script: script.name.clone(),
            name: path.display().to_string(),
            took: started.elapsed(),
            verdict,
        }
    }

    fn verdict(
        &self,
        script: &Arc<TestedScript>,
        path: &Path,
        coverage: &mut Coverage,
    ) -> Result<Verdict, CaseError> {
        let case = Arc::new(Case::read(path)?);
        let mut runs: Vec<(Run, Ended)> = Vec::new();
        for cycle_rows in &self.cycle_rows {
            for workers in &self.workers {
                let how = Run { workers: *workers, cycle_rows: *cycle_rows };
                let ended = self.one_run(script, &case, how)?;
                // What is wrong with the case is wrong in every run.
                if let Ended::Wrong(error) = ended {
                    return Err(error);
                }
                runs.push((how, ended));
            }
        }
        if let Some(Ended::Done(outcome)) = runs.first().map(|(_, ended)| ended) {
            coverage.add(outcome);
        }
        let disagreement = disagreement(&runs);
        if (self.update || self.from_journal.is_some()) && disagreement.is_none() {
            return self.write(&case, &runs[0].1);
        }
        let mut failed: Vec<(Run, Vec<Difference>)> = Vec::new();
        for (how, ended) in &runs {
            let differences = compare(&case, ended)?;
            if !differences.is_empty() {
                failed.push((*how, differences));
            }
        }
        let mut text = String::new();
        if let Some((how, differences)) = failed.first() {
            for Difference { line, text: difference } in differences {
                let place = if *line > 0 { format!("line {line}: ") } else { String::new() };
                text += &format!("{place}{}\n", difference.trim_end());
            }
            let all = if failed.len() == runs.len() {
                "all runs".to_owned()
            } else {
                format!("{} of {} runs", failed.len(), runs.len())
            };
            text += &format!("({how}; {all} differ)\n");
        }
        text += &disagreement.unwrap_or_default();
        Ok(if text.is_empty() { Verdict::Passed } else { Verdict::Failed(text) })
    }

    /// Writes a case with rows of a journal; what is expected of them follows when it has run.
    fn write_from_journal(&self, script: &Path, journal: &Path) -> anyhow::Result<PathBuf> {
        let cycles = self.cycles.clone().unwrap_or(0..=0);
        let text = from_journal::case_text(journal, &cycles, &self.mask)?;
        let folder = script.with_extension(CASES);
        let path = folder.join(format!("cycles-{}-{}.{CASE}", cycles.start(), cycles.end()));
        let unwritten =
            |error: std::io::Error| user_error(format!("'{}' cannot be written: {error}", path.display()));
        std::fs::create_dir_all(&folder).map_err(unwritten)?;
        let mut file = std::fs::File::create_new(&path).map_err(|error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => {
                user_error(format!("'{}' is there already; rename it, or remove it first", path.display()))
            }
            _ => unwritten(error),
        })?;
        std::io::Write::write_all(&mut file, text.as_bytes()).map_err(unwritten)?;
        Ok(path)
    }

    /// Writes a case again with what came out.
    fn write(&self, case: &Case, ended: &Ended) -> Result<Verdict, CaseError> {
        let text = update::updated(case, ended)?;
        let before = std::fs::read_to_string(&case.path).unwrap_or_default();
        if text != before {
            std::fs::write(&case.path, &text)
                .map_err(|error| CaseError::of_file(&case.path, format!("it cannot be written: {error}")))?;
            println!("{}: updated", case.path.display());
        }
        Ok(Verdict::Passed)
    }

    /// Runs a case on a thread of its own, which is left alone if it does not end.
    fn one_run(&self, script: &Arc<TestedScript>, case: &Arc<Case>, how: Run) -> Result<Ended, CaseError> {
        let (sender, receiver) = channel();
        let (of_script, of_case) = (Arc::clone(script), Arc::clone(case));
        let spawned = std::thread::Builder::new().name("case".into()).spawn(move || {
            let _ = sender.send(run(&of_script, &of_case, planner(), how));
        });
        let wrong = |reason: String| CaseError::of_file(&case.path, reason);
        spawned.map_err(|error| wrong(format!("a thread cannot be started: {error}")))?;
        receiver.recv_timeout(self.timeout).map_err(|error| match error {
            RecvTimeoutError::Timeout => {
                let timeout = self.timeout.as_secs_f64();
                wrong(format!(
                    "the pipeline has not ended within {timeout} s ({how}); does it wait for something? --timeout \
                     gives it longer"
                ))
            }
            RecvTimeoutError::Disconnected => wrong(format!("the run has panicked ({how}); this is a bug")),
        })
    }
}

/// A planner with everything that the command knows by name, whose partitions move as often as they can: no answer may depend on
/// where they are.
fn planner() -> Planner {
    let mut planner = planner_with_all_names();
    planner.settings_mut().rebalancing = Rebalancing::Random { seed: 7, every_cycles: 1 };
    planner
}

/// What two runs of a case do not agree about, although neither the number of workers nor the sizes of cycles may matter.
fn disagreement(runs: &[(Run, Ended)]) -> Option<String> {
    let ((first, one), others) = runs.split_first()?;
    for (how, ended) in others {
        let differs = |what: String| {
            Some(format!("the answer depends on how the pipeline is run: {what}\n  - {first}\n  + {how}\n"))
        };
        match (one, ended) {
            (Ended::Done(one), Ended::Done(other)) => {
                if let Some(what) = different_outcome(one, other) {
                    return differs(what);
                }
            }
            (Ended::Refused(_), Ended::Refused(_)) => {}
            (Ended::Refused(why), _) | (_, Ended::Refused(why)) => {
                return differs(format!("only one run fails: {why}"));
            }
            _ => {}
        }
    }
    None
}

fn different_outcome(one: &Outcome, other: &Outcome) -> Option<String> {
    for (name, (rows, _)) in &one.outputs {
        let others = other.outputs.get(name).map(|(rows, _)| rows)?;
        let expected =
            case_file::ExpectedOutput { name: name.clone(), mode: case_file::Mode::Unordered, within: 0.0 };
        if let Some(difference) = comparison::difference(rows, others, &expected) {
            return Some(difference);
        }
    }
    if one.late != other.late {
        return Some(format!("{} and {} rows are late", one.late, other.late));
    }
    (one.dead_letters != other.dead_letters).then(|| "other records could not be used".to_owned())
}

/// The cases beside a script, by name.
fn cases_of(script: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let folder = script.with_extension(CASES);
    let (name, folder_name) = (script.display(), folder.display());
    if !script.exists() {
        return Err(user_error(format!("there is no file '{name}'; is the path right?")));
    }
    let none = || {
        user_error(format!("'{name}' has no cases; put them into the folder '{folder_name}', as NAME.{CASE}"))
    };
    if !folder.is_dir() {
        return Err(none());
    }
    let cases = files_in(&folder, CASE)?;
    if cases.is_empty() { Err(none()) } else { Ok(cases) }
}

/// The files of a folder whose names end so, by name.
fn files_in(folder: &Path, ending: &str) -> anyhow::Result<Vec<PathBuf>> {
    let unreadable =
        |error: std::io::Error| user_error(format!("'{}' cannot be read: {error}", folder.display()));
    let entries = std::fs::read_dir(folder).map_err(unreadable)?;
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    let mut paths = paths.collect::<Result<Vec<_>, _>>().map_err(unreadable)?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == ending));
    paths.sort();
    Ok(paths)
}

fn tell(case: &TestedCase) {
    match &case.verdict {
        Verdict::Passed => println!("{}: passed", case.name),
        Verdict::Failed(why) => println!("{}: FAILED\n  {}", case.name, why.trim_end().replace('\n', "\n  ")),
        Verdict::Wrong(why) => println!("{}: WRONG\n  {why}", case.name),
    }
}

fn sum_up(tested: &[TestedCase], took: Duration) -> Exit {
    let failed = tested.iter().filter(|case| matches!(case.verdict, Verdict::Failed(_))).count();
    let wrong = tested.iter().filter(|case| matches!(case.verdict, Verdict::Wrong(_))).count();
    let cases = quantity::counted(tested.len() as u64, "case");
    let passed = tested.len() - failed - wrong;
    let wrong_text = if wrong > 0 { format!(", {wrong} wrong") } else { String::new() };
    terminal::tell(&format!(
        "{cases}: {passed} passed, {failed} failed{wrong_text} ({:.1} s)",
        took.as_secs_f64()
    ));
    match (wrong, failed) {
        (0, 0) => Exit::Done,
        (0, _) => Exit::Differences,
        _ => Exit::BadInput,
    }
}
