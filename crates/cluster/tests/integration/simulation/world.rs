//! Time, network, faults and the coordinator's record: one schedule, all of it derived from one number.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tidemill_cluster::log::{LogRecord, ReplicaId};
use tidemill_cluster::members::NodeId;
use tidemill_testing::random::Random;

use super::ledger::Ledger;
use super::message::{Address, Message, Row, Stored};
use super::node::{Disk, Node, Outside};
use super::rules::Rule;
use super::sink::Sink;

/// How often something has happened, so that it is seen that the schedules come by.
pub type Counts = BTreeMap<&'static str, u64>;

const TICK_MS: u64 = 40;
/// How long everything works in the end, within which the log must advance and the sink must have all of it.
const CALM_MS: u64 = 3000;

/// No schedule has that many events.
const EVENTS_MAX: u64 = 200_000;

enum Event {
    Deliver { from: Address, to: Address, message: Message },
    Tick { node: usize },
    Synced { node: usize, incarnation: u64 },
    Start { node: usize },
    Heal { cut: (Address, Address) },
    Fault,
}

pub struct World {
    random: Random,
    broken: Option<Rule>,
    now_ms: u64,
    end_ms: u64,
    number: u64,
    events: BTreeMap<(u64, u64), Event>,
    nodes: Vec<Node>,
    is_up: Vec<bool>,
    is_syncing: Vec<bool>,
    paused_until: Vec<u64>,
    /// Directions in which nothing arrives.
    cuts: BTreeSet<(Address, Address)>,
    delay_ms: u64,
    loss: u64,
    durable: usize,
    disks_lost: usize,
    stored: Stored,
    sink: Sink,
    ledger: Ledger,
    next_row: Row,
    next_stamp: u64,
    is_calm: bool,
    pub counts: Counts,
    pub trace: Option<Vec<String>>,
}

impl World {
    pub fn new(seed: u64, broken: Option<Rule>, is_traced: bool) -> World {
        let mut random = Random::new(seed);
        let count = 3 + random.below(3) as u32;
        let durable = 1 + random.below(u64::from(count.min(3))) as usize;
        let nodes: Vec<Node> = (0..count).map(|id| Node::new(id, count, 60 + random.below(80))).collect();
        let width = durable + random.index(count as usize - durable + 1);
        let replicas = (0..width as u32).map(|node| ReplicaId { node: NodeId(node), disk: 1 });
        let log = LogRecord::new(durable, NodeId(0), replicas.collect()).expect("enough replicas");
        let mut ledger = Ledger::default();
        ledger.recorded(log.clone());
        let mut world = World {
            broken,
            now_ms: 0,
            end_ms: 1500 + random.below(3000),
            number: 0,
            events: BTreeMap::new(),
            is_up: vec![true; nodes.len()],
            is_syncing: vec![false; nodes.len()],
            paused_until: vec![0; nodes.len()],
            nodes,
            cuts: BTreeSet::new(),
            delay_ms: 1 + random.below(30),
            loss: 1 + random.below(60),
            durable,
            disks_lost: 0,
            stored: Stored { revision: 1, stamp: 0, log: Arc::new(log) },
            sink: Sink::default(),
            ledger,
            next_row: 0,
            next_stamp: 0,
            is_calm: false,
            counts: Counts::new(),
            trace: is_traced.then(Vec::new),
            random,
        };
        for node in 0..world.nodes.len() {
            let at = world.random.below(TICK_MS);
            world.at(at, Event::Tick { node });
        }
        world.at(0, Event::Fault);
        world.note(|| format!("{count} nodes, durable = {durable}, {width} replicas at first"));
        world
    }

    fn note(&mut self, text: impl FnOnce() -> String) {
        let now = self.now_ms;
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{now:>5} {}", text()));
        }
    }

    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    fn at(&mut self, ms: u64, event: Event) {
        self.number += 1;
        self.events.insert((ms, self.number), event);
    }

    /// The whole schedule: first with faults, then without.
    pub fn run(&mut self) {
        self.run_until(self.end_ms);
        self.calm();
        let before = self.ledger.acknowledged.len();
        self.run_until(self.end_ms + CALM_MS);
        self.check_end(before);
    }

    fn run_until(&mut self, end_ms: u64) {
        while let Some(entry) = self.events.first_entry().filter(|entry| entry.key().0 < end_ms) {
            self.now_ms = entry.key().0;
            let event = entry.remove();
            assert!(self.number < EVENTS_MAX, "messages cause each other without an end");
            self.happen(event);
        }
        self.now_ms = end_ms;
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Deliver { from, to, message } => self.deliver(from, to, message),
            Event::Tick { node } => {
                if self.is_up[node] && self.paused_until[node] <= self.now_ms {
                    self.with_node(node, Node::tick);
                }
                self.at(self.now_ms + TICK_MS, Event::Tick { node });
            }
            Event::Synced { node, incarnation } => {
                let is_same = self.nodes[node].incarnation == incarnation && self.is_up[node];
                if is_same {
                    self.is_syncing[node] = false;
                    self.with_node(node, Node::synced);
                }
            }
            Event::Start { node } => {
                self.is_up[node] = true;
                self.is_syncing[node] = false;
                let now_ms = self.now_ms;
                self.nodes[node].start(now_ms);
                self.note(|| format!("* node {node} starts"));
            }
            Event::Heal { cut } => {
                self.cuts.remove(&cut);
            }
            Event::Fault => {
                if !self.is_calm {
                    self.fault();
                    let pause = 20 + self.random.below(400);
                    self.at(self.now_ms + pause, Event::Fault);
                }
            }
        }
    }

    fn with_node(&mut self, node: usize, act: impl FnOnce(&mut Node, &mut Outside)) {
        let mut out = Outside {
            random: &mut self.random,
            ledger: &mut self.ledger,
            broken: self.broken,
            counts: &mut self.counts,
            sent: Vec::new(),
            next_row: &mut self.next_row,
            next_stamp: &mut self.next_stamp,
            now_ms: self.now_ms,
            is_calm: self.is_calm,
        };
        act(&mut self.nodes[node], &mut out);
        let sent = out.sent;
        if self.nodes[node].has_to_sync() && !self.is_syncing[node] {
            self.is_syncing[node] = true;
            let slowest = if self.random.is_once_in(6) { 300 } else { 12 };
            let at = self.now_ms + self.random.below(slowest);
            let incarnation = self.nodes[node].incarnation;
            self.at(at, Event::Synced { node, incarnation });
        }
        let from = Address::Node(node as u32);
        for (to, message) in sent {
            self.send(from, to, message);
        }
    }

    /// Messages are lost, come twice and overtake each other.
    fn send(&mut self, from: Address, to: Address, message: Message) {
        if !matches!(message, Message::Heartbeat { .. }) {
            self.note(|| format!("{from:?} -> {to:?}: {message:?}"));
        }
        let is_remote = from != to && !self.is_calm;
        if is_remote && self.random.is_once_in(self.loss) {
            self.count("messages lost");
            return;
        }
        if is_remote && self.random.is_once_in(30) {
            self.count("messages that come twice");
            self.post(from, to, message.clone());
        }
        self.post(from, to, message);
    }

    fn post(&mut self, from: Address, to: Address, message: Message) {
        let slow = if !self.is_calm && self.random.is_once_in(50) { 20 } else { 1 };
        let delay = if from == to { 1 } else { self.random.below(self.delay_ms * slow) };
        self.at(self.now_ms + delay, Event::Deliver { from, to, message });
    }

    fn deliver(&mut self, from: Address, to: Address, message: Message) {
        if self.cuts.contains(&(from, to)) {
            self.count("messages into a cut");
            return;
        }
        match to {
            Address::Node(node) => {
                let node = node as usize;
                if !self.is_up[node] {
                    return;
                }
                if self.paused_until[node] > self.now_ms {
                    let at = self.paused_until[node] + self.random.below(5);
                    self.at(at, Event::Deliver { from, to, message });
                    return;
                }
                self.with_node(node, |node, out| node.handle(from, message, out));
            }
            Address::Coordinator => {
                if let Message::Change { expected, stamp, log } = message {
                    if self.stored.revision == expected || self.broken == Some(Rule::Compare) {
                        self.note(|| format!("* recorded: {log:?}"));
                        self.ledger.recorded(LogRecord::clone(&log));
                        self.stored = Stored { revision: self.stored.revision + 1, stamp, log };
                    } else {
                        self.count("changes refused");
                    }
                }
                self.send(to, from, Message::Current(self.stored.clone()));
            }
            Address::Sink => {
                let answer = self.sink.handle(message, self.broken, &mut self.ledger);
                match answer {
                    Some(answer) => self.send(to, from, answer),
                    None => self.count("refused by the sink"),
                }
            }
        }
    }

    fn fault(&mut self) {
        let node = self.random.index(self.nodes.len());
        match self.random.below(12) {
            0..=2 if self.is_up[node] => {
                self.count("crashes");
                self.crash(node);
                let other = self.random.index(self.nodes.len());
                if self.is_up[other] && self.random.is_once_in(2) {
                    self.count("two crashes at once");
                    self.crash(other);
                }
            }
            3 if self.is_up[node] && self.disks_lost + 1 < self.durable => {
                self.count("disks lost");
                self.disks_lost += 1;
                self.crash(node);
                let identity = self.nodes[node].disk.identity + 1;
                self.nodes[node].disk = Disk::new(identity);
                self.note(|| format!("* node {node} loses its disk"));
            }
            4..=5 => {
                self.count("pauses");
                self.paused_until[node] = self.now_ms + 50 + self.random.below(900);
                self.note(|| format!("* node {node} pauses"));
            }
            6..=7 => {
                self.count("one-way cuts");
                let others = [Address::Coordinator, Address::Sink, self.any_node(), self.any_node()];
                let (one, other) = (Address::Node(node as u32), self.random.one_of(&others));
                let cut = if self.random.is_once_in(2) { (one, other) } else { (other, one) };
                self.cut(cut);
            }
            8..=9 => {
                self.count("partitions");
                let sides: Vec<bool> = self.nodes.iter().map(|_| self.random.is_once_in(2)).collect();
                let duration = self.duration();
                let outside = [Address::Coordinator, Address::Sink];
                let with = outside.map(|_| self.random.is_once_in(2));
                let nodes = (0..).zip(sides).map(|(node, side)| (Address::Node(node), side));
                let all: Vec<_> = nodes.chain(outside.into_iter().zip(with)).collect();
                for (one, side) in &all {
                    for (other, _) in all.iter().filter(|(_, other)| other != side) {
                        self.cut_for((*one, *other), duration);
                    }
                }
            }
            10 => {
                self.count("outages of the coordinator");
                let duration = self.duration();
                // For all, or for the writer, who then does not learn that it was replaced.
                let is_for_all = self.random.is_once_in(2);
                for node in 0..self.nodes.len() {
                    if is_for_all || self.nodes[node].is_writing() {
                        self.cut_for((Address::Coordinator, Address::Node(node as u32)), duration);
                    }
                }
            }
            _ => {
                self.delay_ms = 1 + self.random.below(60);
                self.loss = 1 + self.random.below(60);
            }
        }
    }

    fn crash(&mut self, node: usize) {
        self.is_up[node] = false;
        let longest = if self.random.is_once_in(2) { 60 } else { 800 };
        let at = self.now_ms + 5 + self.random.below(longest);
        self.at(at, Event::Start { node });
        self.note(|| format!("* node {node} crashes"));
    }

    fn any_node(&mut self) -> Address {
        Address::Node(self.random.below(self.nodes.len() as u64) as u32)
    }

    fn duration(&mut self) -> u64 {
        50 + self.random.below(900)
    }

    fn cut(&mut self, cut: (Address, Address)) {
        let duration = self.duration();
        self.cut_for(cut, duration);
    }

    fn cut_for(&mut self, cut: (Address, Address), duration: u64) {
        if cut.0 != cut.1 {
            self.note(|| format!("* {cut:?} is cut"));
            self.cuts.insert(cut);
            self.at(self.now_ms + duration, Event::Heal { cut });
        }
    }

    /// From now on everything works.
    fn calm(&mut self) {
        self.note(|| "* calm".into());
        self.is_calm = true;
        self.cuts.clear();
        self.paused_until.iter_mut().for_each(|until| *until = 0);
        self.delay_ms = 5;
        for node in 0..self.nodes.len() {
            if !self.is_up[node] {
                self.at(self.now_ms, Event::Start { node });
            }
        }
    }

    fn check_progress(&self, before: usize) {
        let writers = self.nodes.iter().filter(|node| node.is_writing()).count();
        assert_eq!(writers, 1, "nodes that write in the end");
        assert!(self.ledger.acknowledged.len() > before + 20, "the log does not advance, though all works");
        let behind = self.ledger.acknowledged.len().saturating_sub(self.ledger.committed.len());
        assert!(behind < 200, "the sink lacks {behind} rows");
    }

    /// Each acknowledged row is on a disk where it is looked for.
    fn check_end(&mut self, before: usize) {
        if self.broken.is_none() {
            self.check_progress(before);
        }
        for position in self.ledger.acknowledged.keys() {
            let (epoch, holders) = self.ledger.log().holders(*position).unwrap_or_else(|| {
                let open = &self.ledger.log().open;
                (open.epoch, open.replicas.clone())
            });
            let row = self.ledger.row(*position).expect("an acknowledged row");
            let has = |replica: &ReplicaId| {
                let disk = &self.nodes[replica.node.0 as usize].disk;
                disk.identity == replica.disk && disk.synced.has(epoch, *position, row)
            };
            assert!(holders.iter().any(has), "row {row} at {position} of {epoch:?} is lost: {holders:?}");
        }
        self.count("schedules that came to their end");
    }
}
