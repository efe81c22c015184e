//! The patterns of `to_char`, `date_format`, `to_timestamp` and the like.
//!
//! DataFusion (55.2) passes them to chrono, whose parts begin with `%` and which treats everything else as text:
//! `to_char(at, 'YYYY-MM-DD')` would return the pattern itself in each row. A pattern without `%` is therefore read as
//! in PostgreSQL, or as in Java for `date_format`, and translated. Unknown parts are refused.

use std::ops::ControlFlow;

use datafusion::common::{DataFusionError, Result};
use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, Spanned, Value, ValueWithSpan,
};

use crate::logical::functions::number_patterns;
use crate::refusal::refuse_at;
use tidemill_trees::syntax::{Node, walk_expressions_mut};

/// Functions whose second argument is the format of a time.
const WRITE: [&str; 2] = ["to_char", "date_format"];

/// Functions whose arguments after the first are possible formats of a time.
pub(super) const READ: [&str; 7] = [
    "to_timestamp",
    "to_timestamp_seconds",
    "to_timestamp_millis",
    "to_timestamp_micros",
    "to_timestamp_nanos",
    "to_date",
    "to_unixtime",
];

const NOT_CONSTANT: &str =
    "write it as a constant: CASE WHEN ... THEN to_char(time, 'YYYY') ELSE to_char(time, 'MM') END";

const POSTGRES_PARTS: &str = "the parts are YYYY YY MM DD DDD HH24 HH12 MI SS MS US AM PM Mon FMMonth Dy FMDay \
    ID IYYY IW Q, FM before a part removes leading zeros, and text is written in double quotes: \
    'YYYY-MM-DD\"T\"HH24:MI'; parts with % are accepted, too: '%Y-%m-%d'";

const JAVA_PARTS: &str = "the parts are yyyy yy M MM MMM MMMM d dd D H HH h hh m mm s ss SSS SSSSSS a E EEEE \
    Q, and text is written in single quotes, which are doubled within a text: 'yyyy-MM-dd''T''HH:mm'; parts \
    with % are accepted, too: '%Y-%m-%d'";

const PERCENT_PARTS: &str = "the parts are %Y %y %m %b %B %d %j %a %A %u %H %I %p %M %S %3f %6f %f %G %V %q %F %T %s \
                             %% and others; minutes are %M (not %i), seconds %S";

/// Translates the patterns in all calls of a query or an expression.
pub(crate) fn translate(node: &mut impl Node) -> Result<()> {
    let visited = walk_expressions_mut(node, |expression| match call(expression) {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => ControlFlow::Break(Box::new(error)),
    });
    match visited {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(*error),
    }
}

/// The purpose of a pattern, and its language if it has no `%`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Write,
    WriteJava,
    Read,
}

fn call(expression: &mut Expr) -> Result<()> {
    let Expr::Function(call) = expression else { return Ok(()) };
    let name = call.name.to_string().to_ascii_lowercase();
    let purpose = match name.as_str() {
        "date_format" => Purpose::WriteJava,
        name if WRITE.contains(&name) => Purpose::Write,
        name if READ.contains(&name) => Purpose::Read,
        _ => return Ok(()),
    };
    let FunctionArguments::List(list) = &mut call.args else { return Ok(()) };
    for argument in list.args.iter_mut().skip(1) {
        let FunctionArg::Unnamed(FunctionArgExpr::Expr(pattern)) = argument else { continue };
        if purpose == Purpose::Write
            && let Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) = &*pattern
            && number_patterns::is_of_number(text)
        {
            let refused = |part: String| {
                let message = format!("'{part}' is not valid in a pattern of {name}");
                refuse_at(pattern.span(), message, number_patterns::PARTS)
            };
            number_patterns::check(text).map_err(refused)?;
            call.name = ObjectName::from(vec![Ident::new(number_patterns::NUMBER_TO_CHAR)]);
            return Ok(());
        }
        pattern_of(pattern, purpose, &name)?;
    }
    Ok(())
}

fn pattern_of(pattern: &mut Expr, purpose: Purpose, function: &str) -> Result<()> {
    let place = pattern.span();
    let Expr::Value(value) = pattern else {
        return Err(refuse_at(place, format!("the pattern of {function} must be a constant"), NOT_CONSTANT));
    };
    let (Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text)) = &mut value.value else {
        return Ok(());
    };
    let refused = |part: &str, parts: &str| -> DataFusionError {
        refuse_at(place, format!("'{part}' is not valid in a pattern of {function}"), parts)
    };
    *text = if text.contains('%') {
        percent(text).map_err(|part| refused(&part, PERCENT_PARTS))?
    } else if purpose == Purpose::WriteJava {
        java(text).map_err(|part| refused(&part, JAVA_PARTS))?
    } else {
        postgres(text, purpose == Purpose::Read).map_err(|part| refused(&part, POSTGRES_PARTS))?
    };
    Ok(())
}

/// Checks a chrono pattern; the unknown part is the error.
fn percent(pattern: &str) -> std::result::Result<String, String> {
    const PARTS: &str = "YCyqmbBhdeaAwuUWGgVjDxFvHkIlPpMSfRTXrZzc+stn%";
    const LONGER: [&str; 10] = [".3f", ".6f", ".9f", ".f", "3f", "6f", "9f", ":::z", "::z", ":z"];
    let mut rest = pattern;
    while let Some(at) = rest.find('%') {
        let part = &rest[at + 1..];
        let padded = part.strip_prefix(['-', '_', '0']).unwrap_or(part);
        let length = match LONGER.iter().find(|longer| part.starts_with(**longer)) {
            Some(longer) => longer.len(),
            None if part.starts_with("#z") => 2,
            None => match padded.chars().next().filter(|char| PARTS.contains(*char)) {
                Some(char) => part.len() - padded.len() + char.len_utf8(),
                None => return Err(rest[at..].chars().take(2).collect()),
            },
        };
        rest = &part[length..];
    }
    Ok(pattern.to_owned())
}

/// A part of a PostgreSQL pattern, and its chrono equivalent.
struct Part {
    name: &'static str,
    written: &'static str,
    /// After FM.
    short: Option<&'static str>,
    /// Only in this case; otherwise in any.
    exact: bool,
}

const fn part(name: &'static str, written: &'static str, short: Option<&'static str>) -> Part {
    Part { name, written, short, exact: false }
}

const fn exact(name: &'static str, written: &'static str) -> Part {
    Part { name, written, short: Some(written), exact: true }
}

/// Longer parts come before those that they begin with. PostgreSQL parts that are missing here have no equivalent.
const POSTGRES: [Part; 26] = [
    part("HH24", "%H", Some("%-H")),
    part("HH12", "%I", Some("%-I")),
    part("HH", "%I", Some("%-I")),
    part("MI", "%M", Some("%-M")),
    part("MS", "%3f", None),
    part("MM", "%m", Some("%-m")),
    part("SSSS", "", None),
    part("SS", "%S", Some("%-S")),
    part("US", "%6f", None),
    part("FF3", "%3f", None),
    part("FF6", "%6f", None),
    part("IYYY", "%G", Some("%G")),
    part("YYYY", "%Y", Some("%Y")),
    part("YYY", "", None),
    part("YY", "%y", Some("%-y")),
    part("IW", "%V", Some("%-V")),
    part("ID", "%u", Some("%u")),
    part("DDD", "%j", Some("%-j")),
    part("DD", "%d", Some("%-d")),
    part("Q", "%q", Some("%q")),
    exact("AM", "%p"),
    exact("PM", "%p"),
    exact("am", "%P"),
    exact("pm", "%P"),
    exact("Mon", "%b"),
    exact("Dy", "%a"),
];

/// A PostgreSQL pattern translated to chrono; the part without an equivalent is the error.
fn postgres(pattern: &str, is_read: bool) -> std::result::Result<String, String> {
    let mut written = String::new();
    let mut rest = pattern;
    let mut after_hour = false;
    while let Some(first) = rest.chars().next() {
        if let Some(text) = rest.strip_prefix('"') {
            let Some((text, behind)) = text.split_once('"') else { return Err(rest.to_owned()) };
            written.push_str(text);
            rest = behind;
            continue;
        }
        if !first.is_alphanumeric() && first != '\\' {
            written.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        }
        let (is_short, named) = match rest.get(..2) {
            Some(prefix) if prefix.eq_ignore_ascii_case("FM") => (true, &rest[2..]),
            _ => (false, rest),
        };
        let unknown = || -> String { rest.chars().take_while(|char| char.is_alphanumeric()).collect() };
        let (length, made) = month_or_day(named, is_short || is_read)
            .or_else(|| known(named, is_short))
            .filter(|(_, made)| !made.is_empty())
            .ok_or_else(unknown)?;
        // TH after a number is an ordinal, and MM after an hour was most likely meant as the minute.
        let behind = &named[length..];
        let is_ordinal = behind.get(..2).is_some_and(|suffix| suffix.eq_ignore_ascii_case("TH"));
        if is_ordinal || (after_hour && made.ends_with('m')) {
            return Err(unknown());
        }
        after_hour = made.ends_with(['H', 'I']);
        written.push_str(made);
        rest = behind;
    }
    // A fraction that is read may have any number of digits.
    Ok(if is_read { written.replace(".%3f", "%.f").replace(".%6f", "%.f") } else { written })
}

fn known(text: &str, is_short: bool) -> Option<(usize, &'static str)> {
    let begins = |part: &&Part| {
        text.get(..part.name.len()).is_some_and(|start| {
            if part.exact { start == part.name } else { start.eq_ignore_ascii_case(part.name) }
        })
    };
    let part = POSTGRES.iter().find(begins)?;
    let made = if is_short { part.short? } else { part.written };
    Some((part.name.len(), made))
}

/// Names of months and days are padded with spaces to nine letters, which chrono cannot do, unless FM precedes them.
fn month_or_day(text: &str, is_short: bool) -> Option<(usize, &'static str)> {
    let made = |made| if is_short { made } else { "" };
    match () {
        () if text.starts_with("Month") => Some((5, made("%B"))),
        () if text.starts_with("Day") => Some((3, made("%A"))),
        () => None,
    }
}

/// A Java pattern translated to chrono; the part without an equivalent is the error.
fn java(pattern: &str) -> std::result::Result<String, String> {
    let mut written = String::new();
    let mut rest = pattern;
    while let Some(first) = rest.chars().next() {
        if let Some(text) = rest.strip_prefix('\'') {
            let Some((text, behind)) = text.split_once('\'') else { return Err(rest.to_owned()) };
            written.push_str(if text.is_empty() { "'" } else { text });
            rest = behind;
            continue;
        }
        let count = rest.chars().take_while(|char| *char == first).count();
        let run = &rest[..count * first.len_utf8()];
        rest = &rest[run.len()..];
        if !first.is_alphabetic() {
            written.push_str(run);
            continue;
        }
        written.push_str(match run {
            "yyyy" | "uuuu" | "y" | "u" => "%Y",
            "yy" | "uu" => "%y",
            "M" => "%-m",
            "MM" => "%m",
            "MMM" => "%b",
            "MMMM" => "%B",
            "d" => "%-d",
            "dd" => "%d",
            "D" => "%-j",
            "DDD" => "%j",
            "H" => "%-H",
            "HH" => "%H",
            "h" => "%-I",
            "hh" => "%I",
            "m" => "%-M",
            "mm" => "%M",
            "s" => "%-S",
            "ss" => "%S",
            "SSS" => "%3f",
            "SSSSSS" => "%6f",
            "SSSSSSSSS" => "%9f",
            "a" => "%p",
            "E" | "EE" | "EEE" => "%a",
            "EEEE" => "%A",
            "Q" => "%q",
            unknown => return Err(unknown.to_owned()),
        });
    }
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::{java, percent, postgres};

    #[test]
    fn patterns_of_postgresql() {
        for (pattern, chrono) in [
            ("YYYY-MM-DD HH24:MI:SS.MS", "%Y-%m-%d %H:%M:%S.%3f"),
            ("yyyy-mm-dd", "%Y-%m-%d"),
            ("YYYY-MM-DD\"T\"HH24:MI:SS.US", "%Y-%m-%dT%H:%M:%S.%6f"),
            ("FMDD Mon YY, HH12:MI PM", "%-d %b %y, %I:%M %p"),
            ("FMDay, FMMonth FMDD", "%A, %B %-d"),
            ("IYYY-IW-ID", "%G-%V-%u"),
            ("", ""),
        ] {
            assert_eq!(postgres(pattern, false).as_deref(), Ok(chrono), "{pattern}");
        }
        for (pattern, unknown) in [
            ("YYYY-MM-DDTHH24", "DDTHH24"),
            ("Month", "Month"),
            ("HH24:mm", "mm"),
            ("YYYYx", "x"),
            ("SSSS", "SSSS"),
            ("DDth", "DDth"),
            ("\"open", "\"open"),
        ] {
            assert_eq!(postgres(pattern, false), Err(unknown.to_owned()), "{pattern}");
        }
        assert_eq!(postgres("HH24:MI:SS.MS", true).as_deref(), Ok("%H:%M:%S%.f"));
        assert_eq!(postgres("DD Month YYYY", true).as_deref(), Ok("%d %B %Y"));
    }

    #[test]
    fn patterns_of_java() {
        let day = java("yyyy-MM-dd'T'HH:mm:ss.SSS");
        assert_eq!(day.as_deref(), Ok("%Y-%m-%dT%H:%M:%S.%3f"));
        assert_eq!(java("d/M/yy h 'o''clock' a").as_deref(), Ok("%-d/%-m/%y %-I oclock %p"));
        assert_eq!(java("YYYY-MM-DD"), Err("YYYY".to_owned()));
        assert_eq!(java("HH:nn"), Err("nn".to_owned()));
    }

    #[test]
    fn patterns_with_percent_signs() {
        for pattern in ["%Y-%m-%d %H:%M:%S%.3f", "%-d %_H %0m", "100%%", "%:z %#z"] {
            assert_eq!(percent(pattern).as_deref(), Ok(pattern));
        }
        assert_eq!(percent("%H:%i"), Err("%i".to_owned()));
        assert_eq!(percent("50%"), Err("%".to_owned()));
    }
}
