//! Rows in memory.

use arrow_select::concat::concat_batches;
use proptest::prelude::*;
use tidemill_connect::memory::MemorySink;
use tidemill_core::{Cause, Fault, Sink};

use crate::sinks::support::{any_cycles, commit_one, cycle, drive, rows, schema};

proptest! {
    #[test]
    fn readers_see_what_is_committed_at_any_time((cycles, commits) in any_cycles()) {
        let (mut sink, memory) = MemorySink::new(&schema(), usize::MAX);
        let check = |committed: &[_]| {
            assert_eq!(memory.read().unwrap(), concat_batches(&schema(), committed).unwrap());
            assert_eq!(memory.len(), committed.iter().map(arrow_array::RecordBatch::num_rows).sum::<usize>());
        };
        drive(&mut sink, &cycles, &commits, check);
        prop_assert!(!memory.is_finished());
        sink.finish().unwrap();
        prop_assert!(memory.is_finished());
    }
}

#[test]
fn a_commit_says_its_cycles() {
    let (mut sink, memory) = MemorySink::new(&schema(), 10);
    for number in 3..6 {
        sink.prepare(cycle(number, Some(rows(&[("a", number as i64)])))).unwrap();
    }
    sink.commit(3..=4).unwrap();
    let commits = memory.commits();
    assert_eq!(commits.len(), 1);
    assert_eq!((commits[0].cycles.clone(), commits[0].batches.len()), (3..=4, 2));
    sink.commit(5..=5).unwrap();
    assert_eq!(memory.commits()[1].batches, [rows(&[("a", 5)])]);
}

#[test]
fn over_the_limit_nothing_of_the_commit_is_kept() {
    let (mut sink, memory) = MemorySink::new(&schema(), 3);
    commit_one(&mut sink, 0, rows(&[("a", 1), ("b", 2)])).unwrap();
    let refused = commit_one(&mut sink, 1, rows(&[("c", 3), ("d", 4)]));
    assert!(
        matches!(refused, Err(Cause { fault: Fault::Resource, message, .. }) if message.contains("max_result_rows"))
    );
    assert_eq!(memory.read().unwrap(), rows(&[("a", 1), ("b", 2)]));
}
