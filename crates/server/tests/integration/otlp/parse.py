"""Reads a request with metrics from standard input by OpenTelemetry's own definition, and says what is in it."""

import sys

from google.protobuf import json_format
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_CUMULATIVE

# A field that the definition does not have is an error.
request = json_format.Parse(sys.stdin.buffer.read(), ExportMetricsServiceRequest())
(resource,) = request.resource_metrics
names = {attribute.key: attribute.value.string_value for attribute in resource.resource.attributes}
metrics = {metric.name: metric for scope in resource.scope_metrics for metric in scope.metrics}
rows = metrics["tidemill_source_rows_total"].sum
(point,) = rows.data_points
assert point.time_unix_nano >= point.start_time_unix_nano > 0
(times,) = metrics["tidemill_response_time_seconds"].histogram.data_points
assert sum(times.bucket_counts) == times.count and len(times.bucket_counts) == len(times.explicit_bounds) + 1
is_cumulative = rows.aggregation_temporality == AGGREGATION_TEMPORALITY_CUMULATIVE
print(f"{names['service.name']}, {point.as_int} rows, {'cumulative' if is_cumulative else 'delta'}")
