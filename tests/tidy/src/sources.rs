//! Rules about single files.

use crate::Finding;
use crate::rust_text::{before_tests, code_only, has_word};

/// The files that may contain `unsafe`, each block with its reason.
pub const UNSAFE_ALLOWED: &[&str] = &[
    "crates/core/src/prefetch.rs",
    "crates/allocator/src/lib.rs",
    "crates/journal/src/map.rs",
    "crates/realtime/src/threads/linux.rs",
    "crates/connect/src/formats/line_protocol/block.rs",
    "crates/cli/src/sql/open_files.rs",
    "crates/python/src/convert.rs",
    // Loaded as WebAssembly, where they can harm nothing but themselves.
    "examples/wasm/changes.rs",
    "examples/wasm/geometric_mean.rs",
    "examples/wasm/initials.rs",
    "examples/wasm/wind_chill.rs",
];

/// The most lines of a Rust file.
pub const FILE_LINES_MAX: usize = 800;
/// The most characters of a line.
pub const LINE_CHARS_MAX: usize = 120;

/// What library code does not contain.
const OUTPUT_BANNED: &[&str] =
    &["println!", "eprintln!", "print!", "eprint!", "process::exit", "dbg!", "todo!", "unimplemented!"];

/// Names that say nothing.
const NAMES_BANNED: &[&str] = &["util", "utils", "common", "helper", "helpers", "misc"];

/// Written in two parts, so that this file does not break its own rule.
const MACHINE_PATHS: &[&str] = &[concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/tm", "p/")];

/// All rules about the text of a file.
pub fn check(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = machine_paths(path, text);
    if path.ends_with(".rs") {
        findings.extend(output(path, text));
        findings.extend(unsafe_code(path, text));
        findings.extend(file_length(path, text));
        findings.extend(line_length(path, text));
    }
    findings
}

/// Rule `output`.
pub fn output(path: &str, text: &str) -> Vec<Finding> {
    if !is_library(path) {
        return Vec::new();
    }
    let code = code_only(text);
    let lines = (1..).zip(before_tests(&code).lines());
    let banned = lines.flat_map(|(line, code)| {
        OUTPUT_BANNED.iter().filter(move |banned| begins_word(code, banned)).map(move |banned| (line, banned))
    });
    banned
        .map(|(line, banned)| Finding {
            file: path.to_owned(),
            line,
            rule: "output",
            found: format!("`{banned}` in a library"),
            remedy: "return a value or a typed error, and let the command line print or exit".to_owned(),
        })
        .collect()
}

/// Rule `unsafe`.
pub fn unsafe_code(path: &str, text: &str) -> Vec<Finding> {
    if UNSAFE_ALLOWED.contains(&path) {
        return Vec::new();
    }
    let code = code_only(text);
    let lines = (1..).zip(code.lines()).filter(|(_, code)| has_word(code, "unsafe"));
    lines
        .map(|(line, _)| Finding {
            file: path.to_owned(),
            line,
            rule: "unsafe",
            found: "`unsafe` outside of the listed files".to_owned(),
            remedy: format!("do without, or put it into one of {UNSAFE_ALLOWED:?} with its reason"),
        })
        .collect()
}

/// Rule `file-length`.
pub fn file_length(path: &str, text: &str) -> Option<Finding> {
    let lines = text.lines().count();
    (lines > FILE_LINES_MAX).then(|| Finding {
        file: path.to_owned(),
        line: FILE_LINES_MAX + 1,
        rule: "file-length",
        found: format!("{lines} lines, more than {FILE_LINES_MAX}"),
        remedy: "give each concern a file of its own".to_owned(),
    })
}

/// Rule `line-length`.
pub fn line_length(path: &str, text: &str) -> Vec<Finding> {
    let long = (1..).zip(text.lines()).filter(|(_, line)| line.chars().count() > LINE_CHARS_MAX);
    long.filter(|(_, line)| !line.trim_start().starts_with("//") && !line.contains("://"))
        .map(|(line, content)| Finding {
            file: path.to_owned(),
            line,
            rule: "line-length",
            found: format!("{} characters, more than {LINE_CHARS_MAX}", content.chars().count()),
            remedy: "run `cargo fmt`, or break a long literal by hand".to_owned(),
        })
        .collect()
}

/// Rule `names`.
pub fn names(path: &str) -> Option<Finding> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let stem = name.split('.').next().unwrap_or(name).to_lowercase();
    NAMES_BANNED.contains(&stem.as_str()).then(|| Finding {
        file: path.to_owned(),
        line: 0,
        rule: "names",
        found: format!("`{name}` says nothing about what is inside"),
        remedy: "name it after its one concern".to_owned(),
    })
}

/// Rule `module-files`: the module of a folder is the folder's `mod.rs`, not a file beside the folder.
pub fn module_files(paths: &[String]) -> Vec<Finding> {
    let beside = |path: &&String| {
        let folder = path.strip_suffix(".rs").filter(|folder| folder.contains("/src/"));
        folder.is_some_and(|folder| paths.iter().any(|other| other == folder))
    };
    let finding = |path: &String| Finding {
        file: path.clone(),
        line: 0,
        rule: "module-files",
        found: "a module beside its folder".to_owned(),
        remedy: "move it into the folder, as `mod.rs`".to_owned(),
    };
    paths.iter().filter(beside).map(finding).collect()
}

/// Rule `machine-paths`. Tests may name the system's temporary folder.
pub fn machine_paths(path: &str, text: &str) -> Vec<Finding> {
    let is_source = (path.starts_with("crates/") || path.starts_with("apps/")) && path.contains("/src/");
    let banned = if is_source { MACHINE_PATHS } else { &MACHINE_PATHS[..2] };
    let mut findings = Vec::new();
    for (line, content) in (1..).zip(text.lines()) {
        for banned in banned.iter().filter(|banned| has_absolute(content, banned)) {
            findings.push(Finding {
                file: path.to_owned(),
                line,
                rule: "machine-paths",
                found: format!("`{banned}` is a path of one machine"),
                remedy: "take the path from an argument, or relative to the repository".to_owned(),
            });
        }
    }
    findings
}

/// Library code: the `src` of every crate and application but the command line's, programs beside it excepted.
fn is_library(path: &str) -> bool {
    let of_library = path.starts_with("apps/")
        || (path.starts_with("crates/")
            && !path.starts_with("crates/cli/")
            && !path.starts_with("crates/testing/"));
    let program = path.contains("/src/bin/") || path.ends_with("/src/main.rs");
    of_library && path.contains("/src/") && !program
}

/// Whether `banned` is in the line and is not the end of a longer word.
fn begins_word(line: &str, banned: &str) -> bool {
    line.match_indices(banned).any(|(at, _)| !line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_'))
}

/// Whether the path begins here, and is not the middle of a longer one.
fn has_absolute(line: &str, banned: &str) -> bool {
    line.match_indices(banned)
        .any(|(at, _)| !line[..at].ends_with(|c: char| c.is_alphanumeric() || "._-}/*".contains(c)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "crates/core/src/a.rs";

    #[test]
    fn libraries_do_not_print() {
        let text = "//! println!(1)\nfn f() {\n    println!(\"x\");\n    std::process::exit(1)\n}\n";
        let lines: Vec<usize> = output(SOURCE, text).iter().map(|finding| finding.line).collect();
        assert_eq!(lines, [3, 4]);
        assert_eq!(output("crates/cli/src/a.rs", text), []);
        assert_eq!(output("crates/core/tests/a.rs", text), []);
        assert_eq!(output("crates/core/build.rs", text), []);
        assert_eq!(output(SOURCE, &format!("#[cfg(test)]\nmod tests {{ {text} }}")), []);
    }

    #[test]
    fn one_banned_word_is_one_finding() {
        assert_eq!(output(SOURCE, "eprintln!()").len(), 1);
    }

    #[test]
    fn unsafe_is_found_in_code_only() {
        let text = "// unsafe\n#![deny(unsafe_code)]\nunsafe fn f() {}\n";
        assert_eq!(unsafe_code(SOURCE, text).iter().map(|finding| finding.line).collect::<Vec<_>>(), [3]);
        assert_eq!(unsafe_code(UNSAFE_ALLOWED[0], text), []);
    }

    #[test]
    fn lengths_are_limited() {
        assert_eq!(file_length(SOURCE, &"x\n".repeat(FILE_LINES_MAX)), None);
        assert!(file_length(SOURCE, &"x\n".repeat(FILE_LINES_MAX + 1)).is_some());
        let long = "x".repeat(LINE_CHARS_MAX + 1);
        assert_eq!(line_length(SOURCE, &"ä".repeat(LINE_CHARS_MAX)), []);
        assert_eq!(line_length(SOURCE, &format!("\n{long}"))[0].line, 2);
        assert_eq!(line_length(SOURCE, &format!("    // {long}\nlet a = \"https://{long}\";")), []);
    }

    #[test]
    fn names_say_something() {
        assert!(names("crates/core/src/utils.rs").is_some());
        assert!(names("crates/common").is_some());
        assert_eq!(names("crates/core/src/commonest.rs"), None);
    }

    #[test]
    fn a_folder_has_its_module_inside() {
        let paths = [
            "crates/a/src/b",
            "crates/a/src/b.rs",
            "crates/a/src/b/mod.rs",
            "crates/a/tests/c",
            "crates/a/tests/c.rs",
        ];
        let found = module_files(&paths.map(str::to_owned));
        assert_eq!(
            found.iter().map(|finding| finding.file.as_str()).collect::<Vec<_>>(),
            ["crates/a/src/b.rs"]
        );
    }

    #[test]
    fn machine_paths_are_found_where_they_begin() {
        let text = |path: &str| format!("let path = \"{path}x\";");
        for banned in MACHINE_PATHS {
            assert_eq!(machine_paths(SOURCE, &text(banned)).len(), 1, "{banned}");
        }
        assert_eq!(machine_paths("crates/core/tests/a.rs", &text(MACHINE_PATHS[2])), []);
        assert_eq!(machine_paths("docs/a.md", &text(MACHINE_PATHS[0])).len(), 1);
        assert_eq!(machine_paths(SOURCE, &text(&format!("../net{}", MACHINE_PATHS[0]))), []);
    }
}
