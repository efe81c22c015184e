//! How the inputs of the query's operators are split: by the plans of the papers on splitting.

use std::fmt;
use std::str::FromStr;

use tidemill_engine::{AutoSplit, Plan, SplitPlan};

/// Which split plan all inputs of all operators have. It changes how fast the query is, never its answers.
///
/// Every input is routed by a key, and nothing is broadcast. So the papers' `autosplit` is `fsplit` here.
///
/// ```
/// use tidemill_linear_road::InputSplit;
/// assert_eq!("exptree".parse(), Ok(InputSplit::Exptree));
/// assert_eq!(InputSplit::default().to_string(), "parasplit");
/// let error = "tree".parse::<InputSplit>().unwrap_err();
/// assert_eq!(error.to_string(), "split 'tree': give parasplit, fsplit, exptree, or auto");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InputSplit {
    /// A splitter on each worker, for the rows that this worker has: `parasplit` with as many splitters as there are workers.
    #[default]
    Parasplit,
    /// One splitter.
    Fsplit,
    /// A tree of splitters with fan-outs 2, 4, 8, ...
    Exptree,
    /// The engine chooses, and changes the plan while the query runs.
    Auto,
}

impl InputSplit {
    const ALL: [InputSplit; 4] =
        [InputSplit::Parasplit, InputSplit::Fsplit, InputSplit::Exptree, InputSplit::Auto];

    fn name(self) -> &'static str {
        match self {
            InputSplit::Parasplit => "parasplit",
            InputSplit::Fsplit => "fsplit",
            InputSplit::Exptree => "exptree",
            InputSplit::Auto => "auto",
        }
    }

    /// Sets it for all inputs of a plan.
    pub(crate) fn set_in(self, plan: &mut Plan) {
        for operator in &mut plan.operators {
            let partitions = operator.partitions;
            for input in &mut operator.inputs {
                input.split = match self {
                    InputSplit::Parasplit | InputSplit::Auto => None,
                    InputSplit::Fsplit => Some(SplitPlan::fsplit(partitions)),
                    InputSplit::Exptree => Some(SplitPlan::exptree(partitions)),
                };
                input.auto_split = (self == InputSplit::Auto).then(AutoSplit::default);
            }
        }
    }
}

impl fmt::Display for InputSplit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// A name that no plan has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("split '{0}': give parasplit, fsplit, exptree, or auto")]
pub struct InputSplitError(String);

impl FromStr for InputSplit {
    type Err = InputSplitError;

    fn from_str(text: &str) -> Result<InputSplit, InputSplitError> {
        let found = InputSplit::ALL.into_iter().find(|split| split.name() == text);
        found.ok_or_else(|| InputSplitError(text.to_owned()))
    }
}
