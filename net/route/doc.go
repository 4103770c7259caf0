// Package route chooses how processes reach each other: over shared memory where they share a host, over TCP where
// not. The choice is a list of transports and a loop ([Order], [Dial], [Listen]); [Mesh] connects
// the ranks of a group with each other, and says who shares a host with whom; [Pair] connects two ends that so far only talk
// through a third.
//
// Nobody is asked for a host's name. Two processes share a host when the one finds the socket of the other in
// the same directory of the same running kernel, and a conn over that socket has been opened, which has mapped memory in
// both: it was tried, so it works. Containers that share the directory share a host, those
// that do not are as far apart as two machines, whatever they are called.
package route
