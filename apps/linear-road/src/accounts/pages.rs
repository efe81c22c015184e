//! Account balances by vehicle id, in pages: dense where ids are dense, sparse where they are not.
//!
//! Vehicle ids are handed out in sequence, so a page of consecutive ids is usually full: 8 bytes per account
//! and one cache miss per charge. Ids that are far apart cost a short sorted list instead of a page.

/// Consecutive vehicle ids per page.
pub const PAGE: u32 = 1 << PAGE_BITS;
const PAGE_BITS: u32 = 12;
/// A page with more accounts than this is dense.
const SPARSE_MAX: usize = 256;

#[derive(Debug)]
enum Page {
    /// Sorted by the id's place in the page.
    Sparse(Vec<(u16, u64)>),
    Dense(Box<[u64; PAGE as usize]>),
}

/// The page number of a vehicle id.
pub fn page_of(vid: u32) -> u32 {
    vid >> PAGE_BITS
}

/// Accounts of those vehicles whose page number leaves one remainder.
#[derive(Debug)]
pub struct Pages {
    partitions: u32,
    pages: Vec<Option<Page>>,
}

impl Pages {
    /// No accounts yet.
    pub fn new(partitions: u32) -> Self {
        Pages { partitions, pages: Vec::new() }
    }

    fn locate(&self, vid: u32) -> (usize, u16) {
        ((page_of(vid) / self.partitions) as usize, (vid & (PAGE - 1)) as u16)
    }

    /// Adds to an account, which is opened if it is not there.
    pub fn add(&mut self, vid: u32, toll: u64) {
        let (index, offset) = self.locate(vid);
        if self.pages.len() <= index {
            self.pages.resize_with(index + 1, || None);
        }
        match self.pages[index].get_or_insert(Page::Sparse(Vec::new())) {
            Page::Dense(balances) => balances[offset as usize] += toll,
            Page::Sparse(accounts) => match accounts.binary_search_by_key(&offset, |account| account.0) {
                Ok(found) => accounts[found].1 += toll,
                Err(place) => {
                    accounts.insert(place, (offset, toll));
                    if accounts.len() > SPARSE_MAX {
                        self.pages[index] = Some(dense(self.pages[index].take()));
                    }
                }
            },
        }
    }

    /// A car's balance; 0 if it has no account.
    pub fn balance(&self, vid: u32) -> u64 {
        let (index, offset) = self.locate(vid);
        match self.pages.get(index) {
            Some(Some(Page::Dense(balances))) => balances[offset as usize],
            Some(Some(Page::Sparse(accounts))) => accounts
                .binary_search_by_key(&offset, |account| account.0)
                .map_or(0, |found| accounts[found].1),
            _ => 0,
        }
    }

    /// Asks for the memory of an account.
    #[inline]
    pub fn prefetch(&self, vid: u32) {
        let (index, offset) = self.locate(vid);
        if let Some(Some(Page::Dense(balances))) = self.pages.get(index) {
            tidemill_engine::prefetch::read(&balances[offset as usize]);
        }
    }

    /// All accounts that are not 0, as (index of the page, place in the page, balance).
    pub fn accounts(&self) -> impl Iterator<Item = (u32, u16, u64)> + '_ {
        self.pages.iter().enumerate().flat_map(|(index, page)| {
            let accounts: Box<dyn Iterator<Item = (u16, u64)>> = match page {
                None => Box::new(std::iter::empty()),
                Some(Page::Sparse(accounts)) => Box::new(accounts.iter().copied()),
                Some(Page::Dense(balances)) => {
                    Box::new(balances.iter().enumerate().map(|(offset, balance)| (offset as u16, *balance)))
                }
            };
            accounts.filter(|account| account.1 > 0).map(move |account| (index as u32, account.0, account.1))
        })
    }

    /// The vehicle id at a place of a page.
    pub fn vid_of(&self, partition: u32, index: u32, offset: u16) -> u32 {
        (index * self.partitions + partition) << PAGE_BITS | u32::from(offset)
    }
}

fn dense(page: Option<Page>) -> Page {
    let mut balances = Box::new([0; PAGE as usize]);
    if let Some(Page::Sparse(accounts)) = page {
        accounts.iter().for_each(|(offset, balance)| balances[*offset as usize] = *balance);
    }
    Page::Dense(balances)
}
