//! An error as text: message, place, line, mark, hint.

use std::fmt::{self, Formatter, Write};

use super::{Script, TextError, masked};

/// The widest piece of a line that is shown, in characters.
const MAX_SHOWN: usize = 120;

/// How many characters a tab is shown as.
const TAB: &str = "    ";

pub(super) fn render(formatter: &mut Formatter<'_>, error: &TextError, script: &Script) -> fmt::Result {
    writeln!(formatter, "error: {}", error.message)?;
    let (start, end) = (error.span.start, error.span.end);
    let margin = start.line.max(1).to_string().len();
    let line = &masked(script.line(start.line));
    // No place at all: a script that was refused as a whole.
    if start.line > 0 {
        writeln!(formatter, "{:margin$}--> {}:{}:{}", "", script.file(), start.line, start.column)?;
        let last = if end.line > start.line { u32::MAX } else { end.column };
        let shown = excerpt(line, start.column, last);
        writeln!(formatter, "{:margin$} |", "")?;
        writeln!(formatter, "{} | {}", start.line, shown.text)?;
        let more = if end.line > start.line { format!(" to line {}", end.line) } else { String::new() };
        write!(formatter, "{:margin$} | {}{}{more}", "", " ".repeat(shown.before), "^".repeat(shown.marked))?;
    } else {
        write!(formatter, "{:margin$}--> {}", "", script.file())?;
    }
    if let Some(hint) = &error.hint {
        write!(formatter, "\n{:margin$} = hint: {hint}", "")?;
    }
    Ok(())
}

struct Excerpt {
    text: String,
    /// Screen columns before the mark.
    before: usize,
    /// Screen columns of the mark; at least 1.
    marked: usize,
}

/// The part of a line around a piece of it, given by columns from 1; `last` is the one after the piece.
fn excerpt(line: &str, first: u32, last: u32) -> Excerpt {
    let first = first.max(1) as usize - 1;
    let count = line.chars().count();
    let last = (last.max(1) as usize - 1).clamp(first, count.max(first));
    // Long lines: begin a little before the piece.
    let from =
        if count <= MAX_SHOWN { 0 } else { first.saturating_sub(MAX_SHOWN / 3).min(count - MAX_SHOWN) };
    let mut shown = Excerpt { text: String::new(), before: 0, marked: 0 };
    if from > 0 {
        shown.text.push_str("...");
        shown.before = 3;
    }
    for (column, char) in line.chars().enumerate().skip(from).take(MAX_SHOWN) {
        let wide = push(&mut shown.text, char);
        if column < first {
            shown.before += wide;
        } else if column < last {
            shown.marked += wide;
        }
    }
    if from + MAX_SHOWN < count {
        shown.text.push_str("...");
    }
    shown.text.truncate(shown.text.trim_end().len());
    shown.marked = shown.marked.max(1);
    shown
}

/// Appends a character in a form that a terminal can show; returns the columns it takes.
fn push(text: &mut String, char: char) -> usize {
    match char {
        '\t' => {
            text.push_str(TAB);
            TAB.len()
        }
        _ if char.is_control() => {
            let length = text.len();
            // Writing into a string cannot fail.
            let _ = write!(text, "{}", char.escape_default());
            text.len() - length
        }
        _ => {
            text.push(char);
            width(char)
        }
    }
}

/// The terminal columns of a character: 0 for combining marks and joiners, 2 for East Asian wide characters and
/// pictographs, 1 for the rest. Determined by blocks, which is accurate enough to put a mark under a word.
fn width(char: char) -> usize {
    match char as u32 {
        0x0300..=0x036F | 0x0483..=0x0489 | 0x0591..=0x05BD | 0x064B..=0x065F | 0x1AB0..=0x1AFF => 0,
        0x1DC0..=0x1DFF | 0x200B..=0x200F | 0x20D0..=0x20FF | 0xFE00..=0xFE0F | 0xFE20..=0xFE2F => 0,
        0xE0100..=0xE01EF => 0,
        0x1100..=0x115F | 0x2E80..=0x303E | 0x3041..=0xA4CF | 0xAC00..=0xD7A3 | 0xF900..=0xFAFF => 2,
        0xFE30..=0xFE6F | 0xFF00..=0xFF60 | 0xFFE0..=0xFFE6 | 0x1F300..=0x1F64F | 0x1F680..=0x1F6FF => 2,
        0x1F900..=0x1F9FF | 0x1FA70..=0x1FAFF | 0x20000..=0x3FFFD => 2,
        _ => 1,
    }
}
