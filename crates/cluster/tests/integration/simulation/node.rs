//! A node: carries out what the decisions say, with a disk that loses what was not synced and a clock of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tidemill_cluster::log::{
    AppendDecision, Epoch, EpochWriter, LogRecord, Position, Positions, Replica, ReplicaId, Seal,
};
use tidemill_cluster::members::{FailureDetector, Incarnation, NodeId, candidate};
use tidemill_testing::random::Random;

use super::ledger::Ledger;
use super::message::{Address, Message, Row, Stored};
use super::rules::Rule;

const SUSPECT_AFTER: Duration = Duration::from_millis(200);
/// A seal that takes longer is given up.
const SEAL_MS_MAX: u64 = 800;
/// A writer that could acknowledge nothing for longer looks for other replicas, in an epoch of its own.
const STALL_MS_MAX: u64 = 500;

/// What a replica has on its disk, or is about to have.
#[derive(Clone, Default)]
pub struct Content {
    replica: Replica,
    rows: BTreeMap<Epoch, BTreeMap<Position, Row>>,
}

impl Content {
    /// Returns whether it has a row at a position.
    pub fn has(&self, epoch: Epoch, position: Position, row: Row) -> bool {
        self.rows.get(&epoch).and_then(|rows| rows.get(&position)) == Some(&row)
    }
}

pub struct Disk {
    pub identity: u64,
    live: Content,
    pub synced: Content,
}

impl Disk {
    pub fn new(identity: u64) -> Disk {
        Disk { identity, live: Content::default(), synced: Content::default() }
    }
}

enum Role {
    Idle,
    Sealing(Box<Sealing>),
    Writing(Box<Writing>),
}

struct Sealing {
    seal: Seal,
    expected: u64,
    began_ms: u64,
    fetched: BTreeMap<Position, Row>,
    proposal: Option<(u64, Arc<LogRecord>)>,
}

struct Writing {
    writer: EpochWriter,
    rows: BTreeMap<Position, Row>,
    /// What of the log before this epoch is needed for the sink.
    earlier: BTreeMap<Position, Row>,
    told: Position,
    /// When all was acknowledged, or something was, for the last time.
    advanced_ms: u64,
    /// Staged and committed, once the sink has said so.
    sink: Option<(u64, u64)>,
}

/// What a node can do to the world.
pub struct Outside<'a> {
    pub random: &'a mut Random,
    pub ledger: &'a mut Ledger,
    pub broken: Option<Rule>,
    pub counts: &'a mut BTreeMap<&'static str, u64>,
    pub sent: Vec<(Address, Message)>,
    pub next_row: &'a mut Row,
    pub next_stamp: &'a mut u64,
    pub now_ms: u64,
    pub is_calm: bool,
}

impl Outside<'_> {
    fn keeps(&self, rule: Rule) -> bool {
        self.broken != Some(rule)
    }

    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    fn send(&mut self, to: Address, message: Message) {
        self.sent.push((to, message));
    }
}

pub struct Node {
    pub id: u32,
    pub incarnation: u64,
    pub disk: Disk,
    /// Answers that wait for a sync.
    waiting: Vec<(Address, Message)>,
    nodes: u32,
    /// How fast its clock runs, in percent.
    rate: u64,
    detector: FailureDetector,
    disks: BTreeMap<u32, u64>,
    known: Option<Stored>,
    role: Role,
}

impl Node {
    pub fn new(id: u32, nodes: u32, rate: u64) -> Node {
        let disks = (0..nodes).map(|node| (node, 1)).collect();
        let mut node = Node {
            id,
            incarnation: 0,
            disk: Disk::new(1),
            waiting: Vec::new(),
            nodes,
            rate,
            detector: FailureDetector::new(SUSPECT_AFTER),
            disks,
            known: None,
            role: Role::Idle,
        };
        node.start(0);
        node
    }

    /// Starts, with what its disk has.
    pub fn start(&mut self, now_ms: u64) {
        self.incarnation += 1;
        self.disk.live = self.disk.synced.clone();
        self.waiting.clear();
        self.known = None;
        self.role = Role::Idle;
        self.disks.insert(self.id, self.disk.identity);
        self.detector = FailureDetector::new(SUSPECT_AFTER);
        let now = self.clock(now_ms);
        let others = (0..self.nodes).filter(|node| *node != self.id);
        others.for_each(|node| self.detector.watch(NodeId(node), now));
    }

    fn clock(&self, now_ms: u64) -> Duration {
        Duration::from_micros(now_ms * self.rate * 10 + 7 * u64::from(self.id))
    }

    fn life(&self) -> (u32, u64) {
        (self.id, self.incarnation)
    }

    fn own(&self) -> ReplicaId {
        self.replica(self.id)
    }

    fn replica(&self, node: u32) -> ReplicaId {
        ReplicaId { node: NodeId(node), disk: self.disks[&node] }
    }

    pub fn is_writing(&self) -> bool {
        matches!(self.role, Role::Writing(_))
    }

    /// Nothing waits for this disk any more.
    pub fn has_to_sync(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// A sync has ended.
    pub fn synced(&mut self, out: &mut Outside) {
        self.disk.synced = self.disk.live.clone();
        out.sent.append(&mut self.waiting);
    }

    /// Answers once what was written is synced; at once if a rule is broken.
    fn answer(&mut self, to: Address, message: Message, rule: Rule, out: &mut Outside) {
        if out.keeps(rule) {
            self.waiting.push((to, message));
        } else {
            out.send(to, message);
        }
    }

    pub fn tick(&mut self, out: &mut Outside) {
        let revision = self.known.as_ref().map_or(0, |known| known.revision);
        for node in (0..self.nodes).filter(|node| *node != self.id) {
            let (incarnation, disk) = (self.incarnation, self.disk.identity);
            out.send(Address::Node(node), Message::Heartbeat { incarnation, disk, revision });
        }
        if self.known.is_none() || out.random.is_once_in(20) {
            out.send(Address::Coordinator, Message::Read);
        }
        match &mut self.role {
            Role::Idle => self.consider(out),
            Role::Sealing(sealing) if out.now_ms - sealing.began_ms > SEAL_MS_MAX => {
                out.count("seals given up");
                self.role = Role::Idle;
                out.send(Address::Coordinator, Message::Read);
            }
            Role::Sealing(_) => self.seal(out),
            Role::Writing(_) => self.write(out),
        }
    }

    /// Seals the open epoch if its writer seems to be gone.
    fn consider(&mut self, out: &mut Outside) {
        let Some(known) = &self.known else { return };
        let writer = known.log.open.writer;
        let now = self.clock(out.now_ms);
        let is_own = writer == NodeId(self.id);
        if is_own && !out.keeps(Rule::SealOwn) {
            let writer = EpochWriter::new(&known.log.open, known.log.durable);
            self.begin(writer, out.now_ms);
            return;
        }
        let is_suspected = !is_own && self.detector.is_suspected(writer, now);
        let alive = self.detector.alive(now).into_iter().chain([NodeId(self.id)]);
        let is_first = candidate(alive) == Some(NodeId(self.id));
        let is_eager = !out.is_calm && out.random.is_once_in(80);
        if is_eager || is_own || (is_suspected && (is_first || out.random.is_once_in(8))) {
            out.count(if is_eager { "seals without a reason" } else { "seals" });
            let mut log = LogRecord::clone(&known.log);
            if !out.keeps(Rule::SealQuorum) {
                log.durable += 1;
            }
            let sealing = Sealing {
                seal: Seal::new(&log),
                expected: known.revision,
                began_ms: out.now_ms,
                fetched: BTreeMap::new(),
                proposal: None,
            };
            self.role = Role::Sealing(Box::new(sealing));
            self.seal(out);
        }
    }

    /// Sends what is due while an epoch is being sealed. Everything may be sent again.
    fn seal(&mut self, out: &mut Outside) {
        let now = self.clock(out.now_ms);
        let mut alive: BTreeSet<u32> = self.detector.alive(now).into_iter().map(|node| node.0).collect();
        alive.insert(self.id);
        let others: BTreeSet<ReplicaId> = alive.iter().map(|node| self.replica(*node)).collect();
        let known = self.known.clone();
        let (own, id) = (self.own(), self.id);
        let Role::Sealing(sealing) = &mut self.role else { return };
        if let Some((stamp, log)) = &sealing.proposal {
            let change = Message::Change { expected: sealing.expected, stamp: *stamp, log: log.clone() };
            out.send(Address::Coordinator, change);
            if !out.keeps(Rule::Unknown) {
                let writer = EpochWriter::new(&log.open, log.durable);
                self.begin(writer, out.now_ms);
            }
            return;
        }
        let (epoch, start) = sealing.seal.epoch();
        let complete = sealing.seal.complete();
        if complete.is_none() {
            for replica in sealing.seal.unanswered() {
                let seal = Message::Seal { epoch, start, disk: replica.disk };
                out.send(Address::Node(replica.node.0), seal);
            }
        }
        let Some(tail) = sealing.seal.tail().cloned() else { return };
        let ready = if out.keeps(Rule::CopyTail) {
            complete
        } else {
            let mut holders = tail.holders.clone();
            holders.extend(others.iter().copied());
            Some(tidemill_cluster::log::Tail { holders, ..tail.clone() })
        };
        if let Some(tail) = ready {
            let Some(known) = known.filter(|known| known.revision == sealing.expected) else { return };
            let durable = known.log.durable;
            if others.len() < durable {
                out.count("waits for enough nodes");
                return;
            }
            let mut replicas: Vec<ReplicaId> = others.iter().copied().filter(|one| *one != own).collect();
            let spare = out.random.below((others.len() - durable + 1) as u64) as usize;
            while replicas.len() > durable + spare - 1 {
                replicas.remove(out.random.index(replicas.len()));
            }
            replicas.push(own);
            let Some(log) = known.log.close(tail, NodeId(id), replicas.into_iter().collect()) else { return };
            *out.next_stamp += 1;
            sealing.proposal = Some((*out.next_stamp, Arc::new(log)));
            self.seal(out);
            return;
        }
        let copies = sealing.seal.copies(&others);
        if copies.is_empty() {
            out.count("waits for a disk for the tail");
        }
        for (replica, positions) in copies {
            let rows: Option<Vec<Row>> =
                positions.clone().map(|position| sealing.fetched.get(&position).copied()).collect();
            match rows {
                Some(rows) => {
                    out.count("tails copied");
                    let copy = Message::Copy { epoch, from: positions.start, rows, disk: replica.disk };
                    out.send(Address::Node(replica.node.0), copy);
                }
                None => {
                    for holder in &tail.holders {
                        let positions = positions.clone();
                        let fetch = Message::Fetch { epoch, positions, disk: holder.disk };
                        out.send(Address::Node(holder.node.0), fetch);
                    }
                }
            }
        }
    }

    fn begin(&mut self, writer: EpochWriter, advanced_ms: u64) {
        let (told, empty) = (writer.start(), BTreeMap::new());
        let writing = Writing { writer, rows: empty.clone(), earlier: empty, told, advanced_ms, sink: None };
        self.role = Role::Writing(Box::new(writing));
    }

    fn write(&mut self, out: &mut Outside) {
        let life = self.life();
        let Role::Writing(writing) = &mut self.role else { return };
        if writing.writer.is_deposed() {
            out.count("writers deposed");
            self.role = Role::Idle;
            out.send(Address::Coordinator, Message::Read);
            return;
        }
        if writing.writer.lag().is_empty() {
            writing.advanced_ms = out.now_ms;
        }
        if out.now_ms - writing.advanced_ms > STALL_MS_MAX {
            out.count("writers that stall");
            self.role = Role::Idle;
            return;
        }
        let epoch = writing.writer.epoch();
        for position in writing.writer.append(out.random.below(3)) {
            *out.next_row += 1;
            out.ledger.wrote(life, epoch, position, *out.next_row);
            writing.rows.insert(position, *out.next_row);
        }
        for replica in writing.writer.replicas() {
            if out.random.is_once_in(3) {
                writing.writer.resend(replica);
            }
        }
        self.spread(out);
        self.commit(out);
    }

    /// Sends replicas what they lack.
    fn spread(&mut self, out: &mut Outside) {
        let Role::Writing(writing) = &mut self.role else { return };
        let writer = &mut writing.writer;
        let (epoch, start, confirmed) = (writer.epoch(), writer.start(), writer.confirmed());
        for replica in writer.replicas() {
            let Some(positions) = writer.next_for(replica, 4) else { continue };
            let (from, disk) = (positions.start, replica.disk);
            let rows = positions.map(|position| writing.rows[&position]).collect();
            let append = Message::Append { epoch, start, from, rows, confirmed, disk };
            out.send(Address::Node(replica.node.0), append);
        }
    }

    /// Gives the sink what is acknowledged, in pieces.
    fn commit(&mut self, out: &mut Outside) {
        let life = self.life();
        let Some(known) = &self.known else { return };
        let Role::Writing(writing) = &mut self.role else { return };
        let generation = writing.writer.epoch().0;
        let Some((staged, committed)) = writing.sink else {
            out.send(Address::Sink, Message::TakeOver { generation });
            return;
        };
        if committed < staged && out.random.is_once_in(2) {
            out.send(Address::Sink, Message::Commit { generation, life, end: staged });
            return;
        }
        let end = writing.writer.confirmed().min(staged + 1 + out.random.below(6));
        let row_at = |position: &Position| {
            writing.rows.get(position).or_else(|| writing.earlier.get(position)).copied()
        };
        match (staged..end).map(|position| row_at(&position).ok_or(position)).collect::<Result<Vec<_>, _>>() {
            Ok(rows) if rows.is_empty() => {}
            Ok(rows) => out.send(Address::Sink, Message::Stage { generation, from: staged, rows }),
            Err(position) => {
                let Some((epoch, holders)) = known.log.holders(position) else { return };
                for holder in holders {
                    let fetch =
                        Message::Fetch { epoch, positions: position..position + 6, disk: holder.disk };
                    out.send(Address::Node(holder.node.0), fetch);
                }
            }
        }
    }

    /// Takes what the coordinator says.
    fn learn(&mut self, current: Stored, out: &mut Outside) {
        if self.known.as_ref().is_some_and(|known| known.revision >= current.revision) {
            return;
        }
        for closed in &current.log.closed {
            let behind = self.disk.live.replica.closed(closed.epoch, closed.end);
            if !behind.is_empty() {
                out.count("records behind an end removed");
                let rows = self.disk.live.rows.entry(closed.epoch).or_default();
                rows.retain(|position, _| !behind.contains(position));
            }
        }
        let open = current.log.open.clone();
        let durable = current.log.durable - usize::from(!out.keeps(Rule::Quorum));
        let is_over = match &self.role {
            Role::Idle => false,
            Role::Writing(writing) => writing.writer.epoch() < open.epoch,
            Role::Sealing(sealing) => sealing.expected < current.revision,
        };
        let own = match &self.role {
            Role::Sealing(sealing) => sealing.proposal.as_ref().map(|(stamp, _)| *stamp),
            _ => None,
        };
        if is_over {
            self.role = Role::Idle;
        }
        if own == Some(current.stamp) {
            out.count("epochs opened");
            self.begin(EpochWriter::new(&open, durable), out.now_ms);
        } else if own.is_some() {
            out.count("proposals that came too late");
        }
        self.known = Some(current);
    }

    pub fn handle(&mut self, from: Address, message: Message, out: &mut Outside) {
        match message {
            Message::Heartbeat { incarnation, disk, revision } => {
                let Address::Node(node) = from else { return };
                let now = self.clock(out.now_ms);
                if self.detector.heard(NodeId(node), Incarnation(incarnation), now) {
                    self.disks.insert(node, disk);
                }
                if self.known.as_ref().is_none_or(|known| known.revision < revision) {
                    out.send(Address::Coordinator, Message::Read);
                }
            }
            Message::Current(current) => self.learn(current, out),
            Message::Append { disk, .. }
            | Message::Seal { disk, .. }
            | Message::Fetch { disk, .. }
            | Message::Copy { disk, .. }
                if disk != self.disk.identity && out.keeps(Rule::DiskIdentity) => {}
            Message::Append { epoch, start, from: first, rows, confirmed, disk } => {
                let sent = first..first + rows.len() as u64;
                let replica = ReplicaId { node: NodeId(self.id), disk };
                let mut decision = self.disk.live.replica.append(epoch, start, sent.clone(), confirmed);
                if let (AppendDecision::Gap(_), false) = (&decision, out.keeps(Rule::NoGap)) {
                    self.disk.live.replica.append(epoch, start, start..sent.end, confirmed);
                    decision = AppendDecision::Write(sent.clone());
                }
                match decision {
                    AppendDecision::Write(positions) => {
                        self.store(epoch, &positions, first, &rows);
                        let end = self.disk.live.replica.synced(epoch).expect("a copy");
                        self.answer(from, Message::Appended { epoch, replica, end }, Rule::SyncRecords, out);
                    }
                    AppendDecision::Gap(_) => {
                        out.count("gaps refused");
                        out.send(from, Message::Gap { epoch, replica });
                    }
                    AppendDecision::Refuse(_) => {
                        out.count("appends refused");
                        out.send(from, Message::Refused { epoch });
                    }
                }
            }
            Message::Seal { epoch, start, disk } => {
                let replica = ReplicaId { node: NodeId(self.id), disk };
                let mut unsealed = self.disk.live.replica.clone();
                let answer = if out.keeps(Rule::Seal) {
                    self.disk.live.replica.seal(epoch, start)
                } else {
                    unsealed.seal(epoch, start)
                };
                self.answer(from, Message::Sealed { epoch, replica, answer }, Rule::SyncSeal, out);
            }
            Message::Fetch { epoch, positions, .. } => {
                let rows = self.disk.live.rows.get(&epoch);
                let rows = rows.map(|rows| rows.range(positions).map(|(at, row)| (*at, *row)).collect());
                out.send(from, Message::Fetched { epoch, rows: rows.unwrap_or_default() });
            }
            Message::Copy { epoch, from: first, rows, disk } => {
                let replica = ReplicaId { node: NodeId(self.id), disk };
                let sent = first..first + rows.len() as u64;
                if let AppendDecision::Write(positions) = self.disk.live.replica.copy(epoch, sent) {
                    self.store(epoch, &positions, first, &rows);
                    let end = self.disk.live.replica.synced(epoch).expect("a copy");
                    self.waiting.push((from, Message::Copied { epoch, replica, end }));
                }
            }
            message => self.answered(message, out),
        }
    }

    fn store(&mut self, epoch: Epoch, positions: &Positions, first: Position, rows: &[Row]) {
        let stored = self.disk.live.rows.entry(epoch).or_default();
        for position in positions.clone() {
            stored.insert(position, rows[(position - first) as usize]);
        }
    }

    /// Takes an answer to what this node has asked.
    fn answered(&mut self, message: Message, out: &mut Outside) {
        match (&mut self.role, message) {
            (Role::Writing(writing), Message::Appended { epoch, replica, end })
                if epoch == writing.writer.epoch() =>
            {
                writing.writer.synced(replica, end);
                if writing.writer.confirmed() > writing.told {
                    writing.advanced_ms = out.now_ms;
                }
                for position in writing.told..writing.writer.confirmed() {
                    out.ledger.acknowledged(epoch, position);
                    out.count("rows acknowledged");
                }
                writing.told = writing.told.max(writing.writer.confirmed());
                self.spread(out);
            }
            (Role::Writing(writing), Message::Gap { epoch, replica }) if epoch == writing.writer.epoch() => {
                writing.writer.resend(replica);
            }
            (Role::Writing(writing), Message::Refused { epoch }) if epoch == writing.writer.epoch() => {
                writing.writer.refused();
            }
            (Role::Writing(writing), Message::Fetched { epoch, rows }) => {
                // A replica that has not heard of the end may have more.
                let closed = self.known.iter().flat_map(|known| &known.log.closed);
                let Some(closed) = closed.into_iter().find(|closed| closed.epoch == epoch) else { return };
                let is_final = |position: &Position| (closed.start..closed.end).contains(position);
                writing.earlier.extend(rows.into_iter().filter(|(position, _)| is_final(position)));
            }
            (Role::Writing(writing), Message::SinkState { generation, staged, committed })
                if generation == writing.writer.epoch().0 =>
            {
                let (before, after) = (writing.sink.unwrap_or((0, 0)), (staged, committed));
                writing.sink = Some((before.0.max(after.0), before.1.max(after.1)));
            }
            (Role::Sealing(sealing), Message::Sealed { epoch, replica, answer })
                if epoch == sealing.seal.epoch().0 =>
            {
                let is_new = sealing.seal.unanswered().contains(&replica);
                sealing.seal.answered(replica, answer);
                if is_new && sealing.seal.tail().is_some() {
                    self.seal(out);
                }
            }
            (Role::Sealing(sealing), Message::Fetched { epoch, rows }) if epoch == sealing.seal.epoch().0 => {
                let before = sealing.fetched.len();
                sealing.fetched.extend(rows);
                if sealing.fetched.len() > before {
                    self.seal(out);
                }
            }
            (Role::Sealing(sealing), Message::Copied { epoch, replica, end })
                if epoch == sealing.seal.epoch().0 =>
            {
                sealing.seal.copied(replica, end);
                if sealing.proposal.is_none() && sealing.seal.complete().is_some() {
                    self.seal(out);
                }
            }
            _ => {}
        }
    }
}
