//! Rule `cycles`: the modules of a crate do not import each other in circles.
//!
//! The modules below one parent are the nodes, and everything below such a module belongs to it. There is an edge from
//! one to another if a file of the first names something of the second: with `use`, or with a path in the code, tests
//! excepted. A name that a module only passes on (`pub use`) counts for the module that defines it. The parent's own
//! file (`mod.rs`, `lib.rs`) is not a node among its children: in Rust they see what it defines, and it sees them.

use std::collections::{BTreeMap, BTreeSet};

use crate::Finding;
use crate::imports::{self, Imports};

/// The most steps from a name that is passed on to its definition.
const STEPS_MAX: usize = 32;

/// A module: the names from the crate's root on.
type Module = Vec<String>;

struct ModuleFile {
    path: String,
    imports: Imports,
}

/// The modules of a crate.
struct Modules {
    files: BTreeMap<Module, ModuleFile>,
}

/// One module names another one of the same parent; where it does first.
type Edges = BTreeMap<(String, String), (String, usize)>;

/// Checks all crates among the files; each file is its path and its text.
pub fn check(files: &[(String, String)]) -> Vec<Finding> {
    let mut folders: BTreeSet<&str> = BTreeSet::new();
    for (path, _) in files {
        let folder = path.strip_suffix("/lib.rs").or(path.strip_suffix("/main.rs"));
        folders.extend(folder.filter(|folder| folder.ends_with("/src")));
    }
    let mut findings = Vec::new();
    for folder in folders {
        for (parent, edges) in Modules::read(folder, files).edges() {
            let place = [&[folder.to_owned()], &parent[..]].concat().join("/");
            let circles = circles_of(&edges);
            findings.extend(circles.iter().map(|circle| circle_found(&place, circle, &edges)));
        }
    }
    findings
}

impl Modules {
    fn read(folder: &str, files: &[(String, String)]) -> Modules {
        let own = files.iter().filter_map(|(path, text)| {
            let inside = path.strip_prefix(folder)?.strip_prefix('/')?.strip_suffix(".rs")?;
            (!inside.starts_with("bin/")).then(|| (module_of(inside), path, text))
        });
        let own: Vec<(Module, &String, &String)> = own.collect();
        let mut modules = BTreeMap::new();
        for (module, path, text) in &own {
            let is_child = |name: &str| {
                own.iter().any(|(other, ..)| {
                    other.len() > module.len() && other.starts_with(module) && other[module.len()] == name
                })
            };
            let imports = imports::read(text, module, is_child);
            modules.insert(module.clone(), ModuleFile { path: (*path).clone(), imports });
        }
        let tests: Vec<Module> = modules
            .iter()
            .flat_map(|(module, file)| {
                file.imports
                    .test_modules
                    .iter()
                    .map(move |name| [&module[..], std::slice::from_ref(name)].concat())
            })
            .collect();
        modules.retain(|module: &Module, _| !tests.iter().any(|test| module.starts_with(test)));
        Modules { files: modules }
    }

    fn is_module(&self, path: &[String]) -> bool {
        self.files.keys().any(|module| module.starts_with(path))
    }

    /// The module that defines what a path names.
    fn resolve(&self, path: &[String], steps: usize) -> Module {
        for end in 0..path.len() {
            let (module, name) = (&path[..end], &path[end]);
            if self.is_module(&path[..=end]) {
                continue;
            }
            let Some(file) = self.files.get(module) else { return module.to_vec() };
            if steps == 0 || file.imports.items.contains(name) {
                return module.to_vec();
            }
            let rest = &path[end + 1..];
            if let Some(meant) = file.imports.bindings.get(name) {
                return self.resolve(&[meant, rest].concat(), steps - 1);
            }
            let of_glob = file.imports.globs.iter().find(|glob| {
                self.files.get(*glob).is_some_and(|file| {
                    file.imports.items.contains(name) || file.imports.bindings.contains_key(name)
                })
            });
            return match of_glob {
                Some(glob) => self.resolve(&[glob, &path[end..]].concat(), steps - 1),
                None => module.to_vec(),
            };
        }
        path.to_vec()
    }

    /// By parent, who names whom.
    fn edges(&self) -> BTreeMap<Module, Edges> {
        let mut edges: BTreeMap<Module, Edges> = BTreeMap::new();
        for (module, file) in &self.files {
            for reference in &file.imports.references {
                let target = self.resolve(&reference.path, STEPS_MAX);
                let shared = module.iter().zip(&target).take_while(|(own, other)| own == other).count();
                if let (Some(from), Some(to)) = (module.get(shared), target.get(shared)) {
                    let edges = edges.entry(module[..shared].to_vec()).or_default();
                    let place = (file.path.clone(), reference.line);
                    edges.entry((from.clone(), to.clone())).or_insert(place);
                }
            }
        }
        edges
    }
}

/// The module of a file below `src`, without its ending.
fn module_of(inside: &str) -> Module {
    let mut names: Module = inside.split('/').map(str::to_owned).collect();
    let is_root = names.len() == 1 && matches!(names[0].as_str(), "lib" | "main");
    if is_root || names.last().is_some_and(|name| name == "mod") {
        names.pop();
    }
    names
}

/// The largest groups in which every module leads to every other one.
fn circles_of(edges: &Edges) -> Vec<BTreeSet<String>> {
    let nodes: BTreeSet<&String> = edges.keys().flat_map(|(from, to)| [from, to]).collect();
    let mut circles: Vec<BTreeSet<String>> = Vec::new();
    for node in nodes {
        if circles.iter().any(|circle| circle.contains(node)) {
            continue;
        }
        let behind = reachable(edges, node);
        let circle: BTreeSet<String> =
            behind.iter().filter(|other| reachable(edges, other).contains(node)).cloned().collect();
        if !circle.is_empty() {
            circles.push(circle);
        }
    }
    circles
}

/// What a module leads to, over any number of steps; itself only if it is in a circle.
fn reachable(edges: &Edges, from: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut next = vec![from.to_owned()];
    while let Some(node) = next.pop() {
        for (_, to) in edges.keys().filter(|(start, _)| *start == node) {
            if found.insert(to.clone()) {
                next.push(to.clone());
            }
        }
    }
    found
}

/// The shortest way from a module of a circle back to itself.
fn shortest(circle: &BTreeSet<String>, edges: &Edges) -> Vec<(String, String)> {
    let way_back = |start: &String| {
        let mut ways: Vec<Vec<(String, String)>> = vec![Vec::new()];
        let mut seen = BTreeSet::new();
        while !ways.is_empty() {
            let mut longer = Vec::new();
            for way in ways {
                let end = way.last().map_or(start, |(_, to)| to);
                for edge in edges.keys().filter(|(from, to)| from == end && circle.contains(to)) {
                    let way = [&way[..], std::slice::from_ref(edge)].concat();
                    if edge.1 == *start {
                        return way;
                    }
                    if seen.insert(edge.1.clone()) {
                        longer.push(way);
                    }
                }
            }
            ways = longer;
        }
        Vec::new()
    };
    circle.iter().map(way_back).min_by_key(Vec::len).unwrap_or_default()
}

fn circle_found(place: &str, circle: &BTreeSet<String>, edges: &Edges) -> Finding {
    let way = shortest(circle, edges);
    let steps = way.iter().map(|edge| {
        let (file, line) = &edges[edge];
        format!("{} -> {} ({file}:{line})", edge.0, edge.1)
    });
    let steps: Vec<String> = steps.collect();
    let names: Vec<&str> = circle.iter().map(String::as_str).collect();
    Finding {
        file: place.to_owned(),
        line: 0,
        rule: "cycles",
        found: format!(
            "{} modules import each other ({}); shortest: {}",
            names.len(),
            names.join(", "),
            steps.join(", ")
        ),
        remedy: "move what both need into a module below them, or hand it over as an argument".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let file = |(path, text): &(&str, &str)| (format!("crates/x/src/{path}"), (*text).to_owned());
        let files: Vec<(String, String)> = files.iter().map(file).collect();
        check(&files).into_iter().map(|finding| format!("{}: {}", finding.file, finding.found)).collect()
    }

    #[test]
    fn a_circle_is_found_with_its_shortest_way() {
        let files = [
            ("lib.rs", "mod a; mod b; mod c; pub use a::A;"),
            ("a.rs", "\nuse crate::b::B;\nuse crate::c;"),
            ("b.rs", "use crate::c::C;"),
            ("c.rs", "fn f() -> crate::A {}"),
        ];
        let expected = "crates/x/src: 3 modules import each other (a, b, c); shortest: a -> c (crates/x/src/a.rs:3), \
                        c -> a (crates/x/src/c.rs:1)";
        assert_eq!(found(&files), [expected]);
        assert_eq!(found(&files[..3]), [""; 0], "c was the one that led back");
    }

    #[test]
    fn siblings_in_a_folder_form_no_circle_either() {
        let files = [
            ("lib.rs", "mod a;"),
            ("a/mod.rs", "mod b; mod c; pub(crate) use c::C;"),
            ("a/b.rs", "use super::C;"),
            ("a/c.rs", "use crate::a::b;"),
        ];
        let found = found(&files);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("crates/x/src/a: 2 modules import each other (b, c)"), "{found:?}");
    }

    #[test]
    fn folders_form_a_circle_through_any_of_their_files() {
        let files = [
            ("lib.rs", "mod a; mod d;"),
            ("a/mod.rs", "mod b;"),
            ("a/b.rs", "use crate::d::e::f;"),
            ("d.rs", "mod e;"),
            ("d/e.rs", "use crate::a;"),
        ];
        assert!(found(&files)[0].starts_with("crates/x/src: 2 modules import each other (a, d)"));
    }

    #[test]
    fn parents_and_tests_form_none() {
        let files = [
            ("lib.rs", "mod a; mod g; use a::b::B;\n#[cfg(test)]\nmod samples;"),
            ("a.rs", "mod b; use b::B; struct A;"),
            ("a/b.rs", "use super::A; use crate::g::G;"),
            ("g.rs", "#[cfg(test)]\nmod tests { use crate::a; }"),
            ("samples.rs", "use crate::a; use crate::g;"),
        ];
        assert_eq!(found(&files), [""; 0]);
    }
}
