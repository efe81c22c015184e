//! The format that a statement names, and what follows from it.

use std::sync::Arc;

use tidemill_connect::formats::encode::OwnEncoding;
use tidemill_connect::formats::{Format, OwnDecoding};

use super::built_in::{BUILT_IN, BuiltInFormat};
use super::own_format::{OwnFormats, RowFormat};
use super::{Formats, InputFormat, OutputFormat, input};
use crate::statement::declared::{OptionDefault, OptionDefinition, OptionError, OptionValues};
use crate::statement::{Options, did_you_mean};
use crate::text::TextError;

/// The format that a statement names.
pub(crate) struct Chosen<'a> {
    /// The word of the statement, in lower case.
    name: Option<String>,
    format: Option<&'static BuiltInFormat>,
    own: Option<&'a Arc<dyn RowFormat>>,
    /// The options that it adds to those of the connector.
    pub definitions: Vec<&'a OptionDefinition>,
}

/// The format in which a source reads.
pub(crate) fn choose_input<'a>(
    options: &Options,
    formats: &Formats,
    own: &'a OwnFormats,
) -> Result<Chosen<'a>, TextError> {
    choose(options, formats, own, |format| format.reading)
}

/// The format in which a sink writes.
pub(crate) fn choose_output<'a>(
    options: &Options,
    formats: &Formats,
    own: &'a OwnFormats,
) -> Result<Chosen<'a>, TextError> {
    choose(options, formats, own, |format| format.writing)
}

fn choose<'a>(
    options: &Options,
    formats: &Formats,
    own: &'a OwnFormats,
    direction: fn(&BuiltInFormat) -> Option<&'static [OptionDefinition]>,
) -> Result<Chosen<'a>, TextError> {
    let named = |name: &str| {
        let is_meant = |format: &&BuiltInFormat| format.name == name || format.aliases.contains(&name);
        BUILT_IN.iter().find(is_meant).filter(|format| formats.names.contains(&format.name))
    };
    let given = options.text("format")?.filter(|_| !formats.is_none()).map(str::to_ascii_lowercase);
    let by_ending = match (&given, &formats.default) {
        (None, OptionDefault::Nothing(_)) => options.text("path")?.and_then(|path| own.of_path(path)),
        _ => None,
    };
    let by_name = given.as_deref().and_then(|name| Some((name, own.get(name)?)));
    if let Some((name, own)) = by_name.or(by_ending) {
        let (format, definitions) = (None, own.options().iter().collect());
        return Ok(Chosen { name: Some(name.to_owned()), format, own: Some(own), definitions });
    }
    let implied = match formats.default {
        OptionDefault::Value(name) => Some(name),
        OptionDefault::Required | OptionDefault::Nothing(_) => None,
    };
    let format = match given.as_deref().or(implied) {
        Some(name) => Some(named(name).ok_or_else(|| unknown(options, name, formats, own))?),
        None if formats.default == OptionDefault::Required && !formats.is_none() => {
            let message = format!("name the format of the rows: format = {}", quoted(formats));
            return Err(options.error("format", message));
        }
        None => None,
    };
    // As long as no format is named, it may become any of them.
    let possible = BUILT_IN.iter().filter(|possible| match format {
        Some(format) => possible.name == format.name,
        None => formats.names.contains(&possible.name),
    });
    let mut definitions: Vec<&OptionDefinition> = Vec::new();
    for possible in possible.filter(|format| !formats.without_options.contains(&format.name)) {
        for definition in direction(possible).into_iter().flatten() {
            // Several formats may have the same option.
            if !definitions.contains(&definition) {
                definitions.push(definition);
            }
        }
    }
    Ok(Chosen { name: given.or(implied.map(str::to_owned)), format, own: None, definitions })
}

impl Chosen<'_> {
    /// The format of a source, with its options.
    pub fn input(&self, options: &OptionValues<'_>) -> Result<InputFormat, OptionError> {
        if let (Some(own), Some(name)) = (self.own, &self.name) {
            let decoding = OwnDecoding::new(name, own.decoders(options)?);
            return Ok(InputFormat { format: Some(Format::Own(decoding)), ..InputFormat::default() });
        }
        let mut input = InputFormat {
            format: self.format.and_then(|format| Format::named(format.name)),
            ..InputFormat::default()
        };
        if self.declares("quote") {
            input.csv = input::csv(options);
            if self.name.as_deref() == Some("tsv") {
                input.csv.delimiter.get_or_insert(b'\t');
            }
        }
        if self.declares("precision") {
            input.line_protocol = input::line_protocol(options);
        }
        Ok(input)
    }

    /// The format of a sink, with its options.
    pub fn output(&self, options: &OptionValues<'_>) -> Result<OutputFormat, OptionError> {
        if let (Some(own), Some(name)) = (self.own, &self.name) {
            let names = self.definitions.iter().map(|definition| definition.name);
            let encoding = OwnEncoding::new(name, &options.described(names), own.encoders(options)?);
            return Ok(OutputFormat { own: Some(encoding), ..OutputFormat::default() });
        }
        let mut output = OutputFormat { name: self.name.clone(), ..OutputFormat::default() };
        if self.declares("header") {
            output.header = options.optional_boolean("header");
            output.delimiter = options.character("delimiter");
        }
        Ok(output)
    }

    fn declares(&self, name: &str) -> bool {
        self.definitions.iter().any(|definition| definition.name == name)
    }

    /// What to say about an option that another format has.
    pub fn elsewhere(&self, name: &str) -> Option<String> {
        let has = |options: Option<&[OptionDefinition]>| {
            options.is_some_and(|options| options.iter().any(|option| option.name == name))
        };
        let other = BUILT_IN.iter().find(|format| has(format.reading) || has(format.writing))?;
        let here = match self.format {
            Some(format) if format.name == other.name => {
                "which accepts only its usual options here".to_owned()
            }
            Some(format) => format!("and the format here is {}", format.name),
            None if self.own.is_some() => {
                format!("and the format here is {}", self.name.as_deref().unwrap_or_default())
            }
            None => "which accepts no options here".to_owned(),
        };
        Some(format!("`{name}` is an option of the format {}, {here}", other.name))
    }
}

fn unknown(options: &Options, name: &str, formats: &Formats, own: &OwnFormats) -> TextError {
    let is_known = BUILT_IN.iter().any(|format| format.name == name || format.aliases.contains(&name));
    let message = if is_known {
        format!("'{name}' is a format, but this connector does not support it")
    } else {
        format!("'{name}' is not a format")
    };
    let names: Vec<&str> = formats.names.iter().copied().chain(own.iter().map(|(name, _)| name)).collect();
    let hint = did_you_mean(name, &names, "format is one of");
    options.error("format", message).with_hint(hint)
}

fn quoted(formats: &Formats) -> String {
    let names: Vec<String> = formats.names.iter().map(|name| format!("'{name}'")).collect();
    match names.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => String::new(),
    }
}
