//! Results for continuous integration, in the format of JUnit.

use std::fmt::Write;
use std::time::Duration;

/// What a test of one case has found.
#[derive(Clone, Debug)]
pub(super) struct TestedCase {
    /// The script.
    pub script: String,
    /// The case.
    pub name: String,
    pub took: Duration,
    pub verdict: Verdict,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Passed,
    /// What differs.
    Failed(String),
    /// The case itself is wrong, or cannot be run.
    Wrong(String),
}

/// Returns the results as XML.
pub(super) fn junit(cases: &[TestedCase]) -> String {
    let count =
        |is_counted: fn(&Verdict) -> bool| cases.iter().filter(|case| is_counted(&case.verdict)).count();
    let failures = count(|verdict| matches!(verdict, Verdict::Failed(_)));
    let errors = count(|verdict| matches!(verdict, Verdict::Wrong(_)));
    let seconds: f64 = cases.iter().map(|case| case.took.as_secs_f64()).sum();
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let tests = cases.len();
    let _ = writeln!(
        text,
        "<testsuite name=\"tidemill\" tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\" \
         time=\"{seconds:.3}\">"
    );
    for case in cases {
        let (script, name, seconds) = (escaped(&case.script), escaped(&case.name), case.took.as_secs_f64());
        let _ = write!(text, "  <testcase classname=\"{script}\" name=\"{name}\" time=\"{seconds:.3}\"");
        let _ = match &case.verdict {
            Verdict::Passed => writeln!(text, "/>"),
            Verdict::Failed(why) => {
                writeln!(text, ">\n    <failure>{}</failure>\n  </testcase>", escaped(why))
            }
            Verdict::Wrong(why) => writeln!(text, ">\n    <error>{}</error>\n  </testcase>", escaped(why)),
        };
    }
    text + "</testsuite>\n"
}

/// A text within XML. Characters that XML cannot have are left out.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' | '\t' => escaped.push(character),
            '\0'..='\x1f' | '\u{fffe}' | '\u{ffff}' => {}
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_xml_cannot_have_is_escaped_or_left_out() {
        assert_eq!(escaped("<a href=\"x\">&\u{1}\n"), "&lt;a href=&quot;x&quot;&gt;&amp;\n");
    }
}
