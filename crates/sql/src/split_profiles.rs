//! The costs of splits on this machine, stored in a file between runs: EXPLAIN can predict the cost of a plan, and a
//! query begins with the plan that was best.

use std::collections::BTreeMap;
use std::path::Path;

use tidemill_engine::{Cause, OperatorPlan, Plan, SplitProfile};

use crate::profiles::{Profile, Profiles, machine};

/// A split that a query requests.
pub(crate) struct RequestedSplit {
    /// Its display.
    pub text: String,
    /// The key of its profile: machine, query, and how it is split.
    pub key: String,
    /// Its costs in an earlier run.
    pub profile: Option<SplitProfile>,
}

/// The texts of inputs that are split by hand, by the operator's name and the input's number.
pub(crate) type SplitTexts = BTreeMap<(String, usize), String>;
/// The same with what is known about them.
pub(crate) type RequestedSplits = BTreeMap<(String, usize), RequestedSplit>;

/// The profiles of splits.
pub(crate) type SplitProfiles = Profiles<SplitProfile>;

impl Profile for SplitProfile {
    const VERSION: u8 = 1;
    const BYTES_MAX: usize = 256;

    fn to_bytes(&self) -> Vec<u8> {
        SplitProfile::to_bytes(self)
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self, Cause> {
        SplitProfile::from_bytes(bytes)
    }
}

/// The inputs of a plan for which a query requests a split, by operator and number, with their texts. Known profiles
/// are passed to inputs for which the engine chooses.
pub(crate) fn requested_splits(plan: &mut Plan, texts: SplitTexts, path: Option<&Path>) -> RequestedSplits {
    if texts.is_empty() {
        return RequestedSplits::new();
    }
    let known = path.map(SplitProfiles::read);
    let mut requested = RequestedSplits::new();
    for ((name, input), text) in texts {
        let Some(at) = plan.operators.iter().position(|operator| operator.name == name) else { continue };
        let key = key(plan, &plan.operators[at], input, &text);
        let profile = known.as_ref().and_then(|known| known.get(&key));
        if let Some(auto) = &mut plan.operators[at].inputs[input].auto_split {
            auto.profile = profile;
        }
        requested.insert((name, input), RequestedSplit { text, key, profile });
    }
    requested
}

/// The key of the profile of an operator's input that is split as the text says.
fn key(plan: &Plan, operator: &OperatorPlan, input: usize, text: &str) -> String {
    let (name, partitions, input) = (&operator.name, operator.partitions, &operator.inputs[input]);
    let fields = plan.schema(input.stream).map(|schema| schema.fields().clone()).unwrap_or_default();
    let read = fields.iter().filter(|field| input.columns.contains(field.name()));
    let columns: Vec<String> =
        read.map(|field| format!("{} {} {}", field.name(), field.data_type(), field.is_nullable())).collect();
    format!("{}; {name}; {partitions} of {text}; {}", machine(), columns.join(", "))
}
