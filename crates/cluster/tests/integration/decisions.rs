//! Properties of placement, generations and the parts of the log, each against a rule that is simpler than the code.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use tidemill_cluster::fence::{Fence, Fenced};
use tidemill_cluster::generation::{Generation, GenerationNumber, GenerationRun};
use tidemill_cluster::log::{
    AppendDecision, Epoch, EpochWriter, LogRecord, Refusal, Replica, ReplicaId, Seal, SealAnswer, Tail,
};
use tidemill_cluster::members::{NodeId, candidate};
use tidemill_cluster::placement::Placement;

fn nodes(numbers: &BTreeSet<u32>) -> Vec<NodeId> {
    numbers.iter().copied().map(NodeId).collect()
}

/// The fewest moves to an even placement, by trying every choice of who has one more.
fn fewest_moves(before: &Placement, partitions: usize, members: &[NodeId]) -> usize {
    let (share, more) = (partitions / members.len(), partitions % members.len());
    let kept_by = |choice: u32| -> usize {
        let quota = |index: usize| share + (choice >> index & 1) as usize;
        members.iter().enumerate().map(|(index, member)| before.load(*member).min(quota(index))).sum()
    };
    let choices = (0..1_u32 << members.len()).filter(|choice| choice.count_ones() as usize == more);
    partitions - choices.map(kept_by).max().unwrap()
}

proptest! {
    #[test]
    fn a_placement_is_even_and_moves_as_few_as_possible(
        partitions in 0_usize..40,
        changes in prop::collection::vec(prop::collection::btree_set(0_u32..8, 1..7), 1..5),
    ) {
        let mut placement = Placement::default();
        for (number, members) in changes.iter().enumerate() {
            let members = nodes(members);
            let next = placement.next(partitions, &members);
            prop_assert_eq!(next.partitions(), partitions);
            let loads: Vec<usize> = members.iter().map(|member| next.load(*member)).collect();
            prop_assert_eq!(loads.iter().sum::<usize>(), partitions);
            prop_assert!(loads.iter().max().unwrap() - loads.iter().min().unwrap() <= 1, "{:?}", loads);
            if number > 0 {
                prop_assert_eq!(placement.moved(&next), fewest_moves(&placement, partitions, &members));
            }
            let reversed: Vec<NodeId> = members.iter().rev().copied().collect();
            prop_assert_eq!(&placement.next(partitions, &reversed), &next, "it depends on the order of members");
            placement = next;
        }
    }

    /// Joins, leaves, deaths and commits in any order: the next generation has whom it should, and begins where all before it
    /// is committed.
    #[test]
    fn a_generation_ends_at_a_cut(steps in prop::collection::vec((0_u8..6, 0_u32..5), 0..60)) {
        let mut generation = Generation::first(BTreeSet::from([NodeId(0), NodeId(1)]), 7).unwrap();
        let mut run = GenerationRun::new(generation.members.clone(), generation.first_cycle);
        let mut expected = generation.members.clone();
        let (mut closed, mut committed, mut ends_at, mut is_dead) = (0_u64, 0_u64, None, false);
        for (step, node) in steps {
            let node = NodeId(node);
            let is_member = generation.members.contains(&node);
            match step {
                0 | 1 => {
                    let cycle = run.close_cycle();
                    prop_assert_eq!(cycle, (ends_at.is_none() && !is_dead).then_some(closed));
                    closed += u64::from(cycle.is_some());
                }
                2 => {
                    committed = closed.min(committed + 1);
                    run.committed(committed);
                }
                3 => {
                    let is_new = expected.insert(node) && !is_member;
                    ends_at = ends_at.or(is_new.then_some(closed));
                    run.join(node);
                }
                4 => {
                    let is_gone = expected.remove(&node) && is_member;
                    ends_at = ends_at.or(is_gone.then_some(closed));
                    run.leave(node);
                }
                _ => {
                    expected.remove(&node);
                    is_dead |= is_member;
                    run.died(node);
                }
            }
            let has_ended = is_dead || ends_at.is_some_and(|end| committed >= end);
            prop_assert_eq!(run.has_ended(), has_ended);
            prop_assert_eq!(run.committed_cycles(), committed);
            if !has_ended {
                continue;
            }
            prop_assert_eq!(&run.next_members(), &expected);
            let Some(next) = generation.next(run.next_members(), run.committed_cycles()) else {
                prop_assert!(expected.is_empty());
                return Ok(());
            };
            prop_assert_eq!(next.number.0, generation.number.0 + 1);
            prop_assert_eq!(next.first_cycle, committed);
            prop_assert!(next.members.contains(&next.leader));
            prop_assert_eq!(generation.members.contains(&next.leader), {
                // Somebody who knows the state leads, unless none of them is left; then anybody.
                next.members.contains(&generation.leader)
                    || next.members.iter().min().is_some_and(|first| generation.members.contains(first))
            });
            (closed, ends_at, is_dead) = (committed, None, false);
            run = GenerationRun::new(next.members.clone(), next.first_cycle);
            generation = next;
        }
    }

    /// For all sets of replicas and all answers: the end covers every record that could have been acknowledged, and a quorum
    /// leaves the writer too few.
    #[test]
    fn a_seal_covers_what_may_be_acknowledged(
        ends in prop::collection::vec(0_u64..6, 1..6),
        durable in 1_usize..6,
        order in any::<u64>(),
    ) {
        let durable = durable.min(ends.len());
        let replicas: Vec<ReplicaId> = (0..ends.len() as u32).map(replica).collect();
        let log = LogRecord::new(durable, NodeId(0), replicas.iter().copied().collect()).unwrap();
        let mut sorted = ends.clone();
        sorted.sort_unstable_by(|a, b| b.cmp(a));
        let acknowledged = sorted[durable - 1];
        let mut left: Vec<usize> = (0..ends.len()).collect();
        let (mut seal, mut answered) = (Seal::new(&log), 0);
        while seal.tail().is_none() {
            let index = left.remove((order as usize >> answered) % left.len());
            seal.answered(replicas[index], SealAnswer { end: ends[index], confirmed: 0 });
            answered += 1;
        }
        prop_assert!(left.len() < durable, "{} replicas would still take records", left.len());
        prop_assert!(seal.tail().unwrap().positions.end >= acknowledged);
        // With copies to whoever is there, it can be closed.
        let others = (10..10 + durable as u32).map(replica).collect();
        for (target, positions) in seal.copies(&others) {
            seal.copied(target, positions.end);
        }
        let next = log.close(seal.complete().unwrap(), NodeId(1), replicas.into_iter().collect()).unwrap();
        prop_assert_eq!(next.open.start, next.closed[0].end);
        prop_assert_eq!(next.open.epoch, Epoch(2));
    }
}

fn replica(node: u32) -> ReplicaId {
    ReplicaId { node: NodeId(node), disk: 1 }
}

#[test]
fn without_members_there_is_no_placement_and_no_generation() {
    assert_eq!(Placement::default().next(5, &[]), Placement::default());
    assert_eq!(Generation::first(BTreeSet::new(), 5), None);
    assert_eq!(candidate([]), None);
    assert_eq!(candidate([NodeId(3), NodeId(2)]), Some(NodeId(2)));
}

#[test]
fn a_fence_refuses_all_but_the_newest() {
    let number = GenerationNumber;
    let mut fence = Fence::default();
    assert_eq!(
        fence.check(number(2)),
        Err(Fenced { acting: number(2), newest: number(0) }),
        "it must take over first"
    );
    fence.take_over(number(2)).unwrap();
    fence.take_over(number(2)).unwrap();
    fence.check(number(2)).unwrap();
    fence.take_over(number(4)).unwrap();
    let error = fence.take_over(number(3)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "generation 3 was replaced by generation 4: its work is refused, and it must stop"
    );
    assert_eq!(fence.newest(), number(4));
}

#[test]
fn a_log_needs_enough_replicas() {
    let two = BTreeSet::from([replica(1), replica(2)]);
    assert_eq!(LogRecord::new(3, NodeId(1), two.clone()), None);
    assert_eq!(LogRecord::new(0, NodeId(1), two.clone()), None);
    let log = LogRecord::new(2, NodeId(1), two.clone()).unwrap();
    let tail =
        |holders: &[u32]| Tail { positions: 3..5, holders: holders.iter().copied().map(replica).collect() };
    assert_eq!(log.close(tail(&[1]), NodeId(2), two.clone()), None, "the tail is on one disk only");
    assert_eq!(log.close(tail(&[1, 2]), NodeId(2), BTreeSet::from([replica(1)])), None);
    let next = log.close(tail(&[1, 7]), NodeId(2), two.clone()).unwrap();
    assert_eq!(next.holders(2), Some((Epoch(1), two)));
    assert_eq!(next.holders(3), Some((Epoch(1), BTreeSet::from([replica(1), replica(7)]))));
    assert_eq!(next.holders(5), None, "the open epoch has no end yet");
}

#[test]
fn a_replica_takes_what_follows_and_nothing_else() {
    let mut one = Replica::default();
    assert_eq!(one.append(Epoch(2), 10, 10..13, 10), AppendDecision::Write(10..13));
    // Again, and with more.
    assert_eq!(one.append(Epoch(2), 10, 10..13, 10), AppendDecision::Write(13..13));
    assert_eq!(one.append(Epoch(2), 10, 12..15, 12), AppendDecision::Write(13..15));
    assert_eq!(one.append(Epoch(2), 10, 16..17, 12), AppendDecision::Gap(15));
    assert_eq!(one.synced(Epoch(2)), Some(15));
    // A writer of epoch 2 exists, so epoch 1 is over.
    let refusal = Refusal { epoch: Epoch(1), sealed: Epoch(1) };
    assert_eq!(one.append(Epoch(1), 0, 0..1, 0), AppendDecision::Refuse(refusal));
    assert_eq!(one.seal(Epoch(2), 10), SealAnswer { end: 15, confirmed: 12 });
    assert!(matches!(one.append(Epoch(2), 10, 15..16, 12), AppendDecision::Refuse(_)));
    assert_eq!(one.copy(Epoch(2), 15..16), AppendDecision::Write(15..16), "it may still be completed");
    assert_eq!(one.closed(Epoch(2), 14), 14..16);
    assert_eq!(one.copy_of(Epoch(2)).unwrap().positions, 10..14);
    assert_eq!(one.closed(Epoch(2), 14), 14..14);
    assert_eq!(one.last_sealed(), Epoch(2));
}

#[test]
fn a_copy_for_two_seals_has_all_that_both_need() {
    let mut one = Replica::default();
    assert_eq!(one.copy(Epoch(1), 4..6), AppendDecision::Write(4..6));
    // Another node that seals knows less of what is acknowledged, so it sends more.
    assert_eq!(one.copy(Epoch(1), 3..6), AppendDecision::Write(3..6));
    assert_eq!(one.copy_of(Epoch(1)).unwrap().positions, 3..6);
    assert_eq!(one.copy(Epoch(1), 0..2), AppendDecision::Gap(3), "that would be a gap");
    assert_eq!(one.copy(Epoch(1), 4..7), AppendDecision::Write(6..7));
}

#[test]
fn a_late_replica_catches_up() {
    let log = LogRecord::new(1, NodeId(0), BTreeSet::from([replica(0), replica(1)])).unwrap();
    let mut writer = EpochWriter::new(&log.open, log.durable);
    assert_eq!(writer.append(10), 0..10);
    assert_eq!(writer.next_for(replica(1), 4), Some(0..4));
    assert_eq!(writer.next_for(replica(1), 4), Some(4..8));
    writer.synced(replica(1), 4);
    // What followed was lost.
    writer.resend(replica(1));
    assert_eq!(writer.next_for(replica(1), 100), Some(4..10));
    assert_eq!(writer.next_for(replica(1), 100), None);
    assert_eq!(writer.lag(), BTreeMap::from([(replica(0), 10), (replica(1), 6)]));
    // An answer that is older than another, or of a stranger, counts for nothing.
    writer.synced(replica(1), 10);
    writer.synced(replica(1), 2);
    writer.synced(replica(7), 10);
    assert_eq!((writer.confirmed(), writer.end()), (10, 10));
    writer.refused();
    assert!(writer.is_deposed());
    assert_eq!(writer.append(1), 10..10);
    assert_eq!(writer.next_for(replica(0), 100), None);
}
