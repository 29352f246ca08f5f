package config

import (
	"net/url"
	"slices"
)

// Monitoring says what the metrics show, and to whom.
type Monitoring struct {
	// ShardMetrics looks at the shards in Redis whenever the metrics are asked for.
	ShardMetrics bool `key:"shard-metrics"`
	// AuthenticateMetrics asks scrapers for credentials with the role READ.
	AuthenticateMetrics bool `key:"authenticate-metrics"`
}

// Tracing says where the spans of requests go.
type Tracing struct {
	// Endpoint is the URL that takes them by OTLP over HTTP; empty for none.
	Endpoint string `key:"endpoint"`
	// SamplePercent is the share of traces that are kept where the caller has not
	// decided it.
	SamplePercent int `key:"sample-percent"`
}

func (t *Tracing) validate(bad *complaints) {
	const key = "coordinator.tracing."
	bad.within(key+"sample-percent", t.SamplePercent, 0, 100)
	if t.Endpoint == "" {
		return
	}
	u, err := url.Parse(t.Endpoint)
	if err != nil || u.Host == "" || u.User != nil || !slices.Contains([]string{"http", "https"}, u.Scheme) {
		// It is not shown: it may hold a password.
		bad.addf(key+"endpoint", "must be like http://127.0.0.1:4318/v1/traces, without user and password: headers are given by OTEL_EXPORTER_OTLP_HEADERS")
	}
}
