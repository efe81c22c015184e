//! What a run does to the queries of its views: they are stopped and started again, their options are altered, their rows are divided
//! otherwise.

use std::time::Duration;

use super::kept_view::another_count;
use super::run::{Run, cell};
use super::view::View;

impl Run {
    /// A view that may be changed.
    pub fn changeable(&mut self) -> usize {
        Run::FIXED + self.random.index(self.views.len() - Run::FIXED)
    }

    /// Stops a view. Rows come meanwhile, and sometimes the server ends. Then it continues behind its last commit.
    pub fn stop_and_start(&mut self) {
        let at = self.changeable();
        // While it is stopped, it answers with its last rows.
        let view = self.views.remove(at);
        self.execute(&format!("STOP MATERIALIZED VIEW {}", view.name));
        let rows = format!("SELECT {} FROM {}", view.names(), view.name);
        let before = self.client.query(&rows).expect("it answers");
        let requests = 1 + self.random.index(6) as u64;
        self.gate(requests);
        std::thread::sleep(Duration::from_millis(self.random.index(60) as u64));
        let may_end = self.random.is_once_in(3);
        if may_end {
            self.kill();
        }
        assert_eq!(self.state_of(&view).as_deref(), Some("stopped"), "seed {}: {}", self.seed, view.name);
        let after = self.client.query(&rows).expect("it answers");
        assert_eq!(after.error, None, "seed {}: {}", self.seed, view.name);
        assert_eq!(after.sorted(), before.sorted(), "seed {}: {} is stopped", self.seed, view.name);
        self.execute(&format!("START MATERIALIZED VIEW {}", view.name));
        self.counts.stopped += 1;
        self.views.push(view);
    }

    fn state_of(&mut self, view: &View) -> Option<String> {
        let queries = self.client.query("SHOW QUERIES").expect("it answers").expect("SHOW QUERIES");
        queries.iter().find(|row| cell(row, 0) == view.name).map(|row| cell(row, 1).to_owned())
    }

    /// Keeps other versions, or fewer rows, with the same state.
    pub fn alter(&mut self) {
        let at = self.changeable();
        let (name, recent) = (self.views[at].name.clone(), self.views[at].recent_seconds);
        let shorter = recent.filter(|seconds| *seconds > 1 && self.random.is_once_in(2));
        let (option, value) = match shorter {
            Some(_) => ("retain", "'1 seconds'"),
            None => ("retain_versions", self.random.one_of(&["3", "20", "50", "400"])),
        };
        self.counts.altered += 1;
        self.views[at].options.retain(|set| !set.starts_with(&format!("{option} = ")));
        if option == "retain_versions" && self.random.is_once_in(4) {
            return self.execute(&format!("ALTER MATERIALIZED VIEW {name} RESET ({option})"));
        }
        let alter = format!("ALTER MATERIALIZED VIEW {name} SET ({option} = {value})");
        println!("after {} kills: {alter}", self.kills);
        self.execute(&alter);
        self.views[at].options.push(format!("{option} = {value}"));
        self.views[at].recent_seconds = shorter.map(|_| 1).or(recent);
    }

    /// Divides the rows of a view among another number of fragments.
    pub fn divide_again(&mut self) {
        let is_divided = |view: &View| view.options.iter().any(|option| option.starts_with("fragments"));
        let divided: Vec<usize> =
            (Run::FIXED..self.views.len()).filter(|at| is_divided(&self.views[*at])).collect();
        if divided.is_empty() {
            return;
        }
        let at = divided[self.random.index(divided.len())];
        let count = another_count(&mut self.random);
        let view = &mut self.views[at];
        for option in view.options.iter_mut().filter(|option| option.starts_with("fragments")) {
            option.clone_from(&count);
        }
        let (name, create) = (view.name.clone(), view.create());
        // Versions from before cannot be read any more.
        self.kept.retain(|kept| !kept.text.contains(&name));
        self.execute(&create.replacen("CREATE", "CREATE OR REPLACE", 1));
        self.counts.divided += 1;
    }
}
