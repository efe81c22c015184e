//! The table of connectors and formats for people: for SHOW, for completion, for the guide.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::formats::BUILT_IN;
use super::table::ConnectorTable;
use super::{define_sink, define_source, durable};
use crate::generator::Generator;
use crate::statement::declared::{ListedOption, OptionDefinition, OptionGroup, OptionOwner};

/// The options of everything in the table.
pub(crate) fn option_groups(
    table: &ConnectorTable,
    generators: &BTreeMap<String, Arc<Generator>>,
) -> Vec<OptionGroup> {
    let mut groups = vec![
        group(OptionOwner::Sources, "", "every source and table", define_source::COMMON),
        group(OptionOwner::DurableSources, "", "every source with a journal", durable::OPTIONS),
    ];
    for (name, connector) in table.sources() {
        groups.push(group(OptionOwner::Source, name, connector.doc(), connector.options()));
    }
    for (name, generator) in generators {
        groups.push(group(OptionOwner::Generator, name, generator.doc(), generator.arguments()));
    }
    for format in BUILT_IN {
        let options = format.reading.into_iter().flatten();
        groups.extend(format.reading.map(|_| group(OptionOwner::Read, format.name, format.doc, options)));
    }
    for (name, format) in table.formats.iter() {
        groups.push(group(OptionOwner::Read, name, format.doc(), format.options()));
    }
    groups.push(group(OptionOwner::Sinks, "", "every sink", define_sink::COMMON));
    for (name, connector) in table.sinks() {
        groups.push(group(OptionOwner::Sink, name, connector.doc(), connector.options()));
    }
    for format in BUILT_IN {
        let options = format.writing.into_iter().flatten();
        groups.extend(format.writing.map(|_| group(OptionOwner::Written, format.name, format.doc, options)));
    }
    for (name, format) in table.formats.iter() {
        groups.push(group(OptionOwner::Written, name, format.doc(), format.options()));
    }
    groups
}

fn group<'a>(
    owner: OptionOwner,
    name: &str,
    doc: &str,
    options: impl IntoIterator<Item = &'a OptionDefinition>,
) -> OptionGroup {
    let options = options.into_iter().map(ListedOption::from).collect();
    OptionGroup { owner, name: name.to_owned(), doc: doc.to_owned(), options }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connectors::{built_in, built_in_generators};
    use crate::statement::OptionValue;
    use crate::statement::declared::OptionDefault;

    #[test]
    fn every_default_is_a_value_of_its_kind() {
        let table = built_in();
        let sources = table.sources().flat_map(|(_, connector)| connector.options().to_vec());
        let sinks = table.sinks().flat_map(|(_, connector)| connector.options().to_vec());
        let formats =
            BUILT_IN.iter().flat_map(|format| [format.reading, format.writing]).flatten().flatten().cloned();
        let generators = built_in_generators();
        let arguments = generators.values().flat_map(|generator| generator.arguments().to_vec());
        let common = [define_source::COMMON, durable::OPTIONS, define_sink::COMMON].concat();
        let mut checked = 0;
        for option in sources.chain(sinks).chain(formats).chain(arguments).chain(common) {
            let OptionDefault::Value(text) = option.default else { continue };
            let typed = option.kind.typed(option.name, &OptionValue::Text(text.to_owned()));
            assert!(typed.is_ok(), "{}: {typed:?}", option.name);
            checked += 1;
        }
        assert!(checked > 30);
    }

    #[test]
    fn no_option_is_declared_twice() {
        for group in option_groups(&built_in(), &built_in_generators()) {
            let mut names: Vec<&str> = group.options.iter().map(|option| option.name).collect();
            names.sort_unstable();
            let declared = names.len();
            names.dedup();
            assert_eq!(names.len(), declared, "{:?} {}", group.owner, group.name);
        }
    }
}
