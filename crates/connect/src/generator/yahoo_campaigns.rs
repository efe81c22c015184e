//! `yahoo_campaigns`: which ad belongs to which campaign, for the events of
//! [`yahoo_events`](super::yahoo_events).

use std::sync::Arc;
use std::time::Duration;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use tidemill_core::error::Cause;
use tidemill_core::source::{Polled, Progress, Source};

use super::BATCH_ROWS;
use super::yahoo_events::check_ads;

/// The columns of [`YahooCampaigns`]: `ad_id` BIGINT, `campaign_id` BIGINT.
pub fn yahoo_campaigns_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("ad_id", DataType::Int64, false),
        Field::new("campaign_id", DataType::Int64, false),
    ]))
}

/// The dimension table of the Yahoo Streaming Benchmark: ad `n` belongs to campaign `n / ads_per_campaign`.
/// One row per ad, by ad.
///
/// ```
/// use std::time::Duration;
/// use tidemill_connect::generator::YahooCampaigns;
/// use tidemill_core::source::{Polled, Source};
///
/// let mut campaigns = YahooCampaigns::new(100, 10)?;
/// let Polled::Rows(rows) = campaigns.poll(Duration::ZERO)? else { panic!("there are rows") };
/// assert_eq!(rows.num_rows(), 1000);
/// # Ok::<(), tidemill_core::Cause>(())
/// ```
#[derive(Clone, Debug)]
pub struct YahooCampaigns {
    schema: SchemaRef,
    ads_per_campaign: i64,
    ads: i64,
    next_ad: i64,
}

impl YahooCampaigns {
    /// The ads of this many campaigns. Use the same numbers as for the events.
    ///
    /// # Errors
    /// [`Cause::user`] if there are no ads or more than 2^32 - 1.
    pub fn new(campaigns: u32, ads_per_campaign: u32) -> Result<YahooCampaigns, Cause> {
        let ads = i64::from(check_ads(campaigns, ads_per_campaign)?);
        let ads_per_campaign = i64::from(ads_per_campaign);
        Ok(YahooCampaigns { schema: yahoo_campaigns_schema(), ads_per_campaign, ads, next_ad: 0 })
    }
}

impl Source for YahooCampaigns {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn poll(&mut self, _wait: Duration) -> Result<Polled, Cause> {
        let ads = self.next_ad..self.ads.min(self.next_ad + BATCH_ROWS as i64);
        if ads.is_empty() {
            return Ok(Polled::Ended);
        }
        self.next_ad = ads.end;
        let campaigns = Int64Array::from_iter_values(ads.clone().map(|ad| ad / self.ads_per_campaign));
        let columns: Vec<ArrayRef> = vec![Arc::new(Int64Array::from_iter_values(ads)), Arc::new(campaigns)];
        RecordBatch::try_new(Arc::clone(&self.schema), columns)
            .map(Polled::Rows)
            .map_err(|error| Cause::bug(error.to_string()).with_source(error))
    }

    fn progress(&self) -> Progress {
        Progress { done: self.next_ad as u64, total: Some(self.ads as u64) }
    }

    fn is_finite(&self) -> bool {
        true
    }
}
