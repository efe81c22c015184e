//! The picture of an hour: rides on a large map, and on two small ones where trips begin and end, with the borders of the
//! regions.

use std::fmt::Write;

use super::projection::Projection;
use super::{Bounds, Hour, palette};
use crate::request::{Place, Request};
use crate::share::Share;

const WIDTH: f64 = 1220.0;
const HEIGHT: f64 = 900.0;
/// The large map.
const RIDES: ((f64, f64), f64) = ((30.0, 70.0), 790.0);
/// The small ones.
const ORIGINS: ((f64, f64), f64) = ((850.0, 70.0), 340.0);
const DESTINATIONS: ((f64, f64), f64) = ((850.0, 450.0), 340.0);
/// Where the legend of groups begins.
const LEGEND: (f64, f64) = (850.0, 825.0);
/// The most groups in the legend.
const LEGEND_MAX: u32 = 16;

/// Which end of a trip, as an index of the first of its two dimensions.
#[derive(Clone, Copy)]
enum End {
    Origin = 0,
    Destination = 2,
}

/// The picture as the text of an SVG file.
pub(super) fn svg(hour: &Hour, groups: u32, bounds: &Bounds) -> String {
    let points = hour.points.kept().iter().flat_map(|(_, origin, destination)| [*origin, *destination]);
    let drawn = hour.shares.kept().iter().flat_map(|(_, share)| share.members.iter());
    let drawn = drawn.flat_map(|member| [member.request.origin, member.request.destination]);
    let rides = Projection::of(points.chain(drawn), RIDES.0, RIDES.1);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" \
         height=\"{HEIGHT}\">\n<style>{}</style>\n<rect class=\"paper\" width=\"{WIDTH}\" height=\"{HEIGHT}\"/>\n",
        palette::STYLE
    );
    titles(&mut svg, hour);
    map(&mut svg, &rides, "Rides");
    hour.alone.kept().iter().for_each(|(_, request)| alone(&mut svg, &rides, request));
    hour.unserved.kept().iter().for_each(|request| unserved(&mut svg, &rides, request));
    hour.shares
        .kept()
        .iter()
        .for_each(|(group, share)| ride(&mut svg, &rides, share, palette::of_group(*group, groups)));
    scale(&mut svg, &rides);
    signs(&mut svg, hour);
    let small =
        [(ORIGINS, "Where trips begin", End::Origin), (DESTINATIONS, "Where trips end", End::Destination)];
    for (place, title, end) in small {
        let small = rides.at(place.0, place.1);
        map(&mut svg, &small, title);
        dots(&mut svg, &small, hour, groups, end);
        borders(&mut svg, &small, bounds, end);
    }
    legend(&mut svg, groups, bounds);
    svg.push_str("</svg>\n");
    svg
}

/// Appends to the picture; writing to a string cannot fail.
macro_rules! draw {
    ($svg:expr, $($part:tt)*) => {{ let _ = writeln!($svg, $($part)*); }};
}

fn text(svg: &mut String, (x, y): (f64, f64), class: &str, text: &str) {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    draw!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" class=\"{class}\">{text}</text>");
}

fn titles(svg: &mut String, hour: &Hour) {
    let (from, until) = (hour.hour, hour.hour + 1);
    text(svg, (30.0, 32.0), "title", &format!("Shared rides from {from}:00 to {until}:00"));
    let savings = &hour.savings;
    let not_served = match hour.unserved_count {
        0 => String::new(),
        count => format!(", {} not served", thousands(count)),
    };
    let numbers = format!(
        "{} people: {} {} of two or more, {} alone{not_served}; {:.1} % of the distance saved",
        thousands(savings.requests),
        thousands(savings.shares),
        if savings.shares == 1 { "ride" } else { "rides" },
        thousands(savings.alone),
        100.0 * savings.of_distance()
    );
    text(svg, (400.0, 32.0), "", &numbers);
}

/// `7489` as `7,489`.
fn thousands(number: u64) -> String {
    match number {
        0..1000 => number.to_string(),
        _ => format!("{},{:03}", thousands(number / 1000), number % 1000),
    }
}

fn map(svg: &mut String, map: &Projection, title: &str) {
    let (left, top, side) = map.square();
    text(svg, (left, top - 8.0), "", title);
    draw!(svg, "<rect class=\"map\" x=\"{left}\" y=\"{top}\" width=\"{side}\" height=\"{side}\"/>");
}

fn at(map: &Projection, place: Place) -> (f64, f64) {
    (map.x(place.x_m), map.y(place.y_m))
}

fn line(svg: &mut String, map: &Projection, from: Place, to: Place, style: &str) {
    let ((x1, y1), (x2, y2)) = (at(map, from), at(map, to));
    draw!(svg, "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" {style}/>");
}

/// The trip of the lead, and the way from it to the places of the others.
fn ride(svg: &mut String, map: &Projection, share: &Share, color: &str) {
    let lead = share.lead();
    draw!(svg, "<g stroke=\"{color}\" fill=\"{color}\">");
    line(svg, map, lead.origin, lead.destination, "stroke-width=\"1.6\"");
    for member in &share.members[1..] {
        line(svg, map, lead.origin, member.request.origin, "stroke-width=\"0.8\"");
        line(svg, map, lead.destination, member.request.destination, "stroke-width=\"0.8\"");
    }
    for member in &share.members {
        ends(svg, map, &member.request);
    }
    svg.push_str("</g>\n");
}

/// A dot where a trip begins, an empty square where it ends.
fn ends(svg: &mut String, map: &Projection, request: &Request) {
    let ((x, y), (to_x, to_y)) = (at(map, request.origin), at(map, request.destination));
    draw!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.6\" stroke=\"none\"/>");
    let (left, top) = (to_x - 2.3, to_y - 2.3);
    draw!(svg, "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"4.6\" height=\"4.6\" fill=\"none\"/>");
}

fn alone(svg: &mut String, map: &Projection, request: &Request) {
    svg.push_str("<g class=\"alone\" opacity=\"0.45\">\n");
    line(svg, map, request.origin, request.destination, "stroke-width=\"0.7\"");
    ends(svg, map, request);
    svg.push_str("</g>\n");
}

/// A cross where somebody waited in vain.
fn unserved(svg: &mut String, map: &Projection, request: &Request) {
    let (x, y) = at(map, request.origin);
    cross(svg, (x, y));
}

fn cross(svg: &mut String, (x, y): (f64, f64)) {
    let (left, right, top, bottom) = (x - 3.0, x + 3.0, y - 3.0, y + 3.0);
    let down = format!("M{left:.1} {top:.1}L{right:.1} {bottom:.1}");
    draw!(
        svg,
        "<path class=\"alone\" fill=\"none\" d=\"{down}M{left:.1} {bottom:.1}L{right:.1} {top:.1}\"/>"
    );
}

fn scale(svg: &mut String, map: &Projection) {
    let (left, top, side) = map.square();
    let (metres, length) = map.scale();
    let (from, to, y) = (left + 16.0, left + 16.0 + length, top + side - 16.0);
    let (high, low) = (y - 5.0, y + 5.0);
    let ends = format!("M{from:.1} {high:.1}V{low:.1}M{to:.1} {high:.1}V{low:.1}");
    draw!(svg, "<path class=\"line\" fill=\"none\" d=\"{ends}M{from:.1} {y:.1}H{to:.1}\"/>");
    let name = if metres >= 1000.0 { format!("{} km", metres / 1000.0) } else { format!("{metres} m") };
    text(svg, (from + 4.0, y - 8.0), "", &name);
}

/// What the signs of the large map mean, and how many of the rides it shows.
fn signs(svg: &mut String, hour: &Hour) {
    let y = 880.0;
    draw!(svg, "<g class=\"sign\"><circle cx=\"36\" cy=\"{:.1}\" r=\"3\"/>", y - 4.0);
    draw!(svg, "<rect x=\"102\" y=\"{:.1}\" width=\"6\" height=\"6\" fill=\"none\"/>", y - 8.0);
    draw!(svg, "<line x1=\"198\" x2=\"220\" y1=\"{0:.1}\" y2=\"{0:.1}\" stroke-width=\"1.8\"/>", y - 4.0);
    draw!(svg, "<line x1=\"302\" x2=\"324\" y1=\"{0:.1}\" y2=\"{0:.1}\" stroke-width=\"0.8\"/></g>", y - 4.0);
    for (x, name) in [(44.0, "origin"), (114.0, "destination"), (225.0, "lead's trip"), (329.0, "detour")] {
        text(svg, (x, y), "quiet", name);
    }
    let shown = |what: &str, every: u64| match every {
        1 => what.to_owned(),
        every => format!("{what} (1 of {every})"),
    };
    let drawn =
        format!("{}, grey: {}", shown("rides", hour.shares.every()), shown("alone", hour.alone.every()));
    text(svg, (390.0, y), "quiet", &drawn);
    if hour.unserved_count > 0 {
        cross(svg, (640.0, y - 4.0));
        text(svg, (648.0, y), "quiet", &shown("not served", hour.unserved.every()));
    }
}

fn dots(svg: &mut String, map: &Projection, hour: &Hour, groups: u32, end: End) {
    for (group, origin, destination) in hour.points.kept() {
        let place = if matches!(end, End::Origin) { origin } else { destination };
        let ((x, y), color) = (at(map, *place), palette::of_group(*group, groups));
        draw!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"1.6\" fill=\"{color}\"/>");
    }
}

/// The regions' parts of these two dimensions, each once.
fn borders(svg: &mut String, map: &Projection, bounds: &Bounds, end: End) {
    let first = end as usize;
    let mut drawn = Vec::new();
    for region in bounds {
        let [(west, east), (south, north)] = [region[first], region[first + 1]];
        let (left, right, top, bottom) = (map.x(west), map.x(east), map.y(north), map.y(south));
        let path = format!("M{left:.1} {top:.1}H{right:.1}V{bottom:.1}H{left:.1}Z");
        if !drawn.contains(&path) {
            draw!(svg, "<path class=\"border\" d=\"{path}\"/>");
            drawn.push(path);
        }
    }
}

fn legend(svg: &mut String, groups: u32, bounds: &Bounds) {
    let (left, top) = LEGEND;
    let lines = if bounds.len() > 1 { "lines: borders when the hour ends" } else { "no regions" };
    let title = match groups {
        1 => format!("One group; {lines}"),
        groups => format!("{groups} groups by colour; {lines}"),
    };
    text(svg, (left, top), "quiet", &title);
    let shown = groups.min(LEGEND_MAX);
    for group in 0..shown {
        let (x, y) = (left + 42.0 * f64::from(group % 8), top + 12.0 + 20.0 * f64::from(group / 8));
        let color = palette::of_group(group, groups);
        draw!(svg, "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"12\" height=\"12\" fill=\"{color}\"/>");
        text(svg, (x + 16.0, y + 11.0), "quiet", &group.to_string());
    }
    if groups > shown {
        text(svg, (left, top + 64.0), "quiet", "and so on: colours repeat after 16 groups");
    }
}
