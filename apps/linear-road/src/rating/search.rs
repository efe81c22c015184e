//! Finds the rating: short trials, doubling and halving, then one full trial of the result.

use super::base_group::{BaseGroup, RatingError};
use super::trial::{TrialOptions, TrialResult, run_trial};

/// How the rating is searched for.
#[derive(Clone, Debug)]
pub struct SearchOptions {
    /// The first number of expressways to try.
    pub from: u16,
    /// The largest number to try.
    pub to: u16,
    /// The search ends when the answer is known up to this share of itself.
    pub precision: f64,
    /// Seconds of the window in a trial of the search.
    pub trial_seconds: usize,
    /// Seconds of the window in the last trial, which counts.
    pub final_seconds: usize,
    /// Whether to search; otherwise only `from` is tried, once, over the whole window.
    pub is_search: bool,
    /// The other settings of a trial.
    pub trial: TrialOptions,
}

/// Events reported during the search.
#[derive(Clone, Copy, Debug)]
pub enum SearchEvent<'a> {
    /// A trial begins.
    Begins {
        /// The number of expressways tried.
        expressways: u16,
        /// Seconds of the window.
        seconds: usize,
    },
    /// A second of the trial is over.
    Second(usize),
    /// A trial has ended.
    Ended(&'a TrialResult),
}

/// The largest number of expressways that was served in a full trial, with its result; `None` if not even the smallest
/// was. Without a search, the result of the one trial, valid or not.
///
/// # Errors
/// If a trial cannot be run.
pub fn search(
    base: &BaseGroup,
    options: &SearchOptions,
    mut progress: impl FnMut(SearchEvent<'_>),
) -> Result<Option<TrialResult>, RatingError> {
    if !options.is_search {
        let result = trial(base, options, options.from, options.final_seconds, &mut progress)?;
        return Ok(Some(result));
    }
    let step = base.spans.expressways;
    let mut found = bisect(base, options, step, &mut progress)?;
    // A full trial may find what a short one did not; then the next smaller one is tried.
    while found > 0 {
        let result = trial(base, options, found, options.final_seconds, &mut progress)?;
        if result.is_valid() {
            return Ok(Some(result));
        }
        let less = ((f64::from(found) * options.precision) as u16).max(step);
        found = found.saturating_sub(less) / step * step;
    }
    Ok(None)
}

/// Doubles until a short trial fails, then halves the distance. 0 if even the smallest fails.
fn bisect(
    base: &BaseGroup,
    options: &SearchOptions,
    step: u16,
    progress: &mut impl FnMut(SearchEvent<'_>),
) -> Result<u16, RatingError> {
    let most = options.to / step * step;
    let (mut good, mut bad) = (0, most + step);
    let mut next = (options.from / step * step).clamp(step, most.max(step));
    while next > good && next < bad {
        if trial(base, options, next, options.trial_seconds, progress)?.is_valid() {
            good = next
        } else {
            bad = next
        }
        if f64::from(bad - good) <= (options.precision * f64::from(bad)).max(step.into()) {
            break;
        }
        let has_failed = bad <= most;
        next =
            if has_failed { good + (bad - good) / 2 / step * step } else { good.saturating_mul(2).min(most) };
    }
    Ok(good)
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
