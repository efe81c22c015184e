//! Running a page, block by block.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::compare::{Rule, is_as_shown};
use super::markdown::{Block, Item, items};
use super::shell;

/// What is wrong with a page: each with its line.
pub fn run(root: &Path, name: &str, text: &str) -> Vec<String> {
    let folder = TempDir::new().expect("a temporary folder");
    let mut page = Page {
        root,
        folder: folder.path(),
        given: String::new(),
        command: None,
        scripts: 0,
        named_scripts: Vec::new(),
    };
    let mut findings = Vec::new();
    for item in items(text) {
        let (line, result) = match item {
            Item::Block(block) => (block.line, page.block(&block)),
            Item::Hidden { line, what, text } => (line, page.hidden(&what, &text)),
            Item::Idle { line } => (line, Err("there is no block behind this marker".to_owned())),
        };
        findings.extend(result.err().map(|why| format!("{name}:{line}: {why}")));
    }
    for (line, script) in std::mem::take(&mut page.named_scripts) {
        let result = page.succeeds(&format!("tidemill validate {script}"), &Markers::default());
        findings.extend(result.err().map(|why| format!("{name}:{line}: {why}")));
    }
    findings
}

struct Page<'a> {
    root: &'a Path,
    folder: &'a Path,
    /// Definitions that stand before all SQL.
    given: String,
    /// The command whose output the next block may show.
    command: Option<String>,
    scripts: usize,
    /// Blocks of SQL that are files, with their lines.
    named_scripts: Vec<(usize, String)>,
}

/// What the markers of a block say.
#[derive(Default)]
struct Markers {
    file: Option<String>,
    is_output: bool,
    rule: Rule,
    interrupted_at: Option<String>,
    is_validated: bool,
    is_not_run: bool,
    is_run_by_ci: bool,
}

impl Markers {
    fn read(markers: &[String]) -> Result<Markers, String> {
        let mut read = Markers::default();
        for marker in markers {
            let has_reason = |said: &str| match marker.strip_prefix(said).map(str::trim) {
                Some("") => Err(format!("say why: {said} REASON")),
                found => Ok(found.is_some()),
            };
            if let Some(name) = marker.strip_prefix("file ") {
                read.file = Some(name.to_owned());
            } else if let Some(rest) = marker.strip_prefix("interrupted once ") {
                let name = rest.strip_suffix(" has rows").ok_or("write: interrupted once FILE has rows")?;
                read.interrupted_at = Some(name.to_owned());
            } else if has_reason("not run:")? {
                read.is_not_run = true;
            } else if has_reason("validated:")? {
                read.is_validated = true;
            } else {
                match marker.as_str() {
                    "output" => read.is_output = true,
                    "numbers vary" => read.rule.numbers_vary = true,
                    "any order" => read.rule.any_order = true,
                    "ci" => read.is_run_by_ci = true,
                    other => return Err(format!("the marker '{other}' means nothing")),
                }
            }
        }
        Ok(read)
    }
}

impl Page<'_> {
    fn hidden(&mut self, what: &str, text: &str) -> Result<(), String> {
        match what.split_once(' ') {
            None if what == "given" => self.given.push_str(text),
            None if what == "run" => {
                for command in text.lines() {
                    self.succeeds(command, &Markers::default())?;
                }
            }
            Some(("file", name)) => self.write(name, text),
            _ => return Err(format!("'{what}' means nothing before a text")),
        }
        Ok(())
    }

    fn block(&mut self, block: &Block) -> Result<(), String> {
        let markers = Markers::read(&block.markers)?;
        let command = self.command.take();
        if markers.is_run_by_ci {
            self.command = Some(block.text.clone());
            return Ok(());
        }
        if markers.is_not_run {
            return Ok(());
        }
        if markers.is_output {
            let command = command.ok_or("there is no command in the block before")?;
            return self.prints(&command, &block.text, &markers);
        }
        let language = block.language.as_deref();
        if let Some(name) = &markers.file {
            self.write(name, &block.text);
            // What it reads may stand further below.
            if language == Some("sql") {
                self.named_scripts.push((block.line, name.clone()));
            }
            return Ok(());
        }
        match language {
            Some("sql") => self.sql(&block.text, &markers),
            Some("rust") => self.is_in_an_example(&block.text),
            None | Some("console") if block.text.starts_with("$ ") => self.commands(&block.text, &markers),
            _ => {
                Err("this is nothing that can be run; a marker says what it is (see crates/cli/tests/integration/guide)"
                    .into())
            }
        }
    }

    /// Commands, each with what it prints.
    fn commands(&mut self, text: &str, markers: &Markers) -> Result<(), String> {
        let steps = steps(text);
        let has_one = steps.len() == 1;
        for (command, shown) in steps {
            if shown.trim().is_empty() {
                if has_one {
                    self.command = Some(command.clone());
                }
                self.succeeds(&command, markers)?;
            } else {
                self.prints(&command, &shown, markers)?;
            }
        }
        Ok(())
    }

    fn sql(&mut self, text: &str, markers: &Markers) -> Result<(), String> {
        self.scripts += 1;
        let name = format!("block-{}.sql", self.scripts);
        self.write(&name, &format!("{}{text}", self.given));
        let upper = text.to_uppercase();
        let has_sink =
            ["CREATE SINK", "INSERT INTO", "MATERIALIZED"].iter().any(|words| upper.contains(words));
        let command = match (markers.is_validated, has_sink) {
            (true, _) => format!("tidemill validate {name}"),
            (false, true) => format!("tidemill run {name}"),
            (false, false) => format!("tidemill sql -f {name}"),
        };
        self.succeeds(&command, markers)
    }

    fn succeeds(&self, command: &str, markers: &Markers) -> Result<(), String> {
        let ended = shell::run(self.folder, &of_users(command), markers.interrupted_at.as_deref());
        if ended.success { Ok(()) } else { Err(format!("`{command}` fails:\n{}", ended.printed.trim_end())) }
    }

    fn prints(&self, command: &str, shown: &str, markers: &Markers) -> Result<(), String> {
        let ended = shell::run(self.folder, &of_users(command), markers.interrupted_at.as_deref());
        if is_as_shown(shown, &ended.printed, markers.rule) {
            Ok(())
        } else {
            Err(format!("`{command}` does not print what is shown, but:\n{}", ended.printed.trim_end()))
        }
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.folder.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    }

    fn is_in_an_example(&self, block: &str) -> Result<(), String> {
        let block = lines(block);
        let mut examples = rust_files(&self.root.join("examples"));
        for parent in ["crates", "apps"] {
            for entry in fs::read_dir(self.root.join(parent)).expect("the packages") {
                examples.extend(rust_files(&entry.expect("a package").path().join("examples")));
            }
        }
        let stands_in = |path: &PathBuf| {
            let text = lines(&fs::read_to_string(path).expect("an example"));
            text.windows(block.len()).any(|window| window == block)
        };
        if examples.iter().any(stands_in) {
            Ok(())
        } else {
            Err("no example has these lines; a marker says why: <!-- example: not run: REASON -->".into())
        }
    }
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().map(|entry| entry.expect("an entry").path());
    entries.filter(|path| path.extension().is_some_and(|ending| ending == "rs")).collect()
}

/// Without indentation and empty lines.
fn lines(text: &str) -> Vec<String> {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

/// A command as the users of an installed Tidemill write it.
fn of_users(command: &str) -> String {
    let command = command
        .replace("cargo run -p tidemill-cli --", "tidemill")
        .replace("cargo run --release --", "tidemill");
    command.replace("target/release/tidemill", "tidemill")
}

/// Commands and what is shown below each. A command continues as long as a quote is open, or `\` ends its line.
fn steps(text: &str) -> Vec<(String, String)> {
    let mut steps: Vec<(String, String)> = Vec::new();
    let mut goes_on = false;
    for line in text.lines() {
        match (line.strip_prefix("$ "), steps.last_mut()) {
            (None, Some((command, _))) if goes_on => {
                command.push('\n');
                command.push_str(line);
            }
            (Some(command), _) => steps.push((command.to_owned(), String::new())),
            (None, Some((_, shown))) => {
                shown.push_str(line);
                shown.push('\n');
            }
            (None, None) => {}
        }
        let command = &steps.last().expect("the text begins with a command").0;
        // Behind the command there may be a comment.
        let command = command.split("  #").next().unwrap_or_default();
        let in_quotes = |quote: char| command.matches(quote).count() % 2 == 1;
        goes_on = (in_quotes('"') || (!command.contains('"') && in_quotes('\''))) || command.ends_with('\\');
    }
    steps
}

#[test]
fn a_command_ends_with_its_quotes() {
    let text = "$ tidemill sql -c \"SELECT 1,\n    'a' AS b\"\n1\n2\n$ cat \\\n  x  # it's\n";
    let expected = [("tidemill sql -c \"SELECT 1,\n    'a' AS b\"", "1\n2\n"), ("cat \\\n  x  # it's", "")];
    let expected: Vec<(String, String)> =
        expected.iter().map(|(a, b)| (a.to_string(), b.to_string())).collect();
    assert_eq!(steps(text), expected);
}
