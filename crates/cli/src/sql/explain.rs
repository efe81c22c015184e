//! `tidemill explain pipeline.sql`

use std::path::PathBuf;

use tidemill_sql::{Planner, Reply, Statement, StatementKind, masked};

use super::{SessionOptions, script, user_error};
use crate::exit::Exit;
use crate::terminal;

/// Show the plan that a script would run: operators, partitions, splits, cycles
#[derive(Debug, clap::Args)]
#[command(after_help = exit_codes!())]
pub(crate) struct ExplainPipeline {
    /// The script; - reads standard input
    #[arg(value_name = "FILE")]
    script: PathBuf,
    #[command(flatten)]
    options: SessionOptions,
}

impl ExplainPipeline {
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        let script = script::read(&self.script)?;
        let mut planner = self.options.planner_of(&self.script);
        let mut plans = Vec::new();
        for statement in script.statements()? {
            plans.extend(plan(&mut planner, &statement)?);
        }
        if let Some(pipeline) = planner.pipeline()? {
            plans.push(format!("-- run\n{}", pipeline.explain().trim_end()));
        }
        if plans.is_empty() {
            return Err(user_error(format!(
                "'{}' only defines sources and views, which have no plan until something reads them; add \
                 CREATE SINK ... FROM ... or a SELECT",
                script.name
            )));
        }
        terminal::show(&plans.join("\n\n"))?;
        Ok(Exit::Done)
    }
}

/// The plan of a statement below its text, if the statement is a query.
fn plan(planner: &mut Planner, statement: &Statement) -> Result<Option<String>, script::Wrong> {
    let explained = match planner.execute(statement)? {
        Reply::Query(prepared) | Reply::Analyze(prepared) => prepared.explain(),
        Reply::Text(text) => text,
        Reply::Rows(_) | Reply::Batches(_) if matches!(statement.kind, StatementKind::Query(..)) => {
            "reads only tables, and is answered at once".into()
        }
        Reply::Rows(_) | Reply::Batches(_) | Reply::Done(_) => return Ok(None),
    };
    let text: Vec<String> = masked(&statement.text).lines().map(|line| format!("-- {line}")).collect();
    Ok(Some(format!("{}\n{}", text.join("\n"), explained.trim_end())))
}
