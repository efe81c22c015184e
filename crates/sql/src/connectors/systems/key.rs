//! The columns of a key, as the options of sinks name them.

use datafusion::arrow::datatypes::SchemaRef;

use crate::statement::in_other_letters;

/// The column that a name means: itself, or the only one that differs in nothing but case, as everywhere in SQL. A name
/// without a column stays, for the sink to refuse.
pub(super) fn key_column(name: &str, schema: &SchemaRef) -> String {
    let columns = || schema.fields().iter().map(|field| field.name().as_str());
    if columns().any(|column| column == name) {
        name.to_owned()
    } else {
        in_other_letters(name, columns()).unwrap_or(name).to_owned()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::datatypes::{DataType, Field, Schema};

    use super::*;

    #[test]
    fn a_key_is_found_in_other_letters_if_only_one_column_is_meant() {
        let field = |name: &str| Field::new(name, DataType::Int64, true);
        let schema =
            Arc::new(Schema::new(vec![field("Host"), field("a"), field("A"), field("B"), field("b")]));
        let found = |name: &str| key_column(name, &schema);
        assert_eq!(
            (found("host"), found("HOST"), found("Host")),
            ("Host".into(), "Host".into(), "Host".into())
        );
        assert_eq!((found("a"), found("A")), ("a".into(), "A".into()));
        assert_eq!(found("hst"), "hst");
    }
}
