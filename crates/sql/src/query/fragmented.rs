//! How the rows of a materialized view are divided: `WITH (fragments = n, fragment_by = 'expression')`.

use std::sync::Arc;

use datafusion::common::DFSchema;
use datafusion::logical_expr::lit;
use tidemill_engine::Cause;
use tidemill_store::{FragmentBy, Fragmentation};

use crate::expressions::compiled::{Compiled, plain};
use crate::logical::{Provider, with_now};
use crate::query::prepared::Output;
use crate::relations::named_relations::{DividedBy, Fragments};
use crate::statement::{Options, Statement};
use crate::text::TextError;

/// The most fragments: each has a thread.
const FRAGMENTS_MAX: i64 = 256;

/// Reads the options of a view whose rows are found by these columns.
pub(super) fn read(
    options: &Options,
    output: &Output,
    key: Option<&[usize]>,
    (provider, statement): (&Provider<'_>, &Statement),
) -> Result<Option<Fragments>, TextError> {
    let count = options.integer("fragments", 1..=FRAGMENTS_MAX)?;
    let by = match options.text("fragment_by")? {
        None => None,
        Some(_) if count.is_none() => {
            let error = options.error_at_name("fragment_by", "the view has one fragment");
            return Err(error.with_hint("say how many it has: fragments = 2"));
        }
        Some(text) => Some(divided_by(options, text, output, (provider, statement))?),
    };
    let Some(count) = count.and_then(|count| u32::try_from(count).ok()).filter(|count| *count > 1) else {
        return Ok(None);
    };
    if by.is_none() && key.is_none_or(<[usize]>::is_empty) {
        let error = options.error_at_name("fragments", "the rows of this view have no key that divides them");
        return Err(error.with_hint("say what does: fragment_by = 'column', or name a key: key = 'column'"));
    }
    Ok(Some(Fragments { count, by }))
}

fn divided_by(
    options: &Options,
    text: &str,
    output: &Output,
    (provider, statement): (&Provider<'_>, &Statement),
) -> Result<DividedBy, TextError> {
    let expression =
        provider.expression_of_option((options, "fragment_by"), text, &output.schema, statement)?;
    let replaced = with_now(expression.clone(), &lit(0)).map_err(|error| {
        let error = provider.text_error(&error, statement);
        options.error("fragment_by", error.message).with_optional_hint(error.hint)
    })?;
    if replaced.transformed {
        let error = options.error("fragment_by", "the fragment of a row must not depend on the time");
        return Err(error.with_hint("use columns of the view only"));
    }
    let is_of_key = |name: &str| {
        let mut key = output.table_key.iter().flatten().flatten();
        key.any(|column| output.schema.field(*column).name() == name)
    };
    let columns = expression.column_refs().into_iter().map(|column| column.name.as_str());
    let other =
        columns.filter(|name| output.table_key.is_some() && !is_of_key(name)).min().map(str::to_owned);
    match other {
        Some(other) => {
            let message = format!("'{other}' is not part of the key of this view");
            Err(options.error("fragment_by", message).with_hint(
                "all rows of a key must be in one fragment: use columns of the key only, or leave fragment_by out",
            ))
        }
        None => Ok(DividedBy { text: text.to_owned(), expression }),
    }
}

/// How the store of a view is divided.
pub(super) fn fragmentation(fragments: &Fragments, output: &Output) -> Result<Fragmentation, Cause> {
    let by = match &fragments.by {
        None => FragmentBy::Key,
        Some(DividedBy { text, expression }) => {
            let compiled = DFSchema::try_from(output.schema.clone());
            let compiled = compiled.and_then(|schema| Compiled::new(expression, &schema));
            let compiled = compiled.map_err(|error| {
                Cause::user(format!("fragment_by = '{text}': {}", plain(&error))).with_source(error)
            })?;
            FragmentBy::Expression { text: text.clone(), expression: Arc::new(compiled) }
        }
    };
    Ok(Fragmentation { count: fragments.count, by })
}
