//! The shares of a stream that are routed, broadcast and omitted.

use thiserror::Error;

/// From this many copies per event on, broadcast rows are shared: then merging them in each partition costs less than
/// the copies.
const SHARED_COPIES_MIN: f64 = 2.0;

/// The shares of a stream that go to one output, to all outputs, and to none. They add up to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Proportions {
    /// To one output: `r`.
    routed: f64,
    /// To all outputs: `b`.
    broadcast: f64,
}

/// Shares that do not form a whole.
#[derive(Clone, Copy, Debug, Error, PartialEq)]
#[error(
    "the routed part ({routed}) and the broadcast part ({broadcast}) must not be negative, and together not \
     above 1"
)]
pub struct ProportionsError {
    routed: f64,
    broadcast: f64,
}

impl Proportions {
    /// These shares; the rest is omitted.
    ///
    /// ```
    /// use tidemill_split::cost::Proportions;
    /// let linear_road = Proportions::new(0.99, 0.005).unwrap();
    /// assert!((linear_road.omitted() - 0.005).abs() < 1e-12);
    /// assert!(Proportions::new(0.9, 0.2).is_err());
    /// ```
    ///
    /// # Errors
    /// If a share is negative or not a number, or if they add up to more than 1.
    pub fn new(routed: f64, broadcast: f64) -> Result<Self, ProportionsError> {
        // A little above 1 is the rounding of parts that were divided.
        let valid = routed >= 0.0 && broadcast >= 0.0 && routed + broadcast <= 1.0 + 1e-9;
        if valid {
            Ok(Proportions { routed, broadcast })
        } else {
            Err(ProportionsError { routed, broadcast })
        }
    }

    /// This share is broadcast, and all the rest is routed.
    ///
    /// # Errors
    /// If the share is not between 0 and 1.
    pub fn broadcast_part(broadcast: f64) -> Result<Self, ProportionsError> {
        Proportions::new(1.0 - broadcast, broadcast)
    }

    /// From counted events. If there are no events, all count as routed.
    pub fn counted(routed: u64, broadcast: u64, omitted: u64) -> Self {
        let all = (routed + broadcast + omitted) as f64;
        if all == 0.0 {
            return Proportions { routed: 1.0, broadcast: 0.0 };
        }
        Proportions { routed: routed as f64 / all, broadcast: broadcast as f64 / all }
    }

    /// The share that goes to one output: `r`.
    pub fn routed(&self) -> f64 {
        self.routed
    }

    /// The share that goes to all outputs: `b`.
    pub fn broadcast(&self) -> f64 {
        self.broadcast
    }

    /// The share that goes to no output: `o`.
    pub fn omitted(&self) -> f64 {
        (1.0 - self.routed - self.broadcast).max(0.0)
    }

    /// Copies written per event when the stream is split into this many outputs: `r + w b`.
    ///
    /// ```
    /// let all = tidemill_split::cost::Proportions::broadcast_part(1.0).unwrap();
    /// assert_eq!(all.copies(64), 64.0);
    /// ```
    pub fn copies(&self, width: u32) -> f64 {
        self.routed + f64::from(width) * self.broadcast
    }

    /// Whether broadcast rows are kept once for this many partitions, rather than copied for each: from two copies per
    /// event on. If everything is broadcast, the batch itself is what all share.
    ///
    /// ```
    /// use tidemill_split::cost::Proportions;
    /// let are_shared = |part| Proportions::broadcast_part(part).unwrap().are_shared(64);
    /// assert_eq!([0.005, 0.1, 1.0].map(are_shared), [false, true, false]);
    /// ```
    pub fn are_shared(&self, width: u32) -> bool {
        self.copies(width) >= SHARED_COPIES_MIN && self.broadcast < 1.0 && self.broadcast > 0.0
    }

    /// Rows written per event by a splitter with this many outputs, which leads to `width` partitions: `r + f b`, or `r
    /// + b` if broadcast rows are shared.
    ///
    /// ```
    /// let some = tidemill_split::cost::Proportions::new(0.5, 0.25).unwrap();
    /// assert_eq!([some.written(2, 4), some.written(2, 64)], [1.0, 0.75]);
    /// ```
    pub fn written(&self, outputs: u32, width: u32) -> f64 {
        if self.are_shared(width) { self.routed + self.broadcast } else { self.copies(outputs) }
    }

    /// The rate of one of this many outputs, if routing is even: `Φ (b + r / w)`.
    pub fn output_rate(&self, rate: f64, width: u32) -> f64 {
        rate * (self.broadcast + self.routed / f64::from(width))
    }
}
