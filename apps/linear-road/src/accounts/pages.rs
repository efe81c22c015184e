//! Account balances by vehicle id, in pages: dense where ids are dense, sparse where they are not.
//!
//! Vehicle ids are handed out in sequence, so a page of consecutive ids is usually full: 4 bytes per account and one
//! cache miss per charge. Balances are nevertheless 64-bit sums: a page in which one exceeds 32 bits is widened. Ids
//! that are far apart cost a short sorted list instead of a page.

use tidemill_engine::prefetch;

/// Consecutive vehicle ids per page.
pub const PAGE: u32 = 1 << PAGE_BITS;
const PAGE_BITS: u32 = 12;
/// A page with more accounts than this is no longer sparse.
const SPARSE_MAX: usize = 256;

#[derive(Debug)]
enum Page {
    /// Sorted by the id's place in the page.
    Sparse(Vec<(u16, u64)>),
    /// By the id's place in the page; all balances fit.
    Narrow(Box<[u32; PAGE as usize]>),
    /// By the id's place in the page.
    Wide(Box<[u64; PAGE as usize]>),
}

impl Page {
    fn balance(&self, offset: u16) -> u64 {
        match self {
            Page::Narrow(balances) => balances[offset as usize].into(),
            Page::Wide(balances) => balances[offset as usize],
            Page::Sparse(accounts) => accounts
                .binary_search_by_key(&offset, |account| account.0)
                .map_or(0, |found| accounts[found].1),
        }
    }

    fn add(&mut self, offset: u16, toll: u64) {
        match self {
            Page::Narrow(balances) => {
                let balance = &mut balances[offset as usize];
                match u32::try_from(u64::from(*balance) + toll) {
                    Ok(sum) => *balance = sum,
                    Err(_) => self.widen(offset, toll),
                }
            }
            Page::Wide(balances) => balances[offset as usize] += toll,
            Page::Sparse(accounts) => match accounts.binary_search_by_key(&offset, |account| account.0) {
                Ok(found) => accounts[found].1 += toll,
                Err(place) => {
                    accounts.insert(place, (offset, toll));
                    if accounts.len() > SPARSE_MAX {
                        let accounts = std::mem::take(accounts);
                        *self = Page::Narrow(Box::new([0; PAGE as usize]));
                        accounts.into_iter().for_each(|(offset, balance)| self.add(offset, balance));
                    }
                }
            },
        }
    }

    #[cold]
    fn widen(&mut self, offset: u16, toll: u64) {
        let mut balances = Box::new([0; PAGE as usize]);
        balances.iter_mut().zip(0..).for_each(|(balance, offset)| *balance = self.balance(offset));
        balances[offset as usize] += toll;
        *self = Page::Wide(balances);
    }

    fn prefetch(&self, offset: u16) {
        match self {
            Page::Narrow(balances) => prefetch::read(&balances[offset as usize]),
            Page::Wide(balances) => prefetch::read(&balances[offset as usize]),
            Page::Sparse(_) => {}
        }
    }
}

/// The page number of a vehicle id.
pub fn page_of(vid: u32) -> u32 {
    vid >> PAGE_BITS
}

/// Accounts of the vehicles whose page number leaves a given remainder.
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

    /// Adds to an account, which is opened if it does not exist.
    pub fn add(&mut self, vid: u32, toll: u64) {
        let (index, offset) = self.locate(vid);
        if self.pages.len() <= index {
            self.pages.resize_with(index + 1, || None);
        }
        self.pages[index].get_or_insert(Page::Sparse(Vec::new())).add(offset, toll);
    }

    /// A car's balance; 0 if it has no account.
    pub fn balance(&self, vid: u32) -> u64 {
        let (index, offset) = self.locate(vid);
        self.pages.get(index).and_then(Option::as_ref).map_or(0, |page| page.balance(offset))
    }

    /// Prefetches the memory of an account.
    #[inline]
    pub fn prefetch(&self, vid: u32) {
        let (index, offset) = self.locate(vid);
        if let Some(Some(page)) = self.pages.get(index) {
            page.prefetch(offset);
        }
    }

    /// All accounts that are not 0, as (index of the page, place in the page, balance).
    pub fn accounts(&self) -> impl Iterator<Item = (u32, u16, u64)> + '_ {
        self.pages.iter().enumerate().flat_map(|(index, page)| {
            let accounts: Box<dyn Iterator<Item = (u16, u64)>> = match page {
                None => Box::new(std::iter::empty()),
                Some(Page::Sparse(accounts)) => Box::new(accounts.iter().copied()),
                Some(page) => Box::new((0..PAGE as u16).map(|offset| (offset, page.balance(offset)))),
            };
            accounts.filter(|account| account.1 > 0).map(move |account| (index as u32, account.0, account.1))
        })
    }

    /// The vehicle id at a place of a page.
    pub fn vid_of(&self, partition: u32, index: u32, offset: u16) -> u32 {
        (index * self.partitions + partition) << PAGE_BITS | u32::from(offset)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Sparse, narrow and wide pages against a map, in partition 1 of 3.
        #[test]
        fn pages_are_a_map(
            charges in prop::collection::vec(
                (0u32..3, 0u32..PAGE, prop_oneof![1u64..1000, Just(3_000_000_000)]),
                0..2000,
            )
        ) {
            let mut pages = Pages::new(3);
            let mut model = BTreeMap::new();
            for (page, offset, toll) in charges {
                // Few vehicles on the last page, so that it stays sparse.
                let offset = if page == 2 { offset % 200 } else { offset };
                let vid = (page * 3 + 1) * PAGE + offset;
                pages.add(vid, toll);
                *model.entry(vid).or_insert(0) += toll;
                prop_assert_eq!(pages.balance(vid), model[&vid]);
            }
            let found: BTreeMap<u32, u64> =
                pages.accounts().map(|(index, offset, balance)| (pages.vid_of(1, index, offset), balance)).collect();
            prop_assert_eq!(found, model);
            prop_assert_eq!(pages.balance(PAGE * 100), 0);
        }
    }
}
