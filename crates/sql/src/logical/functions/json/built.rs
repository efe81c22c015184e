//! `to_json`, `row_to_json`, `array_to_json`, `json_build_object`, `json_build_array`, `json_agg` and `json_object_agg`: values as texts of JSON, as PostgreSQL
//! writes them. `json_agg(x)` is `json_list(array_agg(to_json(x)))`, and `json_object_agg(k, v)` is
//! `json_object_of_pairs(array_agg(struct(k, to_json(v))))`. What is JSON already stays as it is.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringArray};
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature,
    Volatility,
};

use super::kind::json_field;
use super::texts::JsonColumn;
use crate::logical::casts::value_texts::texts;
use crate::logical::limits::made_bytes::MadeBytes;
use tidemill_connect::formats::write_json_text;

/// The functions.
pub(in crate::logical) fn functions() -> impl Iterator<Item = ScalarUDF> {
    Shape::ALL.into_iter().map(|shape| ScalarUDF::new_from_impl(JsonFunction::new(shape)))
}

/// The function `to_json`.
pub(super) fn to_json() -> ScalarUDF {
    ScalarUDF::new_from_impl(JsonFunction::new(Shape::Value))
}

/// What a function makes of its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Shape {
    Value,
    Row,
    List,
    Object,
    ListOfArguments,
    ListOfJson,
    ObjectOfPairs,
}

impl Shape {
    const ALL: [Shape; 7] = [
        Shape::Value,
        Shape::Row,
        Shape::List,
        Shape::Object,
        Shape::ListOfArguments,
        Shape::ListOfJson,
        Shape::ObjectOfPairs,
    ];
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct JsonFunction {
    shape: Shape,
    signature: Signature,
}

impl JsonFunction {
    fn new(shape: Shape) -> Self {
        let arguments = match shape {
            Shape::Value | Shape::Row | Shape::List | Shape::ListOfJson | Shape::ObjectOfPairs => {
                TypeSignature::Any(1)
            }
            Shape::Object | Shape::ListOfArguments => {
                TypeSignature::OneOf(vec![TypeSignature::VariadicAny, TypeSignature::Nullary])
            }
        };
        JsonFunction { shape, signature: Signature::new(arguments, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for JsonFunction {
    fn name(&self) -> &str {
        match self.shape {
            Shape::Value => "to_json",
            Shape::Row => "row_to_json",
            Shape::List => "array_to_json",
            Shape::Object => "json_build_object",
            Shape::ListOfArguments => "json_build_array",
            Shape::ListOfJson => "json_list",
            Shape::ObjectOfPairs => "json_object_of_pairs",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match (self.shape, arguments) {
            (Shape::Row, [other]) if !matches!(other, DataType::Struct(_) | DataType::Null) => {
                plan_err!("row_to_json takes a row: row_to_json(t) FROM (SELECT ...) t, or a STRUCT")
            }
            (Shape::List, [other]) if !other.is_list() && !other.is_null() => {
                plan_err!("array_to_json takes a list")
            }
            (Shape::ListOfJson, [DataType::List(item)]) if item.data_type().is_string() => Ok(DataType::Utf8),
            (Shape::ListOfJson, _) => plan_err!("json_list takes a list of texts that are JSON"),
            (Shape::ObjectOfPairs, [list]) if is_list_of_pairs(list) => Ok(DataType::Utf8),
            (Shape::ObjectOfPairs, _) => plan_err!("{} takes a list of rows of two fields", self.name()),
            (Shape::Object, arguments) if arguments.len() % 2 == 1 => {
                plan_err!(
                    "json_build_object takes names and values: json_build_object('id', id, 'name', name)"
                )
            }
            _ => Ok(DataType::Utf8),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let types: Vec<DataType> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        self.return_type(&types)?;
        Ok(Arc::new(json_field().with_name(self.name())))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let columns = args.args.iter().map(|column| column.to_array(rows)).collect::<Result<Vec<_>>>()?;
        let only = || columns.first().map_or_else(|| exec_err!("{} has one argument", self.name()), Ok);
        let made: StringArray = match self.shape {
            Shape::Value | Shape::Row | Shape::List => {
                let values = only()?;
                let column = JsonColumn::of(values)?;
                (0..rows).map(|row| (!values.is_null(row)).then(|| column.text(row))).collect()
            }
            Shape::Object => objects(&columns, rows)?.into(),
            Shape::ObjectOfPairs => objects_of_pairs(only()?)?,
            Shape::ListOfJson => {
                let lists = only()?.as_list::<i32>();
                let list = |items: ArrayRef| {
                    let items = JsonColumn::of_json(&items).map(|column| (items.len(), column))?;
                    Ok(list_of((0..items.0).map(|item| items.1.text(item))))
                };
                lists.iter().map(|items| items.map(list).transpose()).collect::<Result<_>>()?
            }
            Shape::ListOfArguments => {
                let columns = columns.iter().map(JsonColumn::of).collect::<Result<Vec<_>>>()?;
                (0..rows).map(|row| Some(list_of(columns.iter().map(|column| column.text(row))))).collect()
            }
        };
        let mut bytes = MadeBytes::of(rows);
        made.iter().flatten().try_for_each(|text| bytes.add(text.len()))?;
        Ok(ColumnarValue::Array(Arc::new(made)))
    }
}

fn list_of(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(", "))
}

fn is_list_of_pairs(data_type: &DataType) -> bool {
    let DataType::List(items) = data_type else { return false };
    matches!(items.data_type(), DataType::Struct(fields) if fields.len() == 2)
}

/// An object for each list of keys and values; NULL for none.
fn objects_of_pairs(lists: &ArrayRef) -> Result<StringArray> {
    let lists = lists.as_list::<i32>();
    let object = |list: Option<ArrayRef>| {
        let Some(list) = list else { return Ok(None) };
        let pairs = list.as_struct();
        let (keys, values) = (texts(pairs.column(0))?, JsonColumn::of_json(pairs.column(1))?);
        let mut object = String::from("{ ");
        for pair in 0..pairs.len() {
            if keys.is_null(pair) {
                return exec_err!("the name in an object of JSON is NULL");
            }
            if pair > 0 {
                object.push_str(", ");
            }
            write_json_text(keys.value(pair), &mut object);
            object.push_str(" : ");
            values.write(pair, &mut object);
        }
        object.push_str(" }");
        Ok(Some(object))
    };
    lists.iter().map(object).collect()
}

/// An object for each row: `{"id" : 1, "name" : "a"}`.
fn objects(columns: &[ArrayRef], rows: usize) -> Result<Vec<String>> {
    let pair = |pair: &[ArrayRef]| Ok((texts(&pair[0])?, JsonColumn::of(&pair[1])?));
    let pairs = columns.chunks_exact(2).map(pair).collect::<Result<Vec<_>>>()?;
    let object = |row: usize| {
        let mut text = String::from("{");
        for (place, (names, values)) in pairs.iter().enumerate() {
            if names.is_null(row) {
                return exec_err!("the name in an object of JSON is NULL");
            }
            if place > 0 {
                text.push_str(", ");
            }
            write_json_text(names.value(row), &mut text);
            text.push_str(" : ");
            values.write(row, &mut text);
        }
        text.push('}');
        Ok(text)
    };
    (0..rows).map(object).collect()
}
