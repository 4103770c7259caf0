// Package route chooses how processes reach each other: over shared memory on one host,
// over the network between hosts. [Order] is the list of transports, the best first;
// [Dial] and [Listen] take the first that gets through. A new transport is a package and
// one line there.
//
// [Mesh] opens the conns between the ranks of a group and finds out which ranks share a
// host. [Pair] opens one between two ends that talk to each other through a third. Both
// are the same protocol: every end listens with every transport and says where (card),
// dials others in rounds, and reports to all which ones it has reached.
//
// No host is asked for its name. Two processes share a host if one finds the socket of
// the other in the same directory of the same running kernel and opens a conn over it,
// which maps memory in both. Containers that share the directory share a host. Those that
// do not are as far apart as two machines, whatever their names.
package route
