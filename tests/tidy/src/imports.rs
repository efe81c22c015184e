//! What one file of a crate names: the paths that begin at a module of its own crate, and the names that it binds with
//! `use`.

use std::collections::{BTreeMap, BTreeSet};

use crate::rust_text::code_only;

/// A path from the crate's root, and the line that names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Names of modules, then of an item; `*` last for all items of a module.
    pub path: Vec<String>,
    /// From 1.
    pub line: usize,
}

/// What a file says about modules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Imports {
    /// Every path into the crate, outside of tests.
    pub references: Vec<Reference>,
    /// The names that `use` binds here, with what they stand for. Children of the module see all of them.
    pub bindings: BTreeMap<String, Vec<String>>,
    /// The modules of which `use` binds all names.
    pub globs: Vec<Vec<String>>,
    /// The names of the items that are defined here.
    pub items: BTreeSet<String>,
    /// The child modules that exist for tests only.
    pub test_modules: BTreeSet<String>,
}

#[derive(Clone, Copy, Debug)]
struct Token<'a> {
    text: &'a str,
    line: usize,
}

/// Reads the file of `module`, which has these child modules.
pub fn read(text: &str, module: &[String], is_child: impl Fn(&str) -> bool) -> Imports {
    let code = code_only(text);
    let mut imports = Imports::default();
    let tokens = without_tests(&tokens(&code), &mut imports.test_modules);
    let mut inline: Vec<(&str, usize)> = Vec::new();
    let (mut depth, mut at) = (0, 0);
    while at < tokens.len() {
        let text = tokens[at].text;
        let next = |ahead: usize| tokens.get(at + ahead).map_or("", |token| token.text);
        let before = if at == 0 { "" } else { tokens[at - 1].text };
        match text {
            "{" => depth += 1,
            "}" => {
                depth -= 1;
                inline.pop_if(|(_, outside)| *outside == depth);
            }
            "mod" if next(2) == "{" => inline.push((next(1), depth)),
            // In a type, `use<'a>` captures.
            "use" if next(1) != "<" => {
                let mut base = module.to_vec();
                base.extend(inline.iter().map(|(name, _)| (*name).to_owned()));
                let child = |name: &str| inline.is_empty() && is_child(name);
                let end = (at..tokens.len()).find(|end| tokens[*end].text == ";").unwrap_or(tokens.len());
                let mut tree =
                    UseTree { tokens: &tokens[at + 1..end], at: 0, base: &base, imports: &mut imports };
                tree.read(&[], &child);
                at = end;
            }
            "crate" | "super" | "self" if next(1) == "::" && before != "::" => {
                let mut base = module.to_vec();
                base.extend(inline.iter().map(|(name, _)| (*name).to_owned()));
                let line = tokens[at].line;
                let mut path = vec![text];
                while at + 2 < tokens.len() && tokens[at + 1].text == "::" && is_name(tokens[at + 2].text) {
                    path.push(tokens[at + 2].text);
                    at += 2;
                }
                if let Some(path) = absolute(&path, &base, |_| false) {
                    imports.references.push(Reference { path, line });
                }
            }
            "struct" | "enum" | "union" | "trait" | "fn" | "type" | "const" | "static" | "macro_rules"
                if depth == 0 =>
            {
                let name = (at + 1..tokens.len()).find(|name| is_name(tokens[*name].text));
                imports.items.extend(name.map(|name| tokens[name].text.to_owned()));
            }
            _ => {}
        }
        at += 1;
    }
    imports
}

/// Reads what follows the word `use`.
struct UseTree<'a> {
    tokens: &'a [Token<'a>],
    at: usize,
    base: &'a [String],
    imports: &'a mut Imports,
}

impl<'a> UseTree<'a> {
    fn text(&self) -> &'a str {
        self.tokens.get(self.at).map_or("", |token| token.text)
    }

    /// One branch of the tree, behind `prefix`.
    fn read(&mut self, prefix: &[&'a str], is_child: &dyn Fn(&str) -> bool) {
        let mut path = prefix.to_vec();
        let line = self.tokens.get(self.at).map_or(0, |token| token.line);
        loop {
            match self.text() {
                "::" => self.at += 1,
                "{" => {
                    self.at += 1;
                    while !matches!(self.text(), "}" | "") {
                        self.read(&path, is_child);
                        if self.text() == "," {
                            self.at += 1;
                        }
                    }
                    self.at += 1;
                    return;
                }
                "*" => {
                    self.at += 1;
                    path.push("*");
                    return self.bind(&path, None, line, is_child);
                }
                "as" => {
                    self.at += 1;
                    let name = self.text();
                    self.at += 1;
                    return self.bind(&path, Some(name), line, is_child);
                }
                name if is_name(name) => {
                    path.push(name);
                    self.at += 1;
                }
                _ => return self.bind(&path, None, line, is_child),
            }
        }
    }

    fn bind(&mut self, path: &[&str], name: Option<&str>, line: usize, is_child: &dyn Fn(&str) -> bool) {
        let path = match path {
            [module @ .., "self"] if !module.is_empty() => module,
            path => path,
        };
        let Some(absolute) = absolute(path, self.base, is_child) else { return };
        match (name, path.last()) {
            (None, Some(&"*")) => self.imports.globs.push(absolute[..absolute.len() - 1].to_vec()),
            (name, last) => {
                let name = name.or(last.copied()).unwrap_or_default();
                self.imports.bindings.insert(name.to_owned(), absolute.clone());
            }
        }
        self.imports.references.push(Reference { path: absolute, line });
    }
}

/// A path from the crate's root; `None` if it leads out of the crate.
fn absolute(path: &[&str], base: &[String], is_child: impl Fn(&str) -> bool) -> Option<Vec<String>> {
    let (first, mut rest) = path.split_first()?;
    let mut found = match *first {
        "crate" => Vec::new(),
        "self" => base.to_vec(),
        "super" => base.split_last()?.1.to_vec(),
        child if is_child(child) => [base, &[child.to_owned()]].concat(),
        _ => return None,
    };
    while let Some(("super", more)) = rest.split_first().map(|(first, more)| (*first, more)) {
        found.pop()?;
        rest = more;
    }
    found.extend(rest.iter().map(|name| (*name).to_owned()));
    Some(found)
}

fn is_name(text: &str) -> bool {
    text.starts_with(|first: char| first.is_alphabetic() || first == '_')
}

fn tokens(code: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    for (line, text) in (1..).zip(code.lines()) {
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let word = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            let length = match word {
                0 if rest.starts_with("::") => 2,
                0 => first.len_utf8(),
                length => length,
            };
            if !first.is_whitespace() {
                tokens.push(Token { text: &rest[..length], line });
            }
            rest = &rest[length..];
        }
    }
    tokens
}

/// The tokens without items under `#[cfg(test)]`; those that are modules of files are noted.
fn without_tests<'a>(tokens: &[Token<'a>], modules: &mut BTreeSet<String>) -> Vec<Token<'a>> {
    const ATTRIBUTE: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let mut kept = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let is_test =
            ATTRIBUTE.iter().zip(&tokens[at..]).filter(|(text, token)| **text == token.text).count();
        if is_test < ATTRIBUTE.len() {
            kept.push(tokens[at]);
            at += 1;
            continue;
        }
        let (start, mut depth) = (at, 0);
        at += ATTRIBUTE.len();
        while at < tokens.len() {
            match tokens[at].text {
                "{" | "(" | "[" => depth += 1,
                // What ends here has the attribute's item as its last part.
                "}" | ")" | "]" if depth == 0 => break,
                "}" | ")" | "]" => depth -= 1,
                _ => {}
            }
            at += 1;
            if depth == 0 && matches!(tokens[at - 1].text, ";" | "}" | ",") {
                break;
            }
        }
        if let Some(name) = tokens[start..at].windows(3).find(|w| w[0].text == "mod" && w[2].text == ";") {
            modules.insert(name[1].text.to_owned());
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Imports {
        super::read(text, &["a".to_owned(), "b".to_owned()], |name| name == "child")
    }

    fn paths(text: &str) -> Vec<String> {
        read(text).references.iter().map(|reference| reference.path.join("::")).collect()
    }

    #[test]
    fn trees_of_use_are_taken_apart() {
        assert_eq!(
            paths("use crate::{c::{self, D as E, f::*}, g};\nuse std::io;\npub(crate) use super::h;"),
            ["c", "c::D", "c::f::*", "g", "a::h"]
        );
        let imports = read("use crate::{c::{self, D as E, f::*}};\npub use child::I;\nuse super::super::J;");
        let names: Vec<&str> = imports.bindings.keys().map(String::as_str).collect();
        assert_eq!(names, ["E", "I", "J", "c"]);
        assert_eq!(imports.bindings["I"], ["a", "b", "child", "I"]);
        assert_eq!(imports.bindings["J"], ["J"]);
        assert_eq!(imports.globs, [["c", "f"]]);
    }

    #[test]
    fn paths_in_code_are_references() {
        let head = "pub(crate) fn f(x: impl A + use<>, y: &crate::c::D) -> super::E {\n";
        let text = &[head, "    // crate::no\n    self::g::<crate::h>()\n}"].concat();
        assert_eq!(paths(text), ["c::D", "a::E", "a::b::g", "h"]);
        assert_eq!(read(text).references[3].line, 3);
        assert!(read(text).items.contains("f"));
    }

    #[test]
    fn inline_modules_have_a_parent_too() {
        assert_eq!(
            paths("mod m { use super::c; fn f() { super::super::d() } }\nuse super::e;"),
            ["a::b::c", "a::d", "a::e"]
        );
    }

    #[test]
    fn tests_are_left_out_wherever_they_stand() {
        let field = "struct S {\n#[cfg(test)]\na: crate::w\n}\n";
        let modules = "#[cfg(test)]\nmod tests { use crate::x; }\n#[cfg(test)]\nmod samples;\n";
        let block = "#[cfg(test)]\nimpl A { fn f() { crate::y() } }\nuse crate::z;";
        let text = &[field, modules, block].concat();
        assert_eq!(paths(text), ["z"]);
        assert_eq!(read(text).test_modules.first().map(String::as_str), Some("samples"));
    }
}
