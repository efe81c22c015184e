//! The functions of PostgreSQL's catalogue that always give the same here: everything can be seen, nothing has a size or a description, and
//! there are no triggers, rules, partitions, locks and copies of the database.

use std::sync::Arc;

use tidemill_engine::arrow::array::builder::{Int64Builder, ListBuilder};
use tidemill_engine::arrow::array::{ArrayRef, BooleanArray, Int64Array, StringArray, new_null_array};
use tidemill_engine::arrow::schema::{DataType, Field, TimeUnit};
use tidemill_sql::Planner;

/// What a function gives for each row.
#[derive(Clone, Copy)]
enum Given {
    Flag(bool),
    Zero,
    Text(&'static str),
    NoText,
    NoTime,
    /// An empty list of numbers.
    NoNumbers,
}

use Given::{Flag, NoNumbers, NoText, NoTime, Text, Zero};

/// Their names, the types of their arguments, and what they give.
const FUNCTIONS: [(&str, &[DataType], Given); 53] = [
    ("col_description", &[DataType::Int64, DataType::Int64], NoText),
    ("getdatabaseencoding", &[], Text("UTF8")),
    ("obj_description", &[DataType::Int64, DataType::Utf8], NoText),
    ("pg_advisory_unlock_all", &[], NoText),
    ("pg_blocking_pids", &[DataType::Int64], NoNumbers),
    ("pg_client_encoding", &[], Text("UTF8")),
    ("pg_collation_is_visible", &[DataType::Int64], Flag(true)),
    // Its relation is a name or a number.
    ("pg_column_is_updatable", &[DataType::Utf8, DataType::Int64, DataType::Boolean], Flag(false)),
    ("pg_conversion_is_visible", &[DataType::Int64], Flag(true)),
    ("pg_current_wal_lsn", &[], NoText),
    ("pg_database_size", &[DataType::Utf8], Zero),
    ("pg_encoding_to_char", &[DataType::Int64], Text("UTF8")),
    ("pg_function_is_visible", &[DataType::Int64], Flag(true)),
    ("pg_get_expr", &[DataType::Utf8, DataType::Int64], NoText),
    ("pg_get_function_sqlbody", &[DataType::Int64], NoText),
    ("pg_get_functiondef", &[DataType::Int64], NoText),
    ("pg_get_partkeydef", &[DataType::Int64], NoText),
    ("pg_get_ruledef", &[DataType::Int64], NoText),
    ("pg_get_serial_sequence", &[DataType::Utf8, DataType::Utf8], NoText),
    ("pg_get_statisticsobjdef", &[DataType::Int64], NoText),
    ("pg_get_triggerdef", &[DataType::Int64], NoText),
    ("pg_indexes_size", &[DataType::Int64], Zero),
    ("pg_is_in_recovery", &[], Flag(false)),
    ("pg_is_wal_replay_paused", &[], Flag(false)),
    ("pg_jit_available", &[], Flag(false)),
    ("pg_last_wal_receive_lsn", &[], NoText),
    ("pg_last_wal_replay_lsn", &[], NoText),
    ("pg_last_xact_replay_timestamp", &[], NoTime),
    // A session has no schema of its own.
    ("pg_my_temp_schema", &[], Zero),
    ("pg_opclass_is_visible", &[DataType::Int64], Flag(true)),
    ("pg_operator_is_visible", &[DataType::Int64], Flag(true)),
    ("pg_opfamily_is_visible", &[DataType::Int64], Flag(true)),
    ("pg_relation_is_updatable", &[DataType::Int64, DataType::Boolean], Zero),
    ("pg_relation_size", &[DataType::Int64], Zero),
    ("pg_sequence_last_value", &[DataType::Int64], Zero),
    ("pg_stat_get_dead_tuples", &[DataType::Int64], Zero),
    ("pg_stat_get_live_tuples", &[DataType::Int64], Zero),
    ("pg_stat_get_numscans", &[DataType::Int64], Zero),
    ("pg_stat_reset", &[], NoText),
    ("pg_stat_reset_single_table_counters", &[DataType::Int64], NoText),
    ("pg_statistics_obj_is_visible", &[DataType::Int64], Flag(true)),
    ("pg_table_is_visible", &[DataType::Int64], Flag(true)),
    ("pg_table_size", &[DataType::Int64], Zero),
    ("pg_tablespace_databases", &[DataType::Int64], Zero),
    ("pg_tablespace_location", &[DataType::Int64], Text("")),
    ("pg_tablespace_size", &[DataType::Int64], Zero),
    ("pg_total_relation_size", &[DataType::Int64], Zero),
    ("pg_ts_config_is_visible", &[DataType::Int64], Flag(true)),
    ("pg_ts_dict_is_visible", &[DataType::Int64], Flag(true)),
    ("pg_ts_parser_is_visible", &[DataType::Int64], Flag(true)),
    ("pg_ts_template_is_visible", &[DataType::Int64], Flag(true)),
    ("pg_type_is_visible", &[DataType::Int64], Flag(true)),
    ("shobj_description", &[DataType::Int64, DataType::Utf8], NoText),
];

/// The functions that there are.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    FUNCTIONS.iter().map(|(name, ..)| *name)
}

impl Given {
    fn data_type(self) -> DataType {
        match self {
            Flag(_) => DataType::Boolean,
            Zero => DataType::Int64,
            Text(_) | NoText => DataType::Utf8,
            NoTime => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            NoNumbers => DataType::List(Arc::new(Field::new_list_field(DataType::Int64, true))),
        }
    }

    fn rows(self, count: usize) -> ArrayRef {
        match self {
            Flag(flag) => Arc::new(BooleanArray::from(vec![flag; count])),
            Zero => Arc::new(Int64Array::from(vec![0; count])),
            Text(text) => Arc::new(StringArray::from(vec![text; count])),
            NoText | NoTime => new_null_array(&self.data_type(), count),
            NoNumbers => {
                let mut lists = ListBuilder::new(Int64Builder::new());
                (0..count).for_each(|_| lists.append(true));
                Arc::new(lists.finish())
            }
        }
    }
}

/// Registers all of them.
pub(super) fn register(planner: &mut Planner) {
    for (name, arguments, given) in FUNCTIONS {
        planner.register_function(name, arguments.to_vec(), given.data_type(), move |arguments| {
            // A function without arguments gives one row.
            Ok(given.rows(arguments.first().map_or(1, |first| first.len())))
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_function_gives_values_of_its_type() {
        for (name, _, given) in FUNCTIONS {
            let rows = given.rows(3);
            assert_eq!((rows.len(), rows.data_type()), (3, &given.data_type()), "{name}");
        }
    }
}
