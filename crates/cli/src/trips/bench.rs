//! `tidemill trips bench`.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use tidemill_engine::Cause;
use tidemill_trip_grouping::bench::{
    AnswerTimes, PERIOD_S, Results, Statement, answer_times, answers_table, by_groups_tables,
    by_history_tables, by_load_tables, charts, goals, open_questions, serial_table, statements,
};
use tidemill_trip_grouping::partitioner::{PartitionerPlan, Partitioning};

use super::criteria::CriteriaArguments;
use super::generate::City;
use crate::exit::Exit;
use crate::{linear_road, terminal};

/// Repeat the experiments of the paper: tables of time and savings, and which of its statements hold here
///
/// Grouping is measured in processor time, each group by itself, and the slowest counts, as if each had a core of its own.
/// Then the whole query runs on the engine.
#[derive(Debug, Args)]
#[command(after_help = exit_codes!())]
pub(crate) struct BenchArguments {
    /// Folder for pictures, created if it does not exist
    #[arg(long, value_name = "DIR")]
    pictures: Option<PathBuf>,
    /// Worker threads of the whole query
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = linear_road::parse_workers)]
    workers: usize,
    #[command(flatten)]
    city: City,
    #[command(flatten)]
    criteria: CriteriaArguments,
}

impl BenchArguments {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        // Before anything that takes long.
        if let Some(folder) = &self.pictures {
            fs::create_dir_all(folder).map_err(|error| cannot_write(folder, error))?;
        }
        let (city, criteria) = (self.city.config(), self.criteria.criteria());
        let results = Results::measure(city, criteria, |next| {
            if terminal::is_watched() {
                terminal::tell(next);
            }
        })?;
        terminal::show(&serial_table("One group, in the order of arrival", &results.serial))?;
        terminal::show(&serial_table("One group, the cheapest share first", &results.cheapest_first))?;
        terminal::show(&by_groups_tables(&results))?;
        terminal::show(&by_load_tables(&results))?;
        terminal::show(&by_history_tables(&results))?;
        let answers = self.answers()?;
        terminal::show(&answers_table(&answers))?;
        list("What the paper says", &statements(&results))?;
        list("What the paper leaves open", &open_questions(&results))?;
        list("Goals", &goals(&answers, criteria.cycle))?;
        self.draw(&results)?;
        Ok(Exit::Done)
    }

    /// The whole query with one worker and with as many as asked for.
    fn answers(&self) -> anyhow::Result<Vec<AnswerTimes>> {
        let requests = self.city.config().day()?.requests;
        let plan = PartitionerPlan::new(Partitioning::AdaptiveKdTree, 16, PERIOD_S, &[])
            .map_err(|error| Cause::bug(error.to_string()))?;
        let mut workers = vec![1, self.workers];
        workers.dedup();
        let criteria = self.criteria.criteria();
        let answers = workers.into_iter().map(|workers| answer_times(&requests, &plan, criteria, workers));
        Ok(answers.collect::<Result<_, Cause>>()?)
    }

    fn draw(&self, results: &Results) -> anyhow::Result<()> {
        let Some(folder) = &self.pictures else { return Ok(()) };
        for (name, picture) in charts(results) {
            let path = folder.join(name);
            fs::write(&path, picture).map_err(|error| cannot_write(&path, error))?;
        }
        terminal::show(&format!("\npictures are in {}", folder.display()))
    }
}

fn list(title: &str, statements: &[Statement]) -> anyhow::Result<()> {
    terminal::show(&format!("\n## {title}\n"))?;
    for statement in statements {
        let holds = if statement.holds { "holds" } else { "does not hold" };
        terminal::show(&format!("- {}: **{holds}** ({})", statement.text, statement.numbers))?;
    }
    Ok(())
}

fn cannot_write(path: &Path, error: std::io::Error) -> Cause {
    let text = format!("cannot write {}: {error}; choose another folder", path.display());
    Cause::operation(text).with_source(error)
}
