//! A case as it is written in its file.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// The head of a section.
pub const HEAD: &str = "=== ";

/// See the module.
pub struct Case {
    pub name: String,
    /// What the case is about.
    pub about: String,
    pub inputs: Vec<Input>,
    pub scripts: Vec<String>,
}

/// A file that scripts read.
pub struct Input {
    /// The head of its section.
    pub head: String,
    pub text: String,
}

/// How many folders there were.
static FOLDERS: AtomicU32 = AtomicU32::new(0);

impl Case {
    pub fn read(name: &str, text: &str) -> Case {
        let head = format!("\n{HEAD}");
        let mut sections = text.split(head.as_str());
        let about = sections.next().unwrap_or_default().trim_end().to_string();
        let (mut inputs, mut scripts) = (Vec::new(), Vec::new());
        for section in sections {
            let (head, body) = section.split_once('\n').unwrap_or((section, ""));
            let body = body.trim_end().to_string();
            if head.starts_with("file ") {
                inputs.push(Input { head: head.to_string(), text: body });
            } else if head == "sql" {
                scripts.push(body);
            }
        }
        assert!(!scripts.is_empty(), "{name} has no script");
        Case { name: name.to_string(), about, inputs, scripts }
    }

    /// Writes the inputs into a new folder.
    pub fn write_inputs(&self) -> Folder {
        // Several tests of one process may have the same case.
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let name = format!("tidemill-golden-{}-{number}-{}", std::process::id(), self.name);
        let path = std::env::temp_dir().join(name);
        let folder = Folder { path };
        folder.empty();
        for input in &self.inputs {
            let words: Vec<&str> = input.head.split(' ').collect();
            match words.as_slice() {
                ["file", name] => {
                    std::fs::write(folder.path.join(name), format!("{}\n", input.text)).unwrap()
                }
                ["file", name, "in", "parts", "of", rows] => {
                    write_parts(&folder.path.join(name), &input.text, rows.parse().unwrap());
                }
                _ => panic!("{}: '{}' is no head of a file", self.name, input.head),
            }
        }
        folder
    }
}

fn write_parts(folder: &Path, text: &str, rows: usize) {
    std::fs::create_dir(folder).unwrap();
    let mut lines = text.lines();
    let header = lines.next().unwrap();
    let lines: Vec<&str> = lines.collect();
    for (number, part) in lines.chunks(rows).enumerate() {
        let text = format!("{header}\n{}\n", part.join("\n"));
        std::fs::write(folder.join(format!("part-{number:03}.csv")), text).unwrap();
    }
}

/// A folder that is removed at the end.
pub struct Folder {
    pub path: PathBuf,
}

impl Folder {
    fn empty(&self) {
        let _ = std::fs::remove_dir_all(&self.path);
        std::fs::create_dir_all(&self.path).unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}
