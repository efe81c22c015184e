//! `gateway = 'west'`: the process of a server at which the rows of a source enter.

use crate::statement::declared::{OptionDefault, OptionDefinition, OptionKind, OptionValues};
use crate::text::TextError;

/// The longest name: it is part of the path of a socket.
const NAME_LENGTH_MAX: usize = 24;

pub(super) const GATEWAY: OptionDefinition = OptionDefinition::new(
    "gateway",
    OptionKind::Text,
    OptionDefault::Nothing("none: the rows enter in the process that runs the query"),
    "the gateway of a server at which the rows enter: a process of its own, which reads and journals them and keeps \
     the views over them",
);

/// The gateway of a source.
pub(super) fn gateway(
    options: &OptionValues<'_>,
    connector: &str,
    is_table: bool,
) -> Result<Option<String>, TextError> {
    let Some(name) = options.text("gateway") else { return Ok(None) };
    let error = |message: String| options.given().error("gateway", message);
    if is_table {
        let error = error("a table is read where it is needed, and enters at no gateway".to_owned());
        return Err(error.with_hint("remove gateway"));
    }
    if connector == "push" {
        let error = error("rows that clients copy into a source enter in the server itself".to_owned());
        return Err(
            error.with_hint("remove gateway, or let the gateway listen: connector = 'socket' or 'http'")
        );
    }
    let is_letter = |letter: u8| matches!(letter, b'a'..=b'z' | b'0'..=b'9' | b'_');
    if name.is_empty() || name.len() > NAME_LENGTH_MAX || !name.bytes().all(is_letter) {
        let error = error(format!("'{name}' cannot be the name of a gateway"));
        return Err(error.with_hint(format!(
            "write at most {NAME_LENGTH_MAX} small letters, digits and underscores: gateway = 'west'"
        )));
    }
    Ok(Some(name.to_owned()))
}
