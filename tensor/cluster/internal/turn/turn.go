// Package turn is the protocol by which sessions of several workers take turns.
//
// All workers of a session must run the same messages in the same order, also those of
// different sessions, because they wait for each other in collectives. So they cannot
// choose an order by themselves. Where a session's client and workers are of one host its
// messages do not pass through the dispatcher: the client sends them to the session's
// first worker, which passes them on to the others. The dispatcher gives such a session
// the turn, at all of its workers. A worker begins a message of the session only while
// the session has the turn there, and at no worker do two sessions have it at the same
// time.
//
// Over says that the last message was passed on, not that it is done. The dispatcher may
// give the next turn meanwhile, and each worker begins it when its own part of the last
// is done.
//
//	first worker       dispatcher         all workers
//	    ── Ask ────────▶    ── One, Open ──▶    when none of them has another turn
//	    ◀──────── Back ─                        when others want an open turn
//	    ── Over ───────▶                        after the messages; also to the others
//
// One is a turn for one message: where another session of several workers uses one of
// these workers. Open is a turn for any number of messages, until it is asked Back.
//
// The dispatcher forwards the messages of all other sessions of several workers, each
// only while no session has the turn at one of its workers. They stand in the same
// [Line].
//
// # One order
//
// Team work is work that needs other workers: the forwarded messages of sessions of
// several workers, and the messages of sessions that have a turn. A worker begins team
// work in the order in which the dispatcher sends forwarded messages, One and Open. From
// One or Open on it does no team work but that session's ([Turn.Held]), until the turn
// ends there:
//
//   - At the other workers it ends with Over. The first worker sends Over to each of them
//     after the last message, so they handle it when they have run that message.
//   - At the first worker it ends with the event done after Over: the last message has
//     then run there too. If no message is under way, Back ends it at once. The loss of
//     the client ends it in any case.
//
// The dispatcher sends One, Open or a forwarded message to all workers of the session
// before it sends the next of these to any worker. A worker that is gone ends the
// session. The dispatcher gives a turn to a session when, at each of its workers, the
// turn before has ended:
//
//   - by Over: that turn's messages are then in the queues of all its workers; or
//   - because its session has ended: the dispatcher has then sent CloseSession to its
//     workers.
//
// A worker handles CloseSession before the next One or Open; one that is running a
// program does when the program has stopped, and one that waits in a collective leaves
// it. So there is one order of all turns and forwarded messages, and each worker keeps to
// it in its own work. The oldest of them that is not done has nothing before it on any of
// its workers, and so waits for nothing.
//
// The test of this package walks through all interleavings of a dispatcher, three workers
// and their sessions' clients.
package turn

import (
	"fmt"

	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

// State is the state of a session's turn, as one process knows it.
type State uint8

// States. Their order matters: Held compares.
const (
	Idle  State = iota // no message waits for a turn
	Asked              // a message waits for a turn
	// Back came before Open was handled here; when Open is, it counts as One
	Recalled
	HasOne  // the session has the turn, for one message
	HasOpen // the session has the turn, until it is asked back
	Busy    // an open turn, and a message of it is under way
	// at the dispatcher: it has asked the turn back and waits for Over. At the first
	// worker: it has said Over, and the last message still runs.
	Ending
	// the client's connection has ended; One or Open that still comes is answered by Over
	Left
	states
)

var stateNames = [...]string{"idle", "asked", "recalled", "one", "open", "busy", "ending", "left"}

// String returns the state's name.
func (s State) String() string { return stateNames[s] }

// Event changes the state of a turn: a message of the protocol that the process sends or
// receives, or something that happens in it.
type Event uint8

// Events.
const (
	Ask  = Event(wire.TurnAsk)
	One  = Event(wire.TurnOne)
	Open = Event(wire.TurnOpen)
	Back = Event(wire.TurnBack)
	Over = Event(wire.TurnOver)
)

// Events that are not messages.
const (
	// the first worker has passed a message on to the others and runs it
	Pass = Over + 1 + iota
	Done // that message is done; this is not the message Done of package wire
	Lose // the client's connection with the first worker has ended
	events
)

var eventNames = [...]string{"Ask", "One", "Open", "Back", "Over", "pass", "done", "lose"}

// String returns the event's name, which for a message is that of package wire.
func (e Event) String() string {
	if int(e) < len(eventNames) {
		return eventNames[e]
	}
	return fmt.Sprintf("Turn %d", uint8(e))
}

// Role is the part that a process has in a session.
type Role uint8

// Roles.
const (
	Dispatcher Role = iota
	First           // worker 0 of the session
	Other           // the session's other workers
	roles
)

// change is a transition. If says is set, the first worker now tells the dispatcher and
// the other workers that the turn is over.
type change struct {
	to     State
	says   bool
	exists bool
}

// changes has every transition. Any other event breaks the protocol.
//
//	role        state                  event      next
//	dispatcher  idle                   Ask        asked
//	            asked                  One, Open  one, open
//	            open                   Back       ending
//	            one, open, ending      Over       idle
//	first       idle                   Ask        asked
//	worker      asked                  One, Open  one, open
//	            asked                  Back       recalled         (see below)
//	            recalled               Open       one
//	            one                    pass       ending, says Over
//	            open                   pass       busy
//	            open                   Back       idle, says Over
//	            busy                   done       open
//	            busy                   Back       ending, says Over
//	            ending                 done       idle
//	            idle, asked, recalled  lose       left
//	            one, open, busy        lose       left, says Over
//	            ending                 lose       left
//	            left                   One, Open  left, says Over
//	            left                   Back       left
//	other       idle                   One, Open  one, open
//	workers     one, open              Over       idle
//
// A worker handles Back as it reads it, while Open waits in the session's backlog
// (Worker.sort in scheduler.go of package worker). So Back may be handled first.
var changes = [roles][states][events]change{
	Dispatcher: {
		Idle:    {Ask: to(Asked)},
		Asked:   {One: to(HasOne), Open: to(HasOpen)},
		HasOne:  {Over: to(Idle)},
		HasOpen: {Back: to(Ending), Over: to(Idle)},
		Ending:  {Over: to(Idle)},
	},
	First: {
		Idle:     {Ask: to(Asked), Lose: to(Left)},
		Asked:    {One: to(HasOne), Open: to(HasOpen), Back: to(Recalled), Lose: to(Left)},
		Recalled: {Open: to(HasOne), Lose: to(Left)},
		HasOne:   {Pass: over(Ending), Lose: over(Left)},
		HasOpen:  {Pass: to(Busy), Back: over(Idle), Lose: over(Left)},
		Busy:     {Done: to(HasOpen), Back: over(Ending), Lose: over(Left)},
		Ending:   {Done: to(Idle), Lose: to(Left)},
		Left:     {One: over(Left), Open: over(Left), Back: to(Left)},
	},
	Other: {
		Idle:    {One: to(HasOne), Open: to(HasOpen)},
		HasOne:  {Over: to(Idle)},
		HasOpen: {Over: to(Idle)},
	},
}

func to(s State) change   { return change{to: s, exists: true} }
func over(s State) change { return change{to: s, says: true, exists: true} }

// Turn is a session's turn at one process. Its zero value is that of a dispatcher.
type Turn struct {
	Role  Role
	State State
}

// Step changes the state by e. It reports whether the first worker must now tell the
// dispatcher and the other workers that the turn is over. The error, for an event that is
// not in the table, leaves the state as it is.
func (t *Turn) Step(e Event) (says bool, err error) {
	if e >= events || !changes[t.Role][t.State][e].exists {
		return false, fmt.Errorf("turn: %v while the session's turn is %v", e, t.State)
	}
	c := changes[t.Role][t.State][e]
	t.State = c.to
	return c.says, nil
}

// Held reports whether the session has the turn at this worker: of the work that needs
// other workers the worker runs this session's alone.
func (t *Turn) Held() bool { return t.State >= HasOne && t.State <= Ending }

// MayRun reports whether the session's next message may be run at this worker. At the
// first worker it may not while one is under way, and not after the last of a turn.
func (t *Turn) MayRun() bool { return t.State == HasOne || t.State == HasOpen }
