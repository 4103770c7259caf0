// Package breaker holds tests alone: attackers beside an honest client. Each attack is
// within the power of a client, or of a process that can connect. The honest client
// trains meanwhile, and its losses and weights are compared bit by bit with those of a
// run without an attacker; no session ends but the attacker's. docs/security.md lists the
// promises.
//
//	honest_test.go       the honest client, and how long it was kept waiting
//	main_test.go         clusters and attackers as child processes
//	stop_test.go         programs that would run for hours
//	descriptors_test.go  more descriptors and clients than a process may have
//	crowd_test.go        very many clients at once
//	words_test.go        random values in shared memory
//	memory_test.go       more memory than a container has; memory of idle sessions
//	bits_test.go         flipped bits on a link; clients without TLS
//	strangers_test.go    very many strangers on TCP; descriptors whose close waits
package breaker
