//! Messages that were read but not yet decoded: one text that is decoded at once, and whose lines are mapped back to
//! messages.

use std::collections::VecDeque;

use arrow_array::RecordBatch;
use arrow_select::concat::concat_batches;
use tidemill_core::error::Cause;
use tidemill_core::source::Faults;

use crate::formats::{Format, RecordDecoder};

/// The name of the text in the decoder's messages, which is removed from them again.
const PLACE: &str = "message";

/// See the module.
pub(super) struct MessageBatches {
    topic: String,
    format: Format,
    quote: u8,
    decoder: Box<dyn RecordDecoder>,
    text: Vec<u8>,
    /// Partition and offset of each line of the text.
    origins: Vec<(i32, i64)>,
    batches: VecDeque<RecordBatch>,
    faults: Faults,
}

impl MessageBatches {
    pub fn new(topic: &str, format: Format, quote: u8, decoder: Box<dyn RecordDecoder>) -> MessageBatches {
        MessageBatches {
            topic: topic.to_owned(),
            format,
            quote,
            decoder,
            text: Vec::new(),
            origins: Vec::new(),
            batches: VecDeque::new(),
            faults: Faults::default(),
        }
    }

    /// How many messages wait.
    pub fn messages(&self) -> usize {
        self.origins.len()
    }

    /// How many bytes wait.
    pub fn bytes(&self) -> usize {
        self.text.len()
    }

    /// Adds a message, which is one record.
    pub fn push(&mut self, origin: (i32, i64), value: Option<&[u8]>) -> Result<(), Cause> {
        let value = value.map(|value| value.strip_suffix(b"\n").unwrap_or(value));
        let Some(value) = value.filter(|value| !value.is_empty()) else {
            self.fault(origin, "it has no value (it may delete its key)");
            return Ok(());
        };
        if !self.is_a_line(value) {
            // One message must not swallow the next ones.
            self.decode(false)?;
            self.append(origin, value);
            return self.decode(true);
        }
        self.append(origin, value);
        Ok(())
    }

    /// Whether a message can only be a single line.
    fn is_a_line(&self, value: &[u8]) -> bool {
        match self.format {
            // A line end within a JSON object stands between its parts, and means nothing.
            Format::Json => true,
            _ => {
                memchr::memchr(b'\n', value).is_none()
                    && memchr::memchr_iter(self.quote, value).count().is_multiple_of(2)
            }
        }
    }

    fn append(&mut self, origin: (i32, i64), value: &[u8]) {
        let begin = self.text.len();
        self.text.extend_from_slice(value);
        if self.format == Format::Json {
            let line_ends = self.text[begin..].iter_mut().filter(|byte| matches!(**byte, b'\n' | b'\r'));
            line_ends.for_each(|byte| *byte = b' ');
        }
        self.text.push(b'\n');
        self.origins.push(origin);
    }

    /// Decodes what waits; `is_alone`: it is one message, which may have any number of lines.
    pub fn decode(&mut self, is_alone: bool) -> Result<(), Cause> {
        if self.origins.is_empty() {
            return Ok(());
        }
        self.decoder.begin(PLACE);
        self.decoder.decode(&self.text, &mut self.batches)?;
        self.decoder.finish(&mut self.batches)?;
        let mut faults = self.decoder.faults();
        faults.change_places(|text| *text = self.traced(text, is_alone));
        self.faults.merge(faults);
        self.text.clear();
        self.origins.clear();
        Ok(())
    }

    /// Rewrites the decoder's report about a line as one about the message.
    fn traced(&self, sample: &str, is_alone: bool) -> String {
        let line = sample.strip_prefix(PLACE).and_then(|rest| rest.strip_prefix(", line "));
        let Some(line) = line else { return sample.to_owned() };
        // The place alone has no reason behind it.
        let (number, reason) = line.split_once(": ").map_or((line, None), |(line, rest)| (line, Some(rest)));
        let number: usize = if is_alone { 1 } else { number.parse().unwrap_or(1) };
        match (self.origins.get(number.saturating_sub(1)), reason) {
            (Some(origin), Some(reason)) => format!("{}: {reason}", self.named(*origin)),
            (Some(origin), None) => self.named(*origin),
            (None, _) => sample.to_owned(),
        }
    }

    fn named(&self, (partition, offset): (i32, i64)) -> String {
        format!("kafka topic '{}', partition {partition}, offset {offset}", self.topic)
    }

    fn fault(&mut self, origin: (i32, i64), reason: &str) {
        let place = self.named(origin);
        self.faults.add_record(|| place, || reason.to_owned(), b"");
    }

    /// See [`Source::keep_bad_records`](tidemill_core::Source::keep_bad_records).
    pub fn keep_bad_records(&mut self) {
        self.decoder.keep_bad_records();
        self.faults.keep_records();
    }

    /// All rows that were decoded, in one batch: those of a batch and how far they reach are kept together.
    pub fn take(&mut self) -> Result<Option<RecordBatch>, Cause> {
        let Some(first) = self.batches.pop_front() else { return Ok(None) };
        if self.batches.is_empty() {
            return Ok(Some(first));
        }
        let rest: Vec<RecordBatch> = self.batches.drain(..).collect();
        let all = concat_batches(&first.schema(), std::iter::once(&first).chain(&rest));
        all.map(Some).map_err(|error| Cause::bug(format!("rows of messages: {error}")).with_source(error))
    }

    /// Faults since this was last asked.
    pub fn take_faults(&mut self) -> Faults {
        self.faults.take()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::cast::AsArray;
    use arrow_schema::{DataType, Field, Schema};

    use super::*;
    use crate::formats::{CsvSettings, DecoderSettings, text_decoder};

    fn gathered(format: Format) -> MessageBatches {
        let fields = vec![Field::new("name", DataType::Utf8, true), Field::new("n", DataType::Int64, true)];
        let csv = CsvSettings { header: Some(false), ..CsvSettings::default() };
        let settings = DecoderSettings { schema: Arc::new(Schema::new(fields)), csv, batch_rows: 8192 };
        let decoder = text_decoder(format.clone(), settings).expect("a decoder");
        MessageBatches::new("t", format, b'"', decoder)
    }

    /// The names of all rows, and the faults, of messages at offsets 0, 1, ... of partition 3.
    fn read(format: Format, messages: &[Option<&str>]) -> (Vec<String>, Vec<String>) {
        let mut gathered = gathered(format);
        for (offset, value) in (0..).zip(messages) {
            gathered.push((3, offset), value.map(str::as_bytes)).expect("the message is taken");
        }
        gathered.decode(false).expect("what waits can be decoded");
        let mut names = Vec::new();
        while let Some(batch) = gathered.take().expect("batches of one schema") {
            names
                .extend(batch.column(0).as_string::<i32>().iter().map(|name| name.unwrap_or("-").to_owned()));
        }
        (names, gathered.take_faults().samples)
    }

    #[test]
    fn a_bad_message_is_named_and_the_others_are_kept() {
        let messages =
            [Some("{\"name\":\"a\",\"n\":1}"), Some("{"), None, Some("{\"name\":\"b\",\n\"n\":2}\n")];
        let (names, faults) = read(Format::Json, &messages);
        assert_eq!(names, ["a", "b"]);
        assert_eq!(
            faults[0],
            "kafka topic 't', partition 3, offset 2: it has no value (it may delete its key)"
        );
        assert!(faults[1].starts_with("kafka topic 't', partition 3, offset 1: "), "{}", faults[1]);
        assert_eq!(faults.len(), 2);
    }

    #[test]
    fn a_quote_that_is_not_closed_swallows_no_other_message() {
        let messages = [Some("a,1"), Some("\"open,2"), Some("\"two\nlines\",3"), Some("c,x"), Some("d,4")];
        let (names, faults) = read(Format::Csv, &messages);
        assert_eq!(names, ["a", "two\nlines", "d"]);
        assert!(faults[0].starts_with("kafka topic 't', partition 3, offset 1: "), "{}", faults[0]);
        assert!(faults[1].starts_with("kafka topic 't', partition 3, offset 3: "), "{}", faults[1]);
        assert_eq!(faults.len(), 2);
    }
}
