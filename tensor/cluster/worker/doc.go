// Package worker runs the programs of many sessions on one device, as a dispatcher hands
// them over.
//
// A worker is one goroutine: it receives a message, does what it says, and answers where an answer
// was asked for. The programs of a session run one after the other in the order they came. Between
// sessions the worker's time is shared out evenly: the next message is that of the session that has used
// the least, and a session that comes back from idling does not get what it left unused. A session whose
// messages come faster than they are run has the dispatcher hold them back, so that
// they wait in that client's own queue.
//
// A session whose client is on this host has a conn of its own with it (direct.go): its messages wait in that conn's queue and are done
// where they lie, and are answered there. The worker sleeps on one doorbell for all of these and the dispatcher's.
//
// # What is shared
//
// A client's uploads are read where they lie, in segments of the client that are mapped here
// for reading; their memory is given back when the last value over it is freed. Results lie in the
// device's arena, whose segments each session is given before the first handle into them. A result
// that was handed out is leased to its session: its memory stays as it is until the client
// gives it back, whatever happens to the value. One of up to 64 bytes travels in the answer instead, over a session's own conn.
//
// A client of another host shares nothing. A goroutine has a conn to each (link.go), over which uploads come into blocks of the
// arena, before the batch that names them is sent, and results go from where they lie; a batch never waits for bytes.
//
// # Together
//
// A session of several workers is run by all of them: each gets the same messages in the same order and keeps the same books. It
// rewrites a program (package tensor/shard) for how the inputs lie, once for every way in which they do, and carries out its
// own rank's steps of the plan: programs on its device, and collectives with the others, over conns of their own (package
// collective). The plan is a function of what all of them know, so that nobody has to send it, and in the steady state nothing is
// said between a client's short message and the collectives.
//
//	client ══ Run ══▶ worker 0: steps of rank 0 ═╤═ Run ══▶ worker 1: steps of rank 1 ── Done ──▶ dispatcher ──▶ client,
//	       ◀═ Done ══              ▲             ╘══ collectives ══▶     ▲                       if it has a part of a result
//
// Where client and workers are of one host the first worker has the conn with the client and passes messages on (lead.go). Otherwise the
// dispatcher forwards them to all.
//
// Of an upload whose signal the config cuts, or puts on a stage, each worker copies its part when it comes. Any other stays where it is, in
// the client's memory, until the first program reads it. Then its layout is decided, by the session's config or by what is cheapest, and
// each worker copies its part. What is to be updated in place, such as a state that is restored, they copy at once, whole if the config
// says nothing of it. A worker on another host is sent its part alone of those, and the rest whole. A result lies as it came out; a sum of
// which each has a term is taken when somebody reads it. A part of a result is read where it lies; the first worker answers for what all
// have.
//
// A worker that fails where others may not, for want of memory or for an index in its part, takes part in the collectives that
// are left all the same, with bytes that mean nothing; at the end of the batch all vote, and it has failed on all of them or
// on none, with the same error. If a worker is gone, or does not come for five minutes, the session is over.
//
// Where the config has stages, each of them is some of the workers, runs its part of every program, and sends the others what they
// need of it (stages.go).
//
// Workers wait for each other in a session's collectives. With several such sessions they take their messages in the order in
// which the dispatcher sent them, or the words that give a session its turn, which is the same for all: the oldest one that is not done has
// nothing before it anywhere (package dispatcher, turns.go).
//
// Where a session's workers are as many as the host's cores each of them is bound to one (core.go, Options.Bind).
//
// A client can have its values written to files, whose descriptors it hands over: a worker knows no path and opens nothing.
// Each of a session's workers writes what it has, a few megabytes a turn, and says the SHA-256 of every part.
//
// # Limits
//
// What comes from a client is checked before it is used: handles against the segments that the same
// session announced, programs by inference and by their hash, ids against the session's own.
// Clients' memory is taken only sealed, so that it stays readable whatever they do, and of the
// worker's they can only read (see Segments and package shm). All sessions of a worker share its
// arena: a client can read the results of others, all of which belong to the same user, or to the group that
// was let in.
//
// A session that breaks the protocol is failed and the worker goes on. When a session ends, by
// whatever cause, its values, leases and mappings go with it.
//
// # Where things are
//
//	worker.go turns.go post.go     the worker and its conn with the dispatcher: whose turn it is, what is said
//	session.go batch.go save.go    a session, one Run, one Save
//	direct.go                      the session's own conn with a client of this host
//	link.go transfer.go            the one with a client of another host, and what moves over it
//	device.go cpu.go quota.go      what runs programs
//	shared.go team.go lead.go      a session of several workers: its books, its groups, its messages and turns
//	carry.go read.go agree.go      a plan carried out, a result made readable, a vote
//	stages.go core.go              stages; a core of its own
//	watch.go                       counters and events for those who look
package worker
