// Package page serves a live page about a cluster and its training runs, the same figures
// for Prometheus, and profiles of this process.
//
// Every request needs the token, which [Options] gives or else [Server.URL] has, as
// ?token=, as a bearer token, or as the cookie that a request with the first gets. The
// host of a request must be an IP address, localhost or the host that was to listen: the
// page of a stranger whose name resolves to this host cannot read it. Nothing else is
// loaded from anywhere: the page is one embedded file.
//
//	server.go     listens, and lets requests in
//	collect.go    asks while there are requests
//	prometheus.go writes the text format of Prometheus
//	page.html     the page: HTML, CSS and JavaScript
package page
