//! Boxes and distances in the plane.

/// A box in the plane, with its edges.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Area {
    /// The smallest and the largest x.
    pub x: (f64, f64),
    /// The smallest and the largest y.
    pub y: (f64, f64),
}

impl Area {
    /// The whole plane.
    pub const EVERYWHERE: Area =
        Area { x: (f64::NEG_INFINITY, f64::INFINITY), y: (f64::NEG_INFINITY, f64::INFINITY) };

    /// A box that contains nothing, and grows.
    pub(crate) const NOTHING: Area =
        Area { x: (f64::INFINITY, f64::NEG_INFINITY), y: (f64::INFINITY, f64::NEG_INFINITY) };

    /// The box around all points that are at most this far from a point.
    ///
    /// ```
    /// let area = tidemill_store::Area::around(3.0, 4.0, 1.0);
    /// assert!(area.contains(2.0, 5.0) && !area.contains(1.0, 4.0));
    /// ```
    pub fn around(x: f64, y: f64, distance: f64) -> Area {
        let far = distance * (1.0 + ROUNDING) + VANISHING;
        let around = |value: f64| ((value - far).next_down(), (value + far).next_up());
        Area { x: around(x), y: around(y) }
    }

    /// Whether a point is in the box or on its edge. A point without a coordinate (NaN) is not.
    pub fn contains(&self, x: f64, y: f64) -> bool {
        self.x.0 <= x && x <= self.x.1 && self.y.0 <= y && y <= self.y.1
    }

    /// The points that are in both.
    #[must_use]
    pub fn and(&self, other: &Area) -> Area {
        Area {
            x: (self.x.0.max(other.x.0), self.x.1.min(other.x.1)),
            y: (self.y.0.max(other.y.0), self.y.1.min(other.y.1)),
        }
    }

    pub(crate) fn meets(&self, other: &Area) -> bool {
        self.x.0 <= other.x.1 && other.x.0 <= self.x.1 && self.y.0 <= other.y.1 && other.y.0 <= self.y.1
    }

    pub(crate) fn covers(&self, other: &Area) -> bool {
        self.x.0 <= other.x.0 && other.x.1 <= self.x.1 && self.y.0 <= other.y.0 && other.y.1 <= self.y.1
    }

    pub(crate) fn include(&mut self, x: f64, y: f64) {
        self.x = (self.x.0.min(x), self.x.1.max(x));
        self.y = (self.y.0.min(y), self.y.1.max(y));
    }

    /// At most the distance from a point to any point of the box.
    pub(crate) fn distance_from(&self, x: f64, y: f64) -> f64 {
        let gap = |value: f64, (least, most): (f64, f64)| (least - value).max(value - most).max(0.0);
        let nearest = distance((0.0, 0.0), (gap(x, self.x), gap(y, self.y)));
        nearest * (1.0 - ROUNDING) - VANISHING
    }
}

/// How far a computed distance may be from the true one, relatively; and differences whose squares vanish.
const ROUNDING: f64 = 8.0 * f64::EPSILON;
const VANISHING: f64 = 1e-150;

/// The distance between two points.
///
/// ```
/// assert_eq!(tidemill_store::distance((0.0, 0.0), (3.0, 4.0)), 5.0);
/// ```
pub fn distance(from: (f64, f64), to: (f64, f64)) -> f64 {
    let (x, y) = (from.0 - to.0, from.1 - to.1);
    let distance = (x * x + y * y).sqrt();
    // The difference of two infinities has a sign that must not decide where it is sorted.
    if distance.is_nan() { f64::NAN } else { distance }
}
