//! The text of a script, and places in it.

use std::ops::Range;
use std::sync::Arc;

use datafusion::common::{Location as PlanLocation, Span as PlanSpan};
use datafusion::sql::sqlparser::tokenizer::{Location, Span as TokenSpan};

use super::TextError;

/// The longest script that is read, in bytes.
pub const MAX_SCRIPT_BYTES: usize = 1024 * 1024;

/// The interval, in characters, at which the byte offset is stored.
const CHECKPOINT_CHARS: usize = 64;

/// A place in a script.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScriptLocation {
    /// Offset in bytes from the start of the script, from 0.
    pub byte: u32,
    /// Line, from 1.
    pub line: u32,
    /// Character in its line, from 1. A tab is one character.
    pub column: u32,
}

/// A piece of a script, from `start` up to and excluding `end`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Span {
    /// Where it starts.
    pub start: ScriptLocation,
    /// The place just after it.
    pub end: ScriptLocation,
}

impl Span {
    /// The piece from the start of this one to the end of `last`.
    #[must_use]
    pub fn to(self, last: Span) -> Span {
        Span { start: self.start, end: last.end }
    }

    /// The bytes of the script that it covers.
    #[must_use]
    pub fn bytes(self) -> Range<usize> {
        self.start.byte as usize..self.end.byte as usize
    }
}

/// The text of a script and its name in messages. Finds the byte of a line and column in constant time.
#[derive(Debug, PartialEq, Eq)]
pub struct Script {
    file: String,
    text: String,
    /// For each line, the number of characters before it.
    line_starts: Vec<u32>,
    /// The byte offset of each `CHECKPOINT_CHARS`-th character.
    checkpoints: Vec<u32>,
    chars: u32,
}

impl Script {
    /// Takes the text of `file`.
    ///
    /// # Errors
    /// The text is longer than [`MAX_SCRIPT_BYTES`].
    pub fn new(text: &str, file: &str) -> Result<Arc<Script>, TextError> {
        if text.len() > MAX_SCRIPT_BYTES {
            let kept = Script::index(String::new(), file);
            let message =
                format!("the script has {} bytes, but at most {MAX_SCRIPT_BYTES} are allowed", text.len());
            let error = TextError::new(&Arc::new(kept), Span::default(), message);
            return Err(error.with_hint("divide it into several scripts"));
        }
        Ok(Arc::new(Script::index(text.to_owned(), file)))
    }

    fn index(text: String, file: &str) -> Script {
        let mut line_starts = vec![0];
        let mut checkpoints = Vec::with_capacity(text.len() / CHECKPOINT_CHARS + 1);
        let mut chars = 0;
        // Bytes and characters fit 32 bits: the text is at most MAX_SCRIPT_BYTES long.
        for (byte, char) in text.char_indices() {
            if (chars as usize).is_multiple_of(CHECKPOINT_CHARS) {
                checkpoints.push(byte as u32);
            }
            chars += 1;
            if char == '\n' {
                line_starts.push(chars);
            }
        }
        Script { file: file.to_owned(), text, line_starts, checkpoints, chars }
    }

    /// The name of the script in messages.
    #[must_use]
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The whole text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The text of a piece; empty if the piece does not belong to this script.
    #[must_use]
    pub fn slice(&self, span: Span) -> &str {
        self.text.get(span.bytes()).unwrap_or_default()
    }

    /// A line by its number from 1, without its end; empty if it does not exist.
    #[must_use]
    pub fn line(&self, number: u32) -> &str {
        let start = self.place(number, 1).byte as usize;
        let rest = if number as usize <= self.line_starts.len() { &self.text[start..] } else { "" };
        let line = rest.split('\n').next().unwrap_or_default();
        line.strip_suffix('\r').unwrap_or(line)
    }

    /// The place of a line and column, both from 1; the nearest one if that does not exist.
    #[must_use]
    pub fn place(&self, line: u32, column: u32) -> ScriptLocation {
        let line = line.clamp(1, self.line_starts.len() as u32);
        let start = self.line_starts[line as usize - 1];
        let end = self.line_starts.get(line as usize).map_or(self.chars, |next| next - 1);
        let char = start.saturating_add(column.max(1) - 1).min(end);
        ScriptLocation { byte: self.byte_of(char), line, column: char - start + 1 }
    }

    /// The place after the last character.
    #[must_use]
    pub fn end(&self) -> ScriptLocation {
        self.place(u32::MAX, u32::MAX)
    }

    /// The place of a byte offset; the end of the script if the offset is beyond it.
    #[must_use]
    pub fn place_of_byte(&self, byte: usize) -> ScriptLocation {
        let checkpoint = self.checkpoints.partition_point(|&at| at as usize <= byte).saturating_sub(1);
        let from = self.checkpoints.get(checkpoint).map_or(0, |&at| at as usize);
        let within = self.text[from..].char_indices().take_while(|(at, _)| from + at < byte).count();
        let char = (checkpoint * CHECKPOINT_CHARS + within) as u32;
        let line = self.line_starts.partition_point(|&start| start <= char).max(1) as u32;
        self.place(line, char - self.line_starts[line as usize - 1] + 1)
    }

    fn byte_of(&self, char: u32) -> u32 {
        let Some(&from) = self.checkpoints.get(char as usize / CHECKPOINT_CHARS) else {
            return self.text.len() as u32;
        };
        let rest = &self.text[from as usize..];
        let within = rest.char_indices().nth(char as usize % CHECKPOINT_CHARS);
        from + within.map_or(rest.len(), |(byte, _)| byte) as u32
    }

    /// The piece for a span of the parser; `None` if the span is empty.
    #[must_use]
    pub fn span_of_tokens(&self, span: TokenSpan) -> Option<Span> {
        Some(Span { start: self.location(span.start)?, end: self.location(span.end)? })
    }

    /// The piece for a span of the planner; `None` if the span is empty.
    #[must_use]
    pub fn span_of_plan(&self, span: PlanSpan) -> Option<Span> {
        let location = |at: PlanLocation| self.location(Location { line: at.line, column: at.column });
        Some(Span { start: location(span.start)?, end: location(span.end)? })
    }

    fn location(&self, at: Location) -> Option<ScriptLocation> {
        let known = at.line > 0 && at.column > 0;
        known.then(|| self.place(small(at.line), small(at.column)))
    }
}

fn small(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
