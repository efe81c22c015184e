//! A format of the program's own, read and written in SQL wherever text is.
//!
//! `cargo run --example own_format`

use std::error::Error;
use std::fmt::Write;
use std::sync::Arc;

use tidemill_connect::formats::encode::{EncoderFactory, TextEncoder};
use tidemill_connect::formats::{DecoderFactory, LineParser, ParsedLines, ParsedRow};
use tidemill_engine::Cause;
use tidemill_engine::arrow::array::RecordBatch;
use tidemill_engine::arrow::array::cast::AsArray;
use tidemill_engine::arrow::array::types::Int64Type;
use tidemill_engine::arrow::schema::DataType;
use tidemill_sql::{
    OptionDefault, OptionDefinition, OptionError, OptionKind, OptionValues, Planner, RowFormat, parse,
};

/// A line of logfmt: `level=warn ms=12 message="disk full"`.
struct Logfmt {
    /// What separates a name from its value.
    sign: char,
}

impl LineParser for Logfmt {
    fn parse<'line>(&mut self, line: &'line str, row: &mut ParsedRow<'line, '_>) -> Result<(), String> {
        let mut rest = line.trim();
        if rest.is_empty() || rest.starts_with('#') {
            row.leave_out();
        }
        while !rest.is_empty() && !rest.starts_with('#') {
            let (name, value) =
                rest.split_once(self.sign).ok_or_else(|| format!("'{rest}' has no '{}'", self.sign))?;
            let (value, behind) = match value.strip_prefix('"') {
                Some(quoted) => quoted.split_once('"').ok_or("a quote is not closed")?,
                None => value.split_once(' ').unwrap_or((value, "")),
            };
            // Columns find their values by name, and their types convert them.
            row.set(name, value);
            rest = behind.trim_start();
        }
        Ok(())
    }
}

/// Writes what [`Logfmt`] reads.
struct LogfmtEncoder {
    sign: char,
}

impl TextEncoder for LogfmtEncoder {
    fn header(&self, _: &mut Vec<u8>) {}

    fn rows(&mut self, rows: &RecordBatch, text: &mut Vec<u8>) -> Result<(), Cause> {
        let (schema, sign) = (rows.schema(), self.sign);
        for row in 0..rows.num_rows() {
            let mut line = String::new();
            for (field, column) in schema.fields().iter().zip(rows.columns()).filter(|(_, c)| c.is_valid(row))
            {
                let name = field.name();
                let written = match field.data_type() {
                    DataType::Int64 => {
                        write!(line, "{name}{sign}{} ", column.as_primitive::<Int64Type>().value(row))
                    }
                    _ => write!(line, "{name}{sign}\"{}\" ", column.as_string::<i32>().value(row)),
                };
                written.map_err(|error| Cause::bug(error.to_string()))?;
            }
            text.extend_from_slice(line.trim_end().as_bytes());
            text.push(b'\n');
        }
        Ok(())
    }
}

/// `format = 'logfmt', sign = ':'`
pub(crate) struct LogfmtFormat;

const OPTIONS: &[OptionDefinition] = &[OptionDefinition::new(
    "sign",
    OptionKind::Character,
    OptionDefault::Value("="),
    "the character between a name and its value",
)];

impl RowFormat for LogfmtFormat {
    fn doc(&self) -> &str {
        "lines of name=value"
    }

    fn options(&self) -> &[OptionDefinition] {
        OPTIONS
    }

    fn endings(&self) -> &[&str] {
        &["logfmt"]
    }

    fn decoders(&self, options: &OptionValues<'_>) -> Result<Arc<DecoderFactory>, OptionError> {
        let sign = options.character("sign").map_or('=', char::from);
        Ok(Arc::new(move |settings| Ok(Box::new(ParsedLines::new(Logfmt { sign }, settings)?))))
    }

    fn encoders(&self, options: &OptionValues<'_>) -> Result<Arc<EncoderFactory>, OptionError> {
        let sign = options.character("sign").map_or('=', char::from);
        Ok(Arc::new(move |schema| {
            let is_known = |data_type: &DataType| matches!(data_type, DataType::Int64 | DataType::Utf8);
            match schema.fields().iter().find(|field| !is_known(field.data_type())) {
                None => Ok(Box::new(LogfmtEncoder { sign })),
                Some(field) => {
                    let name = field.name();
                    Err(Cause::user(format!("column '{name}': logfmt has BIGINT and VARCHAR only; cast it")))
                }
            }
        }))
    }
}

const LOG: &str = "\
# since midnight
level=info ms=3 message=started
level=warn ms=41 message=\"disk nearly full\"
level=warn ms=late
level=warn ms=97 message=\"disk full\" host=a7
";

fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let place = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(place("app.log"), LOG)?;
    let mut planner = Planner::new();
    planner.register_format("logfmt", Arc::new(LogfmtFormat));
    let script = format!(
        "CREATE SOURCE log (level VARCHAR, ms BIGINT, message VARCHAR) WITH (path = '{}', format = 'logfmt');
         CREATE SINK slow AS SELECT ms, message FROM log WHERE level = 'warn'
         WITH (path = '{}', sign = ':');",
        place("app.log"),
        // The ending says the format.
        place("slow.logfmt")
    );
    for statement in parse(&script, "log.sql")? {
        planner.execute(&statement)?;
    }
    if let Some(pipeline) = planner.pipeline()? {
        let (status, _) = pipeline.open()?.start()?.wait()?;
        println!("{} rows came in", status.rows_in());
    }
    print!("{}", std::fs::read_to_string(place("slow.logfmt"))?);
    Ok(())
}
