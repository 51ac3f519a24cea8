// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package serve

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// metrics of a server, in its own registry: a process may have several servers.
type metrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
}

func newMetrics(b *batcher) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "wepe_requests_total",
			Help: "Requests by route and status."}, []string{"route", "status"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "wepe_request_seconds",
			Help: "Time of requests by route.", Buckets: prometheus.ExponentialBuckets(.001, 2, 15)}, []string{"route"}),
	}
	images := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "wepe_batch_images",
		Help: "Images of requests in a computed batch.", Buckets: prometheus.ExponentialBuckets(1, 2, 8)})
	compute := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "wepe_batch_seconds",
		Help: "Time to compute a batch.", Buckets: prometheus.ExponentialBuckets(.001, 2, 15)})
	waiting := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "wepe_queue_images",
		Help: "Images that wait for a batch."}, func() float64 { return float64(len(b.queue)) })
	b.observe = func(n int, seconds float64) {
		images.Observe(float64(n))
		compute.Observe(seconds)
	}
	m.registry.MustRegister(m.requests, m.seconds, images, compute, waiting, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func (m *metrics) request(route string, code int, took time.Duration) {
	m.requests.WithLabelValues(route, strconv.Itoa(code)).Inc()
	m.seconds.WithLabelValues(route).Observe(took.Seconds())
}
