//! Rows as texts, to be compared and shown: each value as CSV writes it.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidemill_connect::formats::encode::{CsvStyle, TextFormat};
use tidemill_engine::Cause;
use tidemill_engine::arrow::array::RecordBatch;
use tidemill_engine::arrow::schema::Schema;

/// A row as the texts of its values.
pub(super) type Row = Vec<String>;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Table {
    pub columns: Vec<String>,
    pub rows: Vec<Row>,
}

impl Table {
    /// The rows of a batch.
    pub fn of(batch: &RecordBatch) -> Result<Table, Cause> {
        let schema = batch.schema();
        let mut table = Table { columns: Vec::new(), rows: vec![Vec::new(); batch.num_rows()] };
        for (index, field) in schema.fields().iter().enumerate() {
            table.columns.push(field.name().clone());
            // Names may occur twice; a column alone has one.
            let one = Arc::new(Schema::new(vec![field.as_ref().clone()]));
            let style = CsvStyle { header: false, ..CsvStyle::default() };
            let mut encoder = TextFormat::Csv(style).encoder(&one)?;
            let column = RecordBatch::try_new(one, vec![Arc::clone(batch.column(index))])
                .map_err(|error| Cause::bug(error.to_string()).with_source(error))?;
            for (number, row) in table.rows.iter_mut().enumerate() {
                let mut text = Vec::new();
                encoder.rows(&column.slice(number, 1), &mut text)?;
                let text = String::from_utf8_lossy(&text);
                row.push(text.strip_suffix('\n').unwrap_or(&text).to_owned());
            }
        }
        Ok(table)
    }

    /// What is there at the end, if rows replace those with the same key. An empty key: nothing is replaced.
    pub fn by_key(self, key: &[usize]) -> Table {
        if key.is_empty() {
            return self;
        }
        let mut last = BTreeMap::new();
        for row in self.rows {
            let key: Vec<String> = key.iter().map(|column| row[*column].clone()).collect();
            last.insert(key, row);
        }
        Table { columns: self.columns, rows: last.into_values().collect() }
    }

    /// What is there at the end, if rows come and go as often as their last column says.
    pub fn by_weight(mut self) -> Table {
        self.columns.pop();
        let mut weights: BTreeMap<Row, i64> = BTreeMap::new();
        for mut row in self.rows {
            let weight = row.pop().and_then(|weight| weight.parse().ok()).unwrap_or(0);
            *weights.entry(row).or_default() += weight;
        }
        let repeated = |(row, weight)| vec![row; usize::try_from(weight).unwrap_or(0)];
        Table { columns: self.columns, rows: weights.into_iter().flat_map(repeated).collect() }
    }

    /// The same rows with these columns; `None`: it has not all of them.
    pub fn project(&self, columns: &[String]) -> Option<Table> {
        let place = |name: &String| self.columns.iter().position(|column| column == name);
        let places = columns.iter().map(place).collect::<Option<Vec<usize>>>()?;
        let row = |row: &Row| places.iter().map(|place| row[*place].clone()).collect();
        Some(Table { columns: columns.to_vec(), rows: self.rows.iter().map(row).collect() })
    }

    /// The same rows in a defined order.
    pub fn sorted(mut self) -> Table {
        self.rows.sort();
        self
    }

    /// As CSV with a header.
    pub fn csv(&self) -> String {
        let header = self.columns.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(",");
        let rows = self.rows.iter().map(|row| row.join(","));
        std::iter::once(header).chain(rows).map(|line| line + "\n").collect()
    }
}

/// A text as a field of CSV.
pub(super) fn quoted(text: &str) -> String {
    if text.is_empty() || text.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

/// A name as the head of a section has it.
pub(super) fn head_name(name: &str) -> String {
    if name.contains(char::is_whitespace) { format!("\"{name}\"") } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(columns: &[&str], rows: &[&[&str]]) -> Table {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        Table { columns: texts(columns), rows: rows.iter().map(|row| texts(row)).collect() }
    }

    #[test]
    fn what_is_there_at_the_end_is_what_was_not_replaced_or_taken_back() {
        let changes = table(&["k", "weight"], &[&["a", "1"], &["b", "2"], &["a", "-1"]]);
        assert_eq!(changes.by_weight(), table(&["k"], &[&["b"], &["b"]]));
        let upserts = table(&["k", "n"], &[&["a", "1"], &["b", "1"], &["a", "2"]]);
        assert_eq!(upserts.clone().by_key(&[0]), table(&["k", "n"], &[&["a", "2"], &["b", "1"]]));
        assert_eq!(upserts.clone().by_key(&[]), upserts);
    }

    #[test]
    fn fields_are_quoted_where_a_reader_needs_it() {
        assert_eq!(["a", "", "a,b", "\"x\""].map(quoted), ["a", "\"\"", "\"a,b\"", "\"\"\"x\"\"\""]);
    }
}
