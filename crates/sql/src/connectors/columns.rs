//! The columns of a source: those that it declares, those that queries see, and its event time.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef, TimeUnit};
use datafusion::common::DFSchema;
use datafusion::logical_expr::{Expr, ExprSchemable, cast};
use datafusion::sql::sqlparser::ast;
use tidemill_connect::formats::{
    TextForm, as_json_field, is_json_field, with_characters_max, with_epoch_unit, with_text_form,
};
use tidemill_engine::EventTime;

use super::formats::TIMESTAMP_UNIT;
use crate::logical::{Provider, check_independent_of_cycles};
use crate::statement::{Column, CreateSource, Options, Statement, text_length};
use crate::text::TextError;

/// The columns that the source itself must have; `None`: any.
pub(super) fn declared_columns(
    create: &CreateSource,
    statement: &Statement,
    provider: &Provider<'_>,
) -> Result<Option<SchemaRef>, TextError> {
    let stored = create.columns.iter().filter(|column| column.computed.is_none());
    let field = |column: &Column| {
        let data_type = column
            .data_type
            .as_ref()
            .ok_or_else(|| statement.error(column.span, format!("column '{}' has no type", column.name)))?;
        let (characters_max, form) = (text_length(data_type), text_form(data_type));
        let is_text = characters_max.is_some() || form.is_some();
        let plain = is_text.then_some(ast::DataType::Varchar(None));
        let field = provider.data_type(plain.as_ref().unwrap_or(data_type)).map_err(|error| {
            statement.error(column.type_span, crate::expressions::compiled::plain(&error))
        })?;
        let field = Field::new(column.name.as_str(), field, !column.not_null);
        Ok(match (characters_max, form) {
            (Some(characters_max), _) => with_characters_max(field, characters_max),
            (None, Some(form)) => with_text_form(field, form),
            (None, None) => field,
        })
    };
    let fields: Vec<Field> = stored.map(field).collect::<Result<_, TextError>>()?;
    Ok((!fields.is_empty()).then(|| Arc::new(Schema::new(fields))))
}

/// The columns whose times may be written as numbers of this unit (`timestamp_unit`).
pub(super) fn with_timestamp_unit(
    declared: Option<SchemaRef>,
    options: &Options,
) -> Result<Option<SchemaRef>, TextError> {
    let name = TIMESTAMP_UNIT.name;
    let unit = match options.choice(name, &["s", "ms", "us", "ns"])? {
        None => return Ok(declared),
        Some("s") => TimeUnit::Second,
        Some("ms") => TimeUnit::Millisecond,
        Some("us") => TimeUnit::Microsecond,
        Some(_) => TimeUnit::Nanosecond,
    };
    let is_time = |field: &FieldRef| has_time(field.data_type());
    let Some(declared) = declared.filter(|columns| columns.fields().iter().any(is_time)) else {
        let error = options.error(name, "no column is declared as a TIMESTAMP");
        return Err(error.with_hint("declare the columns, as in (at TIMESTAMP, value DOUBLE)"));
    };
    let field = |field: &FieldRef| {
        if is_time(field) { with_epoch_unit(field.as_ref().clone(), unit) } else { field.as_ref().clone() }
    };
    Ok(Some(Arc::new(Schema::new(declared.fields().iter().map(field).collect::<Vec<_>>()))))
}

/// Whether it is a timestamp, or has some in structs and lists.
fn has_time(data_type: &DataType) -> bool {
    match data_type {
        DataType::Timestamp(..) => true,
        DataType::Struct(fields) => fields.iter().any(|field| has_time(field.data_type())),
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => has_time(item.data_type()),
        _ => false,
    }
}

/// What the texts of a type are besides texts.
pub(super) fn text_form(data_type: &ast::DataType) -> Option<TextForm> {
    match data_type {
        ast::DataType::JSON => Some(TextForm::Json),
        ast::DataType::JSONB => Some(TextForm::Jsonb),
        ast::DataType::Uuid => Some(TextForm::Uuid),
        _ => None,
    }
}

/// The columns without what only the source checks, such as the length of texts. That they are JSON decides what operators mean.
pub(super) fn as_queries_see(columns: &SchemaRef) -> SchemaRef {
    let plain = |field: &FieldRef| {
        let plain = field.as_ref().clone().with_metadata(Default::default());
        if is_json_field(field) { as_json_field(plain) } else { plain }
    };
    Arc::new(Schema::new(columns.fields().iter().map(plain).collect::<Vec<_>>()))
}

/// The columns that queries see, in the order of their declaration, and how they are computed.
pub(super) fn visible_columns(
    create: &CreateSource,
    raw: &SchemaRef,
    raw_schema: &DFSchema,
    statement: &Statement,
    provider: &Provider<'_>,
) -> Result<(Vec<Field>, Option<Vec<Expr>>), TextError> {
    let own: Vec<Field> = raw.fields().iter().map(|field| field.as_ref().clone()).collect();
    if create.columns.iter().all(|column| column.computed.is_none()) {
        return Ok((own, None));
    }
    let column = |name: &str| Expr::Column(datafusion::common::Column::from_name(name));
    let (mut fields, mut expressions) = (Vec::new(), Vec::new());
    if create.columns.iter().all(|column| column.computed.is_some()) {
        // Only computed columns are written down: those of the file come first.
        expressions.extend(own.iter().map(|field| column(field.name())));
        fields.extend(own);
    }
    for declared in &create.columns {
        let name = declared.name.as_str();
        let expression = match &declared.computed {
            None => column(name),
            Some(computed) => provider
                .expression(&with_declared_type(computed, declared.data_type.as_ref()), raw_schema)
                .and_then(|expression| check_independent_of_cycles(name, expression))
                .map_err(|error| provider.text_error(&error, statement))?,
        };
        let (_, field) =
            expression.to_field(raw_schema).map_err(|error| provider.text_error(&error, statement))?;
        fields.push(field.as_ref().clone().with_name(name).with_nullable(!declared.not_null));
        expressions.push(expression);
    }
    Ok((fields, Some(expressions)))
}

/// The expression that computes a column, cast to its declared type if it has one.
fn with_declared_type(computed: &ast::Expr, declared: Option<&ast::DataType>) -> ast::Expr {
    match declared {
        None => computed.clone(),
        Some(data_type) => ast::Expr::Cast {
            kind: ast::CastKind::Cast,
            expr: Box::new(computed.clone()),
            data_type: data_type.clone(),
            array: false,
            format: None,
        },
    }
}

/// The event time, converted to a timestamp in nanoseconds if it has another unit.
pub(super) fn watermark(
    create: &CreateSource,
    fields: &mut [Field],
    computed: &mut Option<Vec<Expr>>,
    raw: &DFSchema,
    statement: &Statement,
) -> Result<Option<EventTime>, TextError> {
    let Some(watermark) = &create.watermark else { return Ok(None) };
    let names = fields.iter().map(|field| field.name().as_str());
    let name = watermark.column.meant(names.clone()).unwrap_or(watermark.column.as_str()).to_owned();
    let Some(column) = fields.iter().position(|field| *field.name() == name) else {
        let names = fields.iter().map(|field| field.name().as_str());
        let error = statement.error(watermark.column.span, format!("there is no column '{name}'"));
        return Err(match crate::closest(&name, names) {
            Some(meant) => error.with_hint(format!("did you mean {meant}?")),
            None => error,
        });
    };
    match fields[column].data_type().clone() {
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {}
        DataType::Timestamp(_, zone) => {
            let wanted = DataType::Timestamp(TimeUnit::Nanosecond, zone);
            let all = computed.get_or_insert_with(|| raw.columns().into_iter().map(Expr::Column).collect());
            all[column] = cast(all[column].clone(), wanted.clone());
            fields[column] = fields[column].clone().with_data_type(wanted);
        }
        other => {
            let error = statement.error(
                watermark.column.span,
                format!("the watermark's column must be a TIMESTAMP, but '{name}' is {other}"),
            );
            return Err(error.with_hint(format!(
                "add a computed column, such as event_time AS to_timestamp_seconds({name}), and use it in WATERMARK FOR"
            )));
        }
    }
    Ok(Some(EventTime { column, delay_ns: watermark.delay_ns }))
}
