//! Processes: queries with a name and a place, alone or as a set over parameters.

use std::sync::Arc;

use datafusion::common::ScalarValue;
use datafusion::logical_expr::LogicalPlan;
use tidemill_engine::StreamProcessPlan;

/// One process. It is identified by its address: however often it is named, it runs once.
#[derive(Debug)]
pub(crate) struct StreamProcess {
    /// Its name, with its parameters if it belongs to a set, and where it may run.
    pub plan: StreamProcessPlan,
}

/// A process, or a set of them.
#[derive(Debug)]
pub(crate) struct StreamProcessSet {
    /// Its name.
    pub name: String,
    /// The rows of all of them.
    pub plan: LogicalPlan,
    /// Its members.
    pub members: Vec<StreamProcessMember>,
}

/// A member of a set.
#[derive(Debug)]
pub(crate) struct StreamProcessMember {
    /// The values of its parameters; empty if it is not a set.
    pub parameters: Vec<ScalarValue>,
    /// The process.
    pub definition: Arc<StreamProcess>,
    /// Its query, as a separate node.
    pub plan: LogicalPlan,
}

impl StreamProcessSet {
    /// Its processes.
    pub fn processes(&self) -> impl Iterator<Item = &StreamProcessPlan> {
        self.members.iter().map(|member| &member.definition.plan)
    }

    /// The member with these parameters, converted to their own types.
    pub fn member(&self, parameters: &[ScalarValue]) -> Option<&StreamProcessMember> {
        let is_equal = |(own, given): (&ScalarValue, &ScalarValue)| {
            given.cast_to(&own.data_type()).is_ok_and(|given| given == *own)
        };
        let fits = |member: &&StreamProcessMember| {
            member.parameters.len() == parameters.len()
                && member.parameters.iter().zip(parameters).all(is_equal)
        };
        self.members.iter().find(fits)
    }
}

/// `name(1, 'a')`
pub(crate) fn call_text(name: &str, parameters: &[ScalarValue]) -> String {
    if parameters.is_empty() {
        return name.to_string();
    }
    let shown: Vec<String> = parameters.iter().map(value_text).collect();
    format!("{name}({})", shown.join(", "))
}

fn value_text(value: &ScalarValue) -> String {
    match value {
        ScalarValue::Utf8(Some(text))
        | ScalarValue::LargeUtf8(Some(text))
        | ScalarValue::Utf8View(Some(text)) => {
            format!("'{text}'")
        }
        other => other.to_string(),
    }
}
