//! What the gateways of a server say about themselves, in numbers.

use tidemill_service::StatusTables;

use super::families::{Families, MetricKind};

use MetricKind::{Counter as Total, Gauge};

/// A number of each source of a gateway: the family, what it is, and the column of the table.
const OF_SOURCES: [(&str, MetricKind, &str, &str); 4] = [
    (
        "tidemill_gateway_rows_total",
        Total,
        "Rows of a source that a query at a gateway has taken in.",
        "rows",
    ),
    (
        "tidemill_gateway_bytes_total",
        Total,
        "Bytes of a source that a query at a gateway has taken in.",
        "bytes",
    ),
    ("tidemill_gateway_cycles_total", Total, "Cycles with rows of a query at a gateway.", "cycles"),
    (
        "tidemill_gateway_held_back_seconds_total",
        Total,
        "How long a source of a gateway has waited for room.",
        "held_back_seconds",
    ),
];

/// Times of cycles by what they are of all cycles.
const OF_CYCLES: [(&str, &str); 4] =
    [("mean", "cycle_ms_mean"), ("0.5", "cycle_ms_p50"), ("0.99", "cycle_ms_p99"), ("1", "cycle_ms_max")];

/// A number of each fragment of a view at a gateway.
const OF_FRAGMENTS: [(&str, &str, &str); 2] = [
    ("tidemill_gateway_view_rows", "Rows that a gateway holds of a view.", "rows"),
    ("tidemill_gateway_view_bytes", "Bytes of the rows that a gateway holds of a view.", "bytes"),
];

/// Adds what the gateways of a server say, which have these names.
pub(crate) fn gateways(families: &mut Families, names: &[String], tables: &StatusTables) {
    let up = families.family("tidemill_gateway_up", Gauge, "1 if a gateway answers, 0 if it is away.");
    for gateway in names {
        up.sample(&[("gateway", gateway)], u8::from(!is_away(tables, gateway)));
    }
    for (name, kind, help, column) in OF_SOURCES {
        let family = families.family(name, kind, help);
        for row in &tables.gateways {
            let labels = [
                ("gateway", of_gateway(row, "gateway")),
                ("source", of_gateway(row, "source")),
                ("query", of_gateway(row, "query")),
            ];
            if let Some(number) = number(of_gateway(row, column), labels[0].1) {
                family.sample(&labels, number);
            }
        }
    }
    let help =
        "Times of the cycles of a query at a gateway, from the cut to the commit: their mean and quantiles.";
    let family = families.family("tidemill_gateway_cycle_seconds", Gauge, help);
    for row in &tables.gateways {
        for (quantile, column) in OF_CYCLES {
            let (gateway, query) = (of_gateway(row, "gateway"), of_gateway(row, "query"));
            if let Some(number) = number(of_gateway(row, column), gateway) {
                let labels = [
                    ("gateway", gateway),
                    ("source", of_gateway(row, "source")),
                    ("query", query),
                    ("of", quantile),
                ];
                family.sample(&labels, number / 1e3);
            }
        }
    }
    for (name, help, column) in OF_FRAGMENTS {
        let family = families.family(name, Gauge, help);
        for row in &tables.fragments {
            let value = |name| value(&StatusTables::FRAGMENT_COLUMNS, row, name);
            let labels =
                [("gateway", value("gateway")), ("view", value("view")), ("fragment", value("fragment"))];
            if let Some(number) = number(value(column), labels[0].1) {
                family.sample(&labels, number);
            }
        }
    }
}

/// Whether a gateway says nothing: then there is one row for all of its views.
fn is_away(tables: &StatusTables, gateway: &str) -> bool {
    let views = format!("views at {gateway}");
    tables
        .queries
        .iter()
        .any(|row| matches!(&row[..], [query, state, ..] if *query == views && state == "away"))
}

fn of_gateway<'a>(row: &'a [String], column: &str) -> &'a str {
    value(&StatusTables::GATEWAY_COLUMNS, row, column)
}

fn value<'a>(columns: &[&str], row: &'a [String], column: &str) -> &'a str {
    let at = columns.iter().position(|known| *known == column);
    at.and_then(|at| row.get(at)).map_or("", String::as_str)
}

/// The number of a text, in a row of a gateway; `None`: there is none, or the row is of the server itself.
fn number(text: &str, gateway: &str) -> Option<f64> {
    text.parse().ok().filter(|_| !gateway.is_empty())
}

#[cfg(test)]
mod tests {
    use super::super::exposition;
    use super::*;

    fn row(values: &str) -> Vec<String> {
        values.split('|').map(str::to_owned).collect()
    }

    #[test]
    fn numbers_of_gateways_have_their_labels_and_those_of_the_server_are_left_out() {
        let tables = StatusTables {
            queries: vec![
                row("own|running|7|0|0|"),
                row("speed at noon|running|7|0|0|"),
                row("v at west|running|7|0|0|"),
                row("views at east|away||||gone"),
            ],
            fragments: vec![row("v|0|12|345|0|1|3|9|0|west|99"), row("own|0|1|1|0|1|3|9|0||1")],
            gateways: vec![
                row("cars|v|10|2.5|99|4|1.000|1.000|2.000|3.000||0.500|west|99"),
                row("own|own|10|2.5|99|0||||||0||1"),
            ],
        };
        let mut families = Families::default();
        gateways(&mut families, &["east".to_owned(), "west".to_owned()], &tables);
        let text = exposition::text(&families);
        for line in [
            "tidemill_gateway_up{gateway=\"west\"} 1\n",
            "tidemill_gateway_up{gateway=\"east\"} 0\n",
            "tidemill_gateway_rows_total{gateway=\"west\",source=\"cars\",query=\"v\"} 10\n",
            "tidemill_gateway_held_back_seconds_total{gateway=\"west\",source=\"cars\",query=\"v\"} 0.5\n",
            "tidemill_gateway_cycle_seconds{gateway=\"west\",source=\"cars\",query=\"v\",of=\"0.99\"} 0.002\n",
            "tidemill_gateway_view_rows{gateway=\"west\",view=\"v\",fragment=\"0\"} 12\n",
        ] {
            assert!(text.contains(line), "{line}{text}");
        }
        assert!(!text.contains("own") && !text.contains("noon"), "{text}");
    }
}
