//! Which parts of a plan the cases of a script have reached.

use std::fmt::Write;

use super::run::Outcome;

/// The parts of a plan, each with the rows that it received and wrote in all cases.
#[derive(Debug, Default)]
pub(super) struct Coverage(Vec<(String, u64, u64)>);

impl Coverage {
    /// Adds the parts of one run of a case.
    pub fn add(&mut self, outcome: &Outcome) {
        // What only picks columns is often done by what reads them.
        let parts = outcome.parts.iter().filter(|(name, ..)| !name.starts_with("columns "));
        for (index, (name, rows_in, rows_out)) in parts.enumerate() {
            match self.0.get_mut(index).filter(|part| part.0 == *name) {
                Some(part) => {
                    part.1 += rows_in;
                    part.2 += rows_out;
                }
                None => self.0.push((name.clone(), *rows_in, *rows_out)),
            }
        }
    }

    /// What was reached, as lines.
    pub fn describe(&self, script: &str) -> String {
        let reached = self.0.iter().filter(|(_, rows_in, rows_out)| *rows_in > 0 && *rows_out > 0).count();
        let mut text = format!(
            "{script}: {reached} of {} parts of the plan have received and given rows\n",
            self.0.len()
        );
        for (name, rows_in, rows_out) in &self.0 {
            let mark = match (rows_in, rows_out) {
                (0, _) => "  never reached",
                (_, 0) => "  never gave a row",
                _ => "",
            };
            let _ = writeln!(text, "  {rows_in:>6} in {rows_out:>6} out  {name}{mark}");
        }
        text
    }
}
