//! Finding the rating: short trials, doubling and halving, then one whole trial of what was found.

use super::base_group::{BaseGroup, RatingError};
use super::trial::{TrialOptions, TrialResult, run_trial};

/// How the rating is searched for.
#[derive(Clone, Debug)]
pub struct SearchOptions {
    /// The first number of expressways to try.
    pub from: u16,
    /// The largest number to try.
    pub to: u16,
    /// The search ends when the answer is known to this share of itself.
    pub precision: f64,
    /// Seconds of the window in a trial of the search.
    pub trial_seconds: usize,
    /// Seconds of the window in the last trial, which counts.
    pub final_seconds: usize,
    /// What else a trial needs.
    pub trial: TrialOptions,
}

/// What the search tells while it runs.
#[derive(Clone, Copy, Debug)]
pub enum SearchEvent<'a> {
    /// A trial begins.
    Begins {
        /// Expressways that are tried.
        expressways: u16,
        /// Seconds of the window.
        seconds: usize,
    },
    /// A second of the trial is over.
    Second(usize),
    /// A trial has ended.
    Ended(&'a TrialResult),
}

/// The largest number of expressways that was served in a whole trial, with its result; `None` if not even
/// the smallest was.
///
/// # Errors
/// If a trial cannot be run.
pub fn search(
    base: &BaseGroup,
    options: &SearchOptions,
    mut progress: impl FnMut(SearchEvent<'_>),
) -> Result<Option<TrialResult>, RatingError> {
    let step = base.spans.expressways;
    let mut good = 0;
    let mut bad = None;
    let mut next = round_up(options.from.clamp(step, options.to), step);
    while next > good && bad.is_none_or(|bad| next < bad) {
        let result = trial(base, options, next, options.trial_seconds, &mut progress)?;
        match result.is_valid() {
            true => good = next,
            false => bad = Some(next),
        }
        next = match bad {
            None if good >= options.to => break,
            None => round_up(good.saturating_mul(2).min(options.to), step),
            Some(bad) if f64::from(bad - good) <= (options.precision * f64::from(bad)).max(step.into()) => {
                break;
            }
            Some(bad) => round_up(good + (bad - good) / 2, step),
        };
    }
    // A whole trial may find what a short one did not; then the next smaller one is tried.
    while good > 0 {
        let result = trial(base, options, good, options.final_seconds, &mut progress)?;
        if result.is_valid() {
            return Ok(Some(result));
        }
        let less = ((f64::from(good) * options.precision) as u16).max(step);
        good = good.saturating_sub(less) / step * step;
    }
    Ok(None)
}

fn round_up(expressways: u16, step: u16) -> u16 {
    expressways.div_ceil(step).saturating_mul(step)
}

fn trial(
    base: &BaseGroup,
    options: &SearchOptions,
    expressways: u16,
    seconds: usize,
    progress: &mut impl FnMut(SearchEvent<'_>),
) -> Result<TrialResult, RatingError> {
    progress(SearchEvent::Begins { expressways, seconds });
    let trial = TrialOptions { expressways, seconds, ..options.trial.clone() };
    let result = run_trial(base, &trial, |second, _| progress(SearchEvent::Second(second)))?;
    progress(SearchEvent::Ended(&result));
    Ok(result)
}
