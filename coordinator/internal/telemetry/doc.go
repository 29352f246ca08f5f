// Package telemetry tells what a coordinator does: metrics for Prometheus, and spans
// for a tracing system.
//
// What the whole process does is measured with OpenTelemetry. What concerns a group, a
// member or a shard is computed by one collector when it is asked for, from what the
// coordinator knows at that moment: so nothing is left of a group that was deleted, no
// request can make a series by naming something that does not exist, and there is no
// limit to the number of series. Both stand in one registry.
//
// The page docs/metrics.md lists every series; a test compares it with a scrape.
package telemetry
