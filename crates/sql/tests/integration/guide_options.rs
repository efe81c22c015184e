//! The guide's tables of options are generated from what connectors, formats and settings declare, and agree with it.
//!
//! A table stands between `<!-- options: source tcp, unix -->` and `<!-- end of options -->`. The owner is one of
//! `sources`, `durable sources`, `source`, `format read`, `sinks`, `sink`, `format written` and `settings`; behind it come
//! names where there are several of that kind.
//!
//! `TIDEMILL_UPDATE=1 cargo test -p tidemill-sql --test integration guide_options` rewrites the tables.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use tidemill_sql::{ListedOption, OptionGroup, OptionOwner, Planner};

const START: &str = "<!-- options: ";
const END: &str = "<!-- end of options -->";

#[test]
fn the_guide_says_what_the_options_are() {
    let groups = Planner::new().option_groups();
    let mut missing: BTreeSet<String> =
        groups.iter().filter(|group| !group.options.is_empty()).map(marker).collect();
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        let written = with_tables(&text, &groups, &mut missing, &page.display().to_string());
        if std::env::var_os("TIDEMILL_UPDATE").is_some_and(|value| value == "1") {
            fs::write(&page, &written).unwrap();
        } else {
            assert!(
                written == text,
                "{} is not up to date: run this test with TIDEMILL_UPDATE=1",
                page.display()
            );
        }
    }
    assert!(missing.is_empty(), "no page of the guide has the options of {missing:?}");
}

fn pages() -> Vec<PathBuf> {
    let folder = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR").unwrap()).join("../../docs/guide");
    let pages = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    pages.filter(|path| path.extension().is_some_and(|ending| ending == "md")).collect()
}

fn marker(group: &OptionGroup) -> String {
    format!("{} {}", group.owner.name(), group.name).trim_end().to_owned()
}

/// The page with the tables as they should be.
fn with_tables(text: &str, groups: &[OptionGroup], missing: &mut BTreeSet<String>, page: &str) -> String {
    let mut written = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(START) {
        let (before, from) = rest.split_at(at);
        let (line, behind) = from.split_once('\n').expect("a marker stands on a line of its own");
        let named = line.strip_prefix(START).and_then(|line| line.strip_suffix(" -->"));
        let named = named.unwrap_or_else(|| panic!("{page}: '{line}' is no marker"));
        let chosen = named_groups(named, groups, page);
        for group in &chosen {
            missing.remove(&marker(group));
        }
        let (_, after) = behind.split_once(END).unwrap_or_else(|| panic!("{page}: '{line}' has no end"));
        written += &format!("{before}{line}\n{}{END}", table(&chosen));
        rest = after;
    }
    written + rest
}

/// The groups of a marker such as `source tcp, unix`.
fn named_groups<'a>(named: &str, groups: &'a [OptionGroup], page: &str) -> Vec<&'a OptionGroup> {
    let mut owners: Vec<OptionOwner> = groups.iter().map(|group| group.owner).collect();
    owners.dedup();
    // `source` begins as `sources` does: the longest name counts.
    owners.sort_by_key(|owner| std::cmp::Reverse(owner.name().len()));
    let owner = owners.into_iter().find(|owner| named.starts_with(owner.name()));
    let owner = owner.unwrap_or_else(|| panic!("{page}: '{named}' names no owner of options"));
    let names = named[owner.name().len()..].split(',').map(str::trim);
    let find = |name: &str| {
        let found = groups.iter().find(|group| group.owner == owner && group.name == name);
        found.unwrap_or_else(|| panic!("{page}: there is no {} '{name}'", owner.name()))
    };
    names.map(find).collect()
}

/// One table for all of them. An option that not all have says whose it is.
fn table(groups: &[&OptionGroup]) -> String {
    let mut rows: Vec<(&ListedOption, Vec<&str>)> = Vec::new();
    for group in groups {
        for option in &group.options {
            match rows.iter_mut().find(|(known, _)| *known == option) {
                Some((_, owners)) => owners.push(&group.name),
                None => rows.push((option, vec![&group.name])),
            }
        }
    }
    let kind = if groups[0].owner == OptionOwner::Settings { "setting" } else { "option" };
    let mut text = format!("| {kind} | type | default | meaning |\n|---|---|---|---|\n");
    for (option, owners) in rows {
        let owners: Vec<String> = if owners.len() == groups.len() {
            Vec::new()
        } else {
            owners.iter().map(|owner| format!("`{owner}`")).collect()
        };
        let owners = if owners.is_empty() { String::new() } else { format!("{}: ", owners.join(", ")) };
        let ListedOption { name, kind, default, doc } = option;
        text += &format!("| `{name}` | {} | {default} | {owners}{doc} |\n", kind.name());
    }
    text
}
