//! What this implementation has to reach, whatever the paper's machine could do.

use std::time::Duration;

use super::answers::AnswerTimes;
use super::statements::Statement;

/// The paper's program took more than 19 hours.
const DAY_MAX: Duration = Duration::from_secs(10);

/// Whether the whole query is as fast as it must be. `cycle_s` is the length of a grouping cycle.
pub fn goals(answers: &[AnswerTimes], cycle_s: i64) -> Vec<Statement> {
    let all =
        |time: fn(&AnswerTimes) -> Duration, max: Duration| answers.iter().all(|answer| time(answer) < max);
    let numbers = |time: fn(&AnswerTimes) -> Duration| {
        let number = |answer: &AnswerTimes| {
            let noun = if answer.workers == 1 { "worker" } else { "workers" };
            format!("{} {noun} {:.3} s", answer.workers, time(answer).as_secs_f64())
        };
        answers.iter().map(number).collect::<Vec<_>>().join(", ")
    };
    let day = |answer: &AnswerTimes| answer.day;
    let longest = |answer: &AnswerTimes| answer.quantile(1.0);
    let cycle = Duration::from_secs(u64::try_from(cycle_s).unwrap_or(0));
    vec![
        Statement {
            text: "the query groups the day in less than 10 s",
            holds: all(day, DAY_MAX),
            numbers: numbers(day),
        },
        Statement {
            text: "each grouping cycle is answered before the next one ends, also in the rush hour (III 3.4)",
            holds: all(longest, cycle),
            numbers: format!("longest: {}", numbers(longest)),
        },
    ]
}
