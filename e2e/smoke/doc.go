// Package smoke holds what an operator is given to its word: the stack of
// docker-compose.yaml, the image, the dashboards, the alert rules and the runbook.
// It contains tests only.
//
// The ordinary tests read: dashboards against Grafana's schema, every expression
// with promtool, every name of a metric against docs/metrics.md, every alert
// against the runbook and its test cases, the compose file against the files and
// commands that it names.
//
// TestSmoke, which make smoke runs, plays the stack: the services of the compose
// file with their commands and settings, as processes on free ports of 127.0.0.1,
// under load and a few faults. It then asks a real Prometheus for every expression
// of every dashboard. Grafana has no part in it.
//
// TestContainers, which make smoke-containers runs, does the same with a stack that
// runs in Docker.
package smoke
