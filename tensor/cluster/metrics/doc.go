// Package metrics names the counters of dispatchers and workers, and computes rates and
// shares of time from two answers of a running cluster.
//
// Dispatchers and workers count and answer, a client.Monitor asks, and `ringside top`
// prints a [Report].
package metrics
