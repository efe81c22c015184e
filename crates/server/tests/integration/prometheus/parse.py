"""Reads the metrics with Prometheus's own parser, and checks what Prometheus relies on."""

import math
import sys
import urllib.request

from prometheus_client.parser import text_string_to_metric_families

text = urllib.request.urlopen(f"http://{sys.argv[1]}/metrics").read().decode()
families = list(text_string_to_metric_families(text))
names = [family.name for family in families]
assert len(names) == len(set(names)), "a family comes twice"
series = [(sample.name, tuple(sorted(sample.labels.items()))) for family in families for sample in family.samples]
assert len(series) == len(set(series)), "a sample comes twice"

by_name = {family.name: family for family in families}
assert by_name["tidemill_events_in"].type == "counter"
events = {sample.labels["query"]: sample.value for sample in by_name["tidemill_events_in"].samples}
assert events["parity"] == 900 and events["endless"] > 0, events

histogram = by_name["tidemill_response_time_seconds"]
assert histogram.type == "histogram"
for query in ("parity", "endless"):
    mine = [sample for sample in histogram.samples if sample.labels["query"] == query]
    buckets = [(float(s.labels["le"]), s.value) for s in mine if s.name.endswith("_bucket")]
    assert buckets == sorted(buckets) and math.isinf(buckets[-1][0]), buckets
    assert [count for _, count in buckets] == sorted(count for _, count in buckets), buckets
    count = next(s.value for s in mine if s.name.endswith("_count"))
    total = next(s.value for s in mine if s.name.endswith("_sum"))
    assert count == buckets[-1][1] and 0 < total < count * 3600, (count, total)
for family in families:
    assert family.documentation, family.name
    assert all(not math.isnan(sample.value) for sample in family.samples), family.name
print("done")
