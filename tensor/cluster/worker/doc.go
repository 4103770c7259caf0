// Package worker runs the programs of many sessions on one device, as a dispatcher hands
// them over.
//
// A worker is one goroutine: it receives a message, handles it, and answers if an answer
// is wanted. The programs of a session run one after another in the order in which they
// came. Between sessions the worker's time is shared evenly: the next message is that of
// the session that has used the least, and a session that was idle gets no credit for
// that. If a session's messages come faster than they run, the dispatcher is told to hold
// them back, so that they wait in that client's own queue.
//
// # Programs that run long
//
// While a program runs for longer than some tens of milliseconds, the worker listens
// (listen.go): it sorts the dispatcher's messages, opens, closes and counts other
// sessions, and answers Watch. It does the same while it waits for other workers in a
// collective. The dispatcher is told that the worker is busy, and places sessions on
// others.
//
// The worker stops the program if its client is gone or has closed the session, or if the
// worker itself is to end; then all later programs of the session are stopped as well. A
// client stops the Runs up to a number with Stop, when the context of its call has ended.
// A program that was stopped has failed: its results do not exist, and values that it
// would have updated in place are gone. Everything else of the session stays.
//
// # Sessions
//
// A session has one of three kinds (session.go):
//
//	forwarded  this worker alone runs it, and the dispatcher forwards its messages
//	direct     this worker alone runs it, and it has a connection of its own to its client
//	shared     several workers run it
//
// A direct session's messages wait in the queue of its connection and are handled and
// answered there. The worker sleeps on one doorbell for all of these connections and the
// dispatcher's.
//
// # Without a dispatcher
//
// When the dispatcher dies (reconnect.go), direct sessions go on, and the worker looks
// for another one at the same address. All other sessions end. A dispatcher that stops in
// order says so, and the worker ends with it.
//
// # Memory
//
// Values lie in the memory of the device, which package tensor/device hides: the worker
// takes bytes out by Host and Read, and puts them in by Import and Fill.
//
// Uploads of a client on this host are read where they are, in segments of the client
// that the worker maps for reading. Their memory is given back when the last value in it
// is freed. Results are blocks of the device's arena of host memory, and each session is
// given its segments before the first handle into them. A result that is handed out is
// leased to its session: its memory stays as it is until the client gives it back, closes
// the session or is gone, whatever happens to the value or the session. Over a direct
// connection a result of up to 64 bytes travels in the answer instead.
//
// A worker whose device is lost (device.Losable) tells all its sessions why, and ends: a
// new process may find the device in order.
//
// A client of another host shares no memory. A goroutine has a data connection to each of
// those (data.go). Uploads arrive over it in blocks of the arena before the batch that
// names them is sent, and results are sent from their blocks; a batch never waits for
// bytes.
//
// # Sessions of several workers
//
// Each of the workers gets the same messages in the same order and keeps the same books.
// It rewrites a program (package tensor/shard) for the layouts of the inputs, once for
// every combination of layouts, and carries out its own rank's steps of the plan:
// programs on its device, and collectives with the other workers over connections of
// their own (package collective). The plan is a function of what all workers know, so
// none has to send it. In the steady state no message is exchanged between a client's Run
// and the collectives.
//
//	client ══ Run ══▶ worker 0: ═╤═══ Run ═══▶ worker 1: ── Done ──▶ dispatcher ──▶ client
//	       ◀═ Done ══ its steps  ╘═ collectives ═▶ its steps
//
// Later workers send Done only for a part of a result, a synced or failed Run, or memory
// to give back.
//
// If the client and the workers are on one host, the first worker has the connection with
// the client and passes messages on (lead.go). Otherwise the dispatcher forwards them to
// all.
//
// An upload whose layout or stage the client knows is divided when it comes: each worker
// copies its part. Any other upload stays in the client's memory until the first program
// reads it. Then its layout is decided, by the session's config or by cost, and each
// worker copies its part. An upload that is going to be updated, such as a state that is
// restored, is copied at once, whole if the config says nothing of it. A worker on
// another host is sent only its part of the uploads with a layout, and the others whole.
// A result keeps the layout that it came out with; a sum of which each worker has a term
// is taken when a client reads it. A part of a result is read where it is, and the first
// worker answers for values that all have.
//
// If the config has stages, each of them is some of the workers, runs its part of every
// program, and sends the other stages the values that they need of it (stages.go).
//
// Workers wait for each other in a session's collectives. Several such sessions run on
// each worker in one order: that in which the dispatcher sends their messages, or the
// Turn messages that begin their turns. The order is the same on all workers. So the
// oldest message that is not done has nothing before it on any of them (see package turn,
// One order).
//
// A worker that waits in a collective hears of a dead worker by the end of a connection
// of that group, and the first worker also when it passes a message on. The worker that
// hears of it ends the session and leaves its groups, which frees those that wait for it,
// and closes the session's connections. If the first worker does so, the connections of
// the client and of the later ranks end. A later rank that only saw that end keeps the
// turn until the dispatcher sends CloseSession, which also reaches the workers that do
// not wait; one that found the death itself has closed its part of the turn with the
// session.
//
// If a session's workers are as many as the host's cores, each is bound to one
// (binding.go, Options.Bind).
//
// A client can have its values written to files, whose descriptors it sends: a worker
// knows no path and opens no file. Each of a session's workers writes the parts that it
// has, a few megabytes at a time, and reports the SHA-256 of every part.
//
// # Trust
//
// All data of a client is checked before it is used: handles against the segments that
// the same session announced, programs by inference and by their hash, ids against the
// session's own. Clients' memory is taken only sealed, so that it stays readable whatever
// they do, and they can only read the worker's (see Segments and package shm). All
// sessions of a worker share its arena: a client can read the results of the others, all
// of which belong to the same user, or to the group that was let in.
//
// A session that breaks the protocol fails and the worker goes on. When a session ends,
// for any reason, its values and mappings go with it. Its leases end when the client has
// closed it or is gone: until then the client may be reading results, and may not know
// yet that the session has failed.
//
// # Files
//
// From bottom to top; a file uses definitions of files below it, which come first here:
//
//	errors.go options.go          errors and their codes; Options and Stats
//	monitor.go binding.go         measurements for clients that watch; a core of its own
//	plan.go programs.go           the steps of a rank, compiled; a session's programs
//	outbox.go backlog.go          messages to the dispatcher; messages that wait
//	env.go inlet.go               a worker for its sessions; a session's own connection
//	standstill.go                 tells in the log that a signal stopped the dispatcher
//	transfer.go data.go           the data connection to a client of another host
//	memory.go uploads.go          where uploads come from; their bytes
//	results.go quota.go           values for the client; a bound for a session's values
//	base.go save.go               all sessions: messages, batches, Save
//	forwarded.go direct.go        sessions of one worker
//	stages.go team.go             ranks, meshes and stages; groups of workers
//	rounding.go                   refuses groups whose devices would compute other bits
//	peers.go link.go              collectives and transfers on values of GPUs
//	lead.go                       connections and turns of several workers
//	carry.go vote.go              a plan carried out; whether it failed on any worker
//	values.go rewrite.go read.go  layouts of values; plans for them; values that are read
//	shared.go                     sessions of several workers
//	session.go scheduler.go       all kinds of sessions; the next message to handle
//	listen.go                     the dispatcher's messages while a program runs
//	watch.go trim.go              answers to Watch; memory that goes back when it is idle
//	rest.go                       what several workers keep of a program that failed
//	reconnect.go worker.go        another dispatcher; the worker
package worker
