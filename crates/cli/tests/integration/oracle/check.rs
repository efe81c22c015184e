//! The checks of a run: answers of readers against DuckDB's, and against themselves.

use std::thread;
use std::time::{Duration, Instant};

use super::client::Answer;
use super::opinion::Cut;
use super::reader::{Question, question, whole};
use super::run::{KEPT_MAX, Kept, PATIENCE, RAW, Run, cell, int};
use super::view::View;
use tidemill_testing::duckdb::difference;
use tidemill_testing::duckdb::{Row, Value};

impl Run {
    /// An answer that the server may refuse, since it has the cycle no more or not yet.
    #[track_caller]
    pub fn refused(&mut self, text: &str, error: &str) {
        const REASONS: &[&str] = &["can be read", "retain_versions", "no cycle has been committed yet"];
        let is_known = REASONS.iter().any(|reason| error.contains(reason));
        assert!(is_known, "seed {}: {error}\n{text}", self.seed);
        println!("refused: {error}: {text}");
        self.counts.refused += 1;
    }

    fn questions(&mut self, count: usize) -> Vec<Question> {
        (0..count).map(|_| question(&mut self.random, &self.views)).collect()
    }

    /// Several statements at one cycle, by its number.
    pub fn check_cycle(&mut self) {
        let fragments = self.client.query("SHOW FRAGMENTS").expect("it answers").expect("SHOW FRAGMENTS");
        let mut range = (0, i64::MAX);
        for row in fragments.iter().filter(|row| RAW.contains(&cell(row, 0))) {
            let [oldest, newest] = [6, 7].map(|at| cell(row, at).parse::<i64>());
            range = (range.0.max(oldest.unwrap_or(0)), range.1.min(newest.unwrap_or(-1)));
        }
        if range.0 > range.1 {
            self.counts.refused += 1;
            return;
        }
        let back = self.random.index((range.1 - range.0 + 1) as usize) as i64;
        let cycle = (range.1 - if self.random.is_once_in(2) { back } else { back % 3 }) as u64;
        let suffix = format!(" AS OF CYCLE {cycle}");
        let Some(cut) = self.read_cut(&suffix) else { return };
        for question in self.questions(3) {
            let text = question.ours.clone() + &suffix;
            let Some(answer) = self.compare(cut, &question, &text) else { continue };
            if self.kept.len() == KEPT_MAX {
                self.kept.swap_remove(self.random.index(KEPT_MAX));
            }
            let is_ordered = question.is_ordered;
            self.kept.push(Kept { cycle, text, answer, is_ordered, kills: self.kills });
        }
        self.repeat(2);
    }

    /// Several statements of a transaction, which read one cycle.
    pub fn check_transaction(&mut self) {
        self.execute("BEGIN");
        if let Some(cut) = self.read_cut("") {
            let questions = self.questions(3);
            let is_read = |question: &Question| self.compare(cut, question, &question.ours.clone()).is_some();
            if questions.iter().all(is_read) {
                // The transaction still reads the same cycle.
                let again = self.read_cut("");
                assert_eq!(again, Some(cut), "seed {}: a transaction reads two cycles", self.seed);
            }
        }
        self.execute("ROLLBACK");
    }

    /// One statement that says by itself at which cycle it reads.
    pub fn check_statement(&mut self) {
        let asked = question(&mut self.random, &self.views);
        let last: Vec<String> =
            RAW.iter().map(|view| format!("(SELECT max(n) FROM {view}) AS of_{view}")).collect();
        let text = format!(
            "SELECT * FROM (SELECT {}) AS cut LEFT JOIN (SELECT 1 AS there, inside.* FROM ({}) AS inside) AS \
             found ON true",
            last.join(", "),
            asked.ours
        );
        let answer = self.client.query(&text).expect("the server answers");
        let rows = match answer.values() {
            Ok(rows) => rows,
            Err(error) => return self.refused(&text, &error),
        };
        let number = |at: usize| if let Value::Null = rows[0][at] { -1 } else { int(&rows[0][at]) };
        let cut = Cut { s: number(0).max(number(3)), t: number(1).max(number(4)), u: number(2) };
        // What is known of the rows must go as far; a transaction reads at the cycle that all views have.
        let begun = Instant::now();
        while !self.cut_now().is_at_least(cut) {
            assert!(begun.elapsed() < PATIENCE, "the rows up to {cut:?} cannot be read");
        }
        let is_there = |row: &&Row| !matches!(row[RAW.len()], Value::Null);
        let ours: Vec<Row> = rows.iter().filter(is_there).map(|row| row[RAW.len() + 1..].to_vec()).collect();
        let theirs = self.opinion.answer(cut, &asked.duckdb);
        self.judge(cut, &asked, &text, &ours, &theirs, false);
    }

    /// Compares an answer with DuckDB's over the rows up to the cut. `None` if it cannot be read.
    fn compare(&mut self, cut: Cut, question: &Question, text: &str) -> Option<Answer> {
        let answer = self.client.query(text).expect("the server answers");
        match answer.values() {
            Ok(ours) => {
                let theirs = self.opinion.answer(cut, &question.duckdb);
                self.judge(cut, question, text, &ours, &theirs, question.is_ordered);
                Some(answer)
            }
            Err(error) => {
                self.refused(text, &error);
                None
            }
        }
    }

    fn judge(
        &mut self,
        cut: Cut,
        asked: &Question,
        text: &str,
        ours: &[Row],
        theirs: &[Row],
        is_ordered: bool,
    ) {
        self.counts.compared += 1;
        if let Some(difference) = difference(ours, theirs, is_ordered) {
            let views = self.views.iter().filter(|view| asked.views.contains(&view.name));
            let views: String =
                views.map(|view| format!("{};\n-- DuckDB: {}\n", view.create(), view.duckdb)).collect();
            let (more, fewer) = (apart(ours, theirs), apart(theirs, ours));
            panic!(
                "seed {}, {cut:?}, after {} kills:\n{text}\n{difference}\n{views}only ours:\n{more}only \
                 DuckDB's:\n{fewer}",
                self.seed, self.kills
            );
        }
    }

    /// Everything that all views have, once nothing comes any more and all have it.
    pub fn check_whole(&mut self) {
        let begun = Instant::now();
        while !self.is_whole() {
            assert!(begun.elapsed() < PATIENCE, "seed {}: views are still behind", self.seed);
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn is_whole(&mut self) -> bool {
        self.execute("BEGIN");
        let cut = self.read_cut("");
        let views = self.views.clone();
        let mut is_read = |view: &View, cut| {
            let question = whole(view);
            self.compare(cut, &question, &question.ours.clone()).is_some()
        };
        let are_read = cut.is_some_and(|cut| views.iter().all(|view| is_read(view, cut)));
        self.execute("ROLLBACK");
        are_read
    }

    /// Repeats this many of the questions whose answers were kept.
    pub fn repeat(&mut self, count: usize) {
        for _ in 0..count.min(self.kept.len()) {
            let at = if count < self.kept.len() { self.random.index(self.kept.len()) } else { 0 };
            let kept = self.kept.swap_remove(at);
            let again = self.client.query(&kept.text).expect("the server answers");
            match again.values() {
                Ok(_) => {
                    if again != kept.answer {
                        println!("another order after {} kills: {}", self.kills - kept.kills, kept.text);
                    }
                    let is_same = if kept.is_ordered {
                        again == kept.answer
                    } else {
                        again.sorted() == kept.answer.sorted()
                    };
                    assert!(
                        is_same,
                        "seed {}: another answer: {}\n{:?}\n{:?}",
                        self.seed, kept.text, kept.answer, again
                    );
                    self.counts.repeated += 1;
                    self.counts.repeated_after_kill += usize::from(kept.kills < self.kills);
                    self.kept.push(kept);
                }
                Err(error) => {
                    assert!(is_outside(&error, kept.cycle), "seed {}: {error}\n{}", self.seed, kept.text);
                    self.refused(&kept.text, &error);
                }
            }
        }
    }
}

/// Whether an error names this cycle, and others that can be read.
fn is_outside(error: &str, cycle: u64) -> bool {
    let Some((_, range)) = error.split_once("; the cycles ") else {
        return error.contains("no cycle has been committed yet");
    };
    let mut numbers = range.split(' ').filter_map(|word| word.parse::<u64>().ok());
    let (oldest, newest) = (numbers.next(), numbers.next());
    let is_inside = oldest <= Some(cycle) && Some(cycle) <= newest;
    newest.is_some() && !is_inside && error.contains(&format!("cycle {cycle} "))
}

/// Rows of one answer that the other does not have.
fn apart(one: &[Row], other: &[Row]) -> String {
    let is_same = |row: &Row, other: &Row| row.iter().zip(other).all(|(value, other)| value.is_same(other));
    let alone = one.iter().filter(|row| !other.iter().any(|other| is_same(row, other)));
    alone
        .take(10)
        .map(|row| format!("    {}\n", row.iter().map(Value::to_string).collect::<Vec<_>>().join(" | ")))
        .collect()
}
