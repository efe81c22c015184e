//! `tidemill validate pipeline.sql`

use std::path::PathBuf;

use tidemill_sql::{Planner, Statement, StatementKind, TextError};

use super::{SessionOptions, script};
use crate::exit::Exit;
use crate::{quantity, terminal};

/// Check a script without running it, and report every error with line, column and hint
#[derive(Debug, clap::Args)]
#[command(after_help = exit_codes!())]
pub(crate) struct ValidatePipeline {
    /// The script; - reads standard input
    #[arg(value_name = "FILE")]
    script: PathBuf,
    #[command(flatten)]
    options: SessionOptions,
}

impl ValidatePipeline {
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        let script = script::read(&self.script)?;
        let (statements, errors) = script.parse();
        let mut planner = self.options.planner_of(&self.script);
        let mut found = Findings { errors, ..Findings::default() };
        for statement in &statements {
            found.check(&mut planner, statement);
        }
        let Findings { mut errors, not_checked, .. } = found;
        if errors.is_empty() {
            planner.pipeline()?;
            terminal::tell(&format!(
                "{}: {}, no errors",
                script.name,
                quantity::counted(statements.len() as u64, "statement")
            ));
            return Ok(Exit::Done);
        }
        errors.sort_by_key(|error| error.span.start.byte);
        let mut said = format!("{} in {}", quantity::counted(errors.len() as u64, "error"), script.name);
        if not_checked > 0 {
            let noun = quantity::counted(not_checked, "statement");
            said.push_str(&format!("; {noun} not checked, because what they use is wrong"));
        }
        terminal::tell(&format!("error: {}\n\n{said}", script::Wrong(errors)));
        Ok(Exit::BadInput)
    }
}

/// The findings so far.
#[derive(Default)]
struct Findings {
    errors: Vec<TextError>,
    /// The names of what could not be defined. Reporting them as missing would repeat the same error.
    undefined: Vec<String>,
    not_checked: u64,
}

impl Findings {
    fn check(&mut self, planner: &mut Planner, statement: &Statement) {
        if self.undefined.iter().any(|name| statement.find_name(name).is_some()) {
            self.not_checked += 1;
            self.undefined.extend(defined(&statement.kind));
            return;
        }
        if let Err(error) = planner.execute(statement) {
            self.errors.push(error);
            self.undefined.extend(defined(&statement.kind));
        }
    }
}

/// The name that a statement defines.
fn defined(kind: &StatementKind) -> Option<String> {
    match kind {
        StatementKind::CreateSource(create) | StatementKind::CreateTable(create) => Some(&create.name),
        StatementKind::CreateView(create) => Some(&create.name),
        StatementKind::CreateMaterializedView(create) => Some(&create.name),
        StatementKind::CreateSink(create) => Some(&create.name),
        _ => None,
    }
    .map(|name| name.value.clone())
}
