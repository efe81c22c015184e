//! From metres of the plane to a square of a picture.

use crate::request::Place;

/// A square part of the plane, and the square of the picture that shows it. North is up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Projection {
    west_m: f64,
    south_m: f64,
    side_m: f64,
    left: f64,
    top: f64,
    side: f64,
}

/// The shortest side, so that one place alone has a map, too.
const SIDE_MIN_M: f64 = 1000.0;

impl Projection {
    /// A map of these places, with a margin, at the top left corner and with the side that are given.
    pub(super) fn of(places: impl Iterator<Item = Place>, (left, top): (f64, f64), side: f64) -> Projection {
        let (mut low, mut high): (Option<Place>, Option<Place>) = (None, None);
        for place in places {
            let (a, b) = (low.unwrap_or(place), high.unwrap_or(place));
            low = Some(Place { x_m: a.x_m.min(place.x_m), y_m: a.y_m.min(place.y_m) });
            high = Some(Place { x_m: b.x_m.max(place.x_m), y_m: b.y_m.max(place.y_m) });
        }
        let (low, high) = (low.unwrap_or_default(), high.unwrap_or_default());
        let side_m = (high.x_m - low.x_m).max(high.y_m - low.y_m).max(SIDE_MIN_M) * 1.06;
        let (west_m, south_m) = ((low.x_m + high.x_m - side_m) / 2.0, (low.y_m + high.y_m - side_m) / 2.0);
        Projection { west_m, south_m, side_m, left, top, side }
    }

    /// The same part of the plane elsewhere in the picture.
    pub(super) fn at(self, (left, top): (f64, f64), side: f64) -> Projection {
        Projection { left, top, side, ..self }
    }

    /// The square of the picture: left, top and side.
    pub(super) fn square(&self) -> (f64, f64, f64) {
        (self.left, self.top, self.side)
    }

    pub(super) fn x(&self, x_m: f64) -> f64 {
        let x = self.left + (x_m - self.west_m) / self.side_m * self.side;
        x.clamp(self.left, self.left + self.side)
    }

    pub(super) fn y(&self, y_m: f64) -> f64 {
        let y = self.top + self.side - (y_m - self.south_m) / self.side_m * self.side;
        y.clamp(self.top, self.top + self.side)
    }

    /// A round distance of about a fifth of the map: metres, and how long it is in the picture.
    pub(super) fn scale(&self) -> (f64, f64) {
        let wanted_m = self.side_m / 5.0;
        let power = 10f64.powf(wanted_m.log10().floor());
        let round = [5.0, 2.0, 1.0].into_iter().find(|digit| digit * power <= wanted_m).unwrap_or(1.0);
        let metres = round * power;
        (metres, metres / self.side_m * self.side)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_where_they_belong_and_the_scale_is_round() {
        let places = [Place { x_m: 0.0, y_m: 0.0 }, Place { x_m: 10_000.0, y_m: 5000.0 }];
        let projection = Projection::of(places.into_iter(), (40.0, 70.0), 1060.0);
        // 10.6 km are 1060 wide: a metre is a tenth of a unit, and the middle is in the middle.
        assert_eq!((projection.x(5000.0), projection.y(2500.0)), (570.0, 600.0));
        assert!((projection.x(0.0) - 70.0).abs() < 1e-9 && projection.y(5000.0) < projection.y(0.0));
        let (metres, length) = projection.scale();
        assert_eq!(metres, 2000.0);
        assert!((length - 200.0).abs() < 1e-9, "{length}");
        // What lies outside is drawn at the edge, also what has no end.
        assert_eq!((projection.x(f64::NEG_INFINITY), projection.y(f64::INFINITY)), (40.0, 70.0));
        let one = Projection::of([places[0]].into_iter(), (0.0, 0.0), 100.0);
        assert_eq!((one.x(0.0), one.y(0.0), one.scale().0), (50.0, 50.0, 200.0));
    }
}
