//! Rust text with its comments and literals blanked out, so that a search finds code only.

/// The text with every character of a comment, string or character literal replaced by a blank. Lines stay where
/// they are.
pub fn code_only(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut code = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let length = skipped(&chars, at);
        if length == 0 {
            code.push(chars[at]);
            at += 1;
        } else {
            let end = (at + length).min(chars.len());
            code.extend(chars[at..end].iter().map(|c| if *c == '\n' { '\n' } else { ' ' }));
            at = end;
        }
    }
    code
}

/// The string literals of a text, each with the line where it begins. A backslash at the end of a line joins it with the next
/// one, as in Rust.
pub fn string_literals(text: &str) -> Vec<(usize, String)> {
    let chars: Vec<char> = text.chars().collect();
    let (mut literals, mut at, mut line) = (Vec::new(), 0, 1);
    while at < chars.len() {
        let end = (at + skipped(&chars, at).max(1)).min(chars.len());
        if matches!(chars[at], '"' | 'r') && end > at + 1 {
            literals.push((line, joined(&chars[at..end])));
        }
        line += chars[at..end].iter().filter(|c| **c == '\n').count();
        at = end;
    }
    literals
}

/// A literal without the line breaks that backslashes hide.
fn joined(literal: &[char]) -> String {
    let text: String = literal.iter().collect();
    let mut parts = text.split("\\\n");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |joined, part| joined + part.trim_start())
}

/// The code before the first `#[cfg(test)]` that stands alone on its line: modules of tests stand at the end.
pub fn before_tests(code: &str) -> &str {
    let mut end = 0;
    for line in code.split_inclusive('\n') {
        if line.trim() == "#[cfg(test)]" {
            return &code[..end];
        }
        end += line.len();
    }
    code
}

/// Whether a line has a word that is not part of a longer one.
pub fn has_word(line: &str, word: &str) -> bool {
    let part_of_word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        !line[..at].ends_with(part_of_word) && !line[at + word.len()..].starts_with(part_of_word)
    })
}

/// How many characters of a comment or literal begin here; 0 if none does.
fn skipped(chars: &[char], at: usize) -> usize {
    let rest = &chars[at..];
    match rest {
        ['/', '/', ..] => rest.iter().position(|c| *c == '\n').unwrap_or(rest.len()),
        ['/', '*', ..] => block_comment(rest),
        ['"', ..] => quoted(rest),
        ['r', '"' | '#', ..] if !follows_a_word(chars, at) => raw_string(rest),
        ['\'', '\\', ..] => 3 + rest[3.min(rest.len())..].iter().position(|c| *c == '\'').unwrap_or(0) + 1,
        ['\'', _, '\'', ..] => 3,
        _ => 0,
    }
}

/// A name that ends in `r`, unlike the `r` of a raw string; `br` and `cr` strings begin one character earlier.
fn follows_a_word(chars: &[char], at: usize) -> bool {
    at > 0 && (chars[at - 1].is_alphanumeric() || chars[at - 1] == '_') && !matches!(chars[at - 1], 'b' | 'c')
}

/// Block comments nest.
fn block_comment(rest: &[char]) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < rest.len() {
        match rest[at..] {
            ['/', '*', ..] => (depth, at) = (depth + 1, at + 2),
            ['*', '/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

fn quoted(rest: &[char]) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != '"' {
        at += if rest[at] == '\\' { 2 } else { 1 };
    }
    at + 1
}

/// `r#"..."#` with any number of `#`; 0 if it is none (a raw name).
fn raw_string(rest: &[char]) -> usize {
    let hashes = rest[1..].iter().take_while(|c| **c == '#').count();
    if rest.get(1 + hashes) != Some(&'"') {
        return 0;
    }
    let mut end = vec!['"'];
    end.extend(std::iter::repeat_n('#', hashes));
    let body = &rest[2 + hashes..];
    let length = body.windows(end.len()).position(|window| window == end).unwrap_or(body.len());
    2 + hashes + length + end.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blanked() {
        let text =
            "a // b\nc /* d /* e */ f\n */ g(\"h \\\" // i\", 'j', '\\'', '\"', r#\"k \" l\"#, m::<'n>)";
        let code: String = code_only(text).split_whitespace().collect();
        assert_eq!(code, "acg(,,,,,m::<'n>)");
        assert_eq!(code_only(text).lines().count(), text.lines().count());
    }

    #[test]
    fn names_that_end_in_r_begin_no_raw_string() {
        assert_eq!(code_only("for r in color\"x\" r#type"), "for r in color    r#type");
        assert_eq!(code_only("br\"\\\" + x"), "b     + x");
    }

    #[test]
    fn string_literals_are_found_with_their_lines() {
        let text = "a // \"b\"\nc(\"d\", 'e', '\"',\n  \"f \\\n     g\", r#\"h \"i\"\"#)\nr \"j\"";
        let expected = [(2, "\"d\""), (3, "\"f g\""), (4, "r#\"h \"i\"\"#"), (5, "\"j\"")];
        assert_eq!(string_literals(text), expected.map(|(line, literal)| (line, literal.to_owned())));
    }

    #[test]
    fn tests_are_cut_off() {
        assert_eq!(before_tests("a\n#[cfg(test)]\nmod tests {}\n"), "a\n");
        assert_eq!(before_tests("a\n"), "a\n");
    }

    #[test]
    fn words_are_whole() {
        assert!(has_word("    unsafe { x }", "unsafe"));
        assert!(!has_word("#![deny(unsafe_code)]", "unsafe"));
    }
}
