//! The placement of logical partitions on workers.

/// The partition table: which worker holds which logical partition of an operator.
///
/// ```
/// let placement = tidemill_split::Placement::spread(5, 2);
/// assert_eq!(placement.partitions_of(0), &[0, 2, 4]);
/// assert_eq!(placement.worker_of(3), 1);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    workers: u32,
    worker_of: Vec<u32>,
    partitions_of: Vec<Vec<u32>>,
    /// The partitions in the order of (worker, partition).
    in_order: Vec<u32>,
    /// The rank of each partition in that order.
    rank_of: Vec<u32>,
}

impl Placement {
    /// Partition `p` on worker `p % workers`.
    pub fn spread(partitions: u32, workers: u32) -> Self {
        Placement::new(workers, (0..partitions).map(|partition| partition % workers).collect())
    }

    /// An arbitrary placement: `worker_of[p]` holds partition `p`.
    ///
    /// # Panics
    /// If a worker does not exist.
    pub fn new(workers: u32, worker_of: Vec<u32>) -> Self {
        let mut partitions_of = vec![Vec::new(); workers as usize];
        for (partition, worker) in worker_of.iter().enumerate() {
            partitions_of[*worker as usize].push(partition as u32);
        }
        let in_order: Vec<u32> = partitions_of.iter().flatten().copied().collect();
        let mut rank_of = vec![0; worker_of.len()];
        for (rank, partition) in in_order.iter().enumerate() {
            rank_of[*partition as usize] = rank as u32;
        }
        Placement { workers, worker_of, partitions_of, in_order, rank_of }
    }

    /// The number of workers.
    pub fn workers(&self) -> u32 {
        self.workers
    }

    /// The number of partitions.
    pub fn partitions(&self) -> u32 {
        self.worker_of.len() as u32
    }

    /// The worker that holds a partition.
    pub fn worker_of(&self, partition: u32) -> u32 {
        self.worker_of[partition as usize]
    }

    /// The same, with these partitions on these workers: (partition, worker).
    ///
    /// ```
    /// use tidemill_split::Placement;
    /// let placement = Placement::spread(5, 2).moved([(2, 1)]);
    /// assert_eq!([0, 1].map(|worker| placement.partitions_of(worker)), [&[0, 4][..], &[1, 2, 3]]);
    /// ```
    ///
    /// # Panics
    /// If a partition or a worker does not exist.
    #[must_use]
    pub fn moved(&self, moves: impl IntoIterator<Item = (u32, u32)>) -> Placement {
        let mut worker_of = self.worker_of.clone();
        moves.into_iter().for_each(|(partition, worker)| worker_of[partition as usize] = worker);
        Placement::new(self.workers, worker_of)
    }

    /// A worker's partitions, ascending.
    pub fn partitions_of(&self, worker: u32) -> &[u32] {
        &self.partitions_of[worker as usize]
    }

    /// All partitions in the order of (worker, partition).
    pub(crate) fn in_order(&self) -> &[u32] {
        &self.in_order
    }

    /// The rank of each partition in that order.
    pub(crate) fn ranks(&self) -> &[u32] {
        &self.rank_of
    }
}
