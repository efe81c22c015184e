//! `tumble(TABLE(t), time, size)` and `hop` in FROM, in the words of DuckDB.

/// The end of the name of a source without its late rows.
pub const IN_TIME: &str = "_in_time";

/// A query over sources with their late rows outside of windows, and over none with them.
pub fn translated(query: &str) -> [String; 2] {
    let query = query.replace("DATE_BIN", "date_bin");
    let windows = calls(&query);
    [windows.clone(), with_sources_in_time(&windows)]
}

fn calls(query: &str) -> String {
    let mut text = query.to_string();
    for (name, bounds) in [("tumble", tumble as fn(&[String]) -> Option<String>), ("hop", hop)] {
        let mut from = 0;
        while let Some((start, end, arguments)) = call(&text, name, from) {
            match bounds(&arguments) {
                Some(relation) => {
                    text.replace_range(start..end, &relation);
                    from = start;
                }
                None => from = end,
            }
        }
    }
    text
}

/// The next call of a function on a relation: where it stands, and its arguments.
fn call(text: &str, name: &str, from: usize) -> Option<(usize, usize, Vec<String>)> {
    let lower = text.to_lowercase();
    let start = from + lower.get(from..)?.find(&format!("{name}("))?;
    let (mut depth, mut arguments, mut argument) = (0, Vec::new(), String::new());
    for (offset, letter) in text[start + name.len()..].char_indices() {
        match letter {
            '(' if depth == 0 => depth = 1,
            ',' if depth == 1 => arguments.push(std::mem::take(&mut argument).trim().to_string()),
            ')' if depth == 1 => {
                arguments.push(argument.trim().to_string());
                return Some((start, start + name.len() + offset + 1, arguments));
            }
            letter => {
                depth += i32::from(letter == '(') - i32::from(letter == ')');
                argument.push(letter);
            }
        }
    }
    None
}

/// What a call is about: a table's name or a query, and the column of times.
fn input(arguments: &[String]) -> Option<(String, String)> {
    let (relation, time) = (arguments.first()?, arguments.get(1)?);
    let upper = relation.to_uppercase();
    let relation = match upper.strip_prefix("TABLE(") {
        Some(_) => format!("{}{IN_TIME}", relation["TABLE(".len()..].trim_end_matches(')').trim()),
        None if relation.starts_with('(') => format!("{} AS input", calls(relation)),
        None => return None,
    };
    let time = match time.to_uppercase().strip_prefix("DESCRIPTOR(") {
        Some(_) => time["DESCRIPTOR(".len()..].trim_end_matches(')').trim().to_string(),
        None => time.clone(),
    };
    Some((relation, time))
}

fn tumble(arguments: &[String]) -> Option<String> {
    let (relation, time) = input(arguments)?;
    let size = arguments.get(2)?;
    let origin = match arguments.get(3) {
        Some(offset) => format!("TIMESTAMP '1970-01-01' + {offset}"),
        None => "TIMESTAMP '1970-01-01'".into(),
    };
    Some(format!(
        "(SELECT *, time_bucket({size}, {time}, {origin}) AS window_start, time_bucket({size}, {time}, {origin}) + \
         {size} AS window_end FROM {relation} WHERE {time} IS NOT NULL)"
    ))
}

fn hop(arguments: &[String]) -> Option<String> {
    let (relation, time) = input(arguments)?;
    let (slide, size) = (arguments.get(2)?, arguments.get(3)?);
    if arguments.len() > 4 {
        return None;
    }
    let last = format!("time_bucket({slide}, {time}, TIMESTAMP '1970-01-01')");
    Some(format!(
        "(SELECT * EXCLUDE (step), {last} - step * {slide} AS window_start, {last} - step * {slide} + {size} AS \
         window_end FROM {relation}, range(1000) AS steps(step) WHERE {last} - step * {slide} + {size} > {time})"
    ))
}

/// Names behind FROM and JOIN are those without late rows.
fn with_sources_in_time(query: &str) -> String {
    let mut words: Vec<String> = Vec::new();
    for word in query.split_inclusive(char::is_whitespace) {
        let name = word.trim_end();
        let follows = words
            .last()
            .is_some_and(|before| ["FROM", "JOIN"].contains(&before.trim().to_uppercase().as_str()));
        let is_name =
            name.trim_end_matches([')', ',']).chars().all(|letter| letter.is_alphanumeric() || letter == '_');
        if follows && is_name && !name.ends_with(IN_TIME) {
            let bare = name.trim_end_matches([')', ',']);
            words.push(format!("{bare}{IN_TIME} AS {bare}{}", &word[bare.len()..]));
        } else {
            words.push(word.to_string());
        }
    }
    words.concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_become_buckets() {
        let [plain, in_time] = translated(
            "SELECT count(*) FROM tumble(TABLE(clicks), DESCRIPTOR(at), INTERVAL '10 seconds') GROUP BY window_end",
        );
        assert!(plain.contains("FROM clicks_in_time WHERE at IS NOT NULL) GROUP BY window_end"), "{plain}");
        assert!(plain.contains("time_bucket(INTERVAL '10 seconds', at, TIMESTAMP '1970-01-01')"), "{plain}");
        assert_eq!(plain, in_time);
        let [plain, in_time] = translated("SELECT n FROM clicks WHERE n > 1");
        assert_eq!(plain, "SELECT n FROM clicks WHERE n > 1");
        assert_eq!(in_time, "SELECT n FROM clicks_in_time AS clicks WHERE n > 1");
    }
}
