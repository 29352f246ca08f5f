package telemetry

import (
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// family is what the series of one name have in common.
type family struct {
	desc *prometheus.Desc
	kind dto.MetricType
}

// prefix begins the name of every family.
const prefix = "redis_stream_coord_"

func gauge(name, help string) *family { return newFamily(name, help, dto.MetricType_GAUGE) }

func counter(name, help string) *family { return newFamily(name, help, dto.MetricType_COUNTER) }

func summary(name, help string) *family { return newFamily(name, help, dto.MetricType_SUMMARY) }

func distributed(name, help string) *family { return newFamily(name, help, dto.MetricType_HISTOGRAM) }

func newFamily(name, help string, kind dto.MetricType) *family {
	// The labels are those of the series; the registry looks at nothing else.
	return &family{prometheus.NewDesc(prefix+name, help, nil, nil), kind}
}

// labels are those of one series, sorted by name; series share them.
type labels []*dto.LabelPair

// with returns labels with more of them, given as names and values by turns.
func (l labels) with(pairs ...string) labels {
	all := make(labels, len(l), len(l)+len(pairs)/2)
	copy(all, l)
	block := make([]dto.LabelPair, len(pairs)/2)
	for i := range block {
		// Names are checked to be UTF-8 when they come in.
		block[i].Name, block[i].Value = &pairs[2*i], &pairs[2*i+1]
		all = append(all, &block[i])
	}
	slices.SortFunc(all, func(a, b *dto.LabelPair) int { return strings.Compare(*a.Name, *b.Name) })
	return all
}

// sample is one series at one moment. It is much lighter than what the library makes of
// values and labels, and there are many.
type sample struct {
	family *family
	labels labels
	value  float64
}

// Desc implements prometheus.Metric.
func (s *sample) Desc() *prometheus.Desc { return s.family.desc }

// Write implements prometheus.Metric.
func (s *sample) Write(m *dto.Metric) error {
	m.Label = s.labels
	if s.family.kind == dto.MetricType_COUNTER {
		m.Counter = &dto.Counter{Value: &s.value}
	} else {
		m.Gauge = &dto.Gauge{Value: &s.value}
	}
	return nil
}

// compound is a series that is more than a number.
type compound struct {
	family    *family
	labels    labels
	summary   *dto.Summary
	histogram *dto.Histogram
}

// Desc implements prometheus.Metric.
func (c *compound) Desc() *prometheus.Desc { return c.family.desc }

// Write implements prometheus.Metric.
func (c *compound) Write(m *dto.Metric) error {
	m.Label, m.Summary, m.Histogram = c.labels, c.summary, c.histogram
	return nil
}

// sink collects the series of one scrape. They are handed over when all are there, so
// that nothing is locked while the registry is slow.
type sink struct {
	metrics []prometheus.Metric
	// block is where the next samples lie.
	block []sample
}

// samplesPerBlock are allocated at once.
const samplesPerBlock = 256

func (s *sink) put(f *family, l labels, value float64) {
	if len(s.block) == cap(s.block) {
		s.block = make([]sample, 0, samplesPerBlock)
	}
	s.block = append(s.block, sample{f, l, value})
	s.metrics = append(s.metrics, &s.block[len(s.block)-1])
}

func (s *sink) count(f *family, l labels, n uint64) { s.put(f, l, float64(n)) }

// durations puts a summary, with its quantiles if asked to, and the longest.
func (s *sink) durations(f, longest *family, l labels, r latencyReport, withQuantiles bool) {
	m := &dto.Summary{SampleCount: &r.count, SampleSum: &r.seconds}
	if withQuantiles {
		for i := range quantiles {
			m.Quantile = append(m.Quantile, &dto.Quantile{Quantile: &quantiles[i], Value: &r.quantiles[i]})
		}
	}
	s.metrics = append(s.metrics, &compound{family: f, labels: l, summary: m})
	s.put(longest, l, r.longest)
}

func (s *sink) distribution(f *family, l labels, h *histogram) {
	s.metrics = append(s.metrics, &compound{family: f, labels: l, histogram: h.metric()})
}

func number(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
