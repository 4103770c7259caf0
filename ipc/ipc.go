package ipc

import (
	"context"
	"log/slog"
	"os"
	"time"
)

// Limits and defaults that both ends of every transport agree on.
const (
	// DefaultRingBytes is the size of the queue in each direction. 1 MiB holds
	// thousands of programs in flight and still lies in a level 2 cache.
	DefaultRingBytes = 1 << 20

	// MinRingBytes is the smallest queue a transport makes.
	MinRingBytes = 1 << 12

	// MaxRingBytes is the largest queue a transport makes or accepts from a peer.
	MaxRingBytes = 1 << 28

	// MaxMessage is the largest body with DefaultRingBytes. A message may take at
	// most a quarter of the queue (see [MessageLimit]), so that a message of any
	// allowed size fits however the queue's end falls, beside one that is being read.
	MaxMessage = DefaultRingBytes / 4

	// MaxFiles is the largest number of descriptors one message carries. The kernel's
	// own limit for one sendmsg is 253.
	MaxFiles = 16

	// MaxFilesAhead is how many messages with descriptors a conn has on its way: further
	// ones of any kind wait as if the queue were full. Descriptors that wait at the
	// receiver count against what it may have open.
	MaxFilesAhead = 64

	// MaxKind is the largest message kind; the bits above are the transport's.
	MaxKind = 1<<24 - 1

	// DefaultBacklog bounds the conns that wait to be accepted, each of which holds its
	// memory.
	DefaultBacklog = 128

	// DefaultHandshakeTimeout bounds the time from connect to the first message.
	DefaultHandshakeTimeout = 5 * time.Second
)

// MessageLimit is the largest body that a queue of ringBytes takes: a quarter of it.
func MessageLimit(ringBytes int) int { return ringBytes / 4 }

// Message is one received message.
type Message struct {
	// Kind says what Body is; the constants are in package ipc/encoding. At most MaxKind.
	Kind uint32

	// Body lies in the queue it came through. It is valid until Release, and it is
	// data from another process: read each length and index once, check, then use.
	// A peer that breaks the protocol may change it while it is being read.
	Body []byte

	// Files are the descriptors that came with the message; the receiver owns and
	// closes them. nil for most messages.
	Files []*os.File
}

// Conn is an ordered, framed, reliable stream of messages to one peer.
//
// One goroutine may send (Reserve, TryReserve, Commit, Abort) while another receives
// (Recv, TryRecv, Release). Peer, Features, Err, Stats and Close may be called by any
// goroutine at any time. A send synchronizes before the receive that returns it.
type Conn interface {
	// Reserve returns n bytes to fill in for a message of the given kind, waiting while
	// the queue is full, or MaxFilesAhead of its messages have descriptors. The bytes may
	// hold anything: fill all of them. It must be followed by Commit or Abort before the
	// next Reserve.
	//
	// Errors: ErrMessageTooLarge, ErrPeerGone, net.ErrClosed after Close, the
	// context's error (a deadline is also os.ErrDeadlineExceeded).
	Reserve(ctx context.Context, kind uint32, n int) ([]byte, error)

	// TryReserve is Reserve without the wait: ErrFull when there is no room now.
	// After ErrFull the conn's Waiter is woken once there is room.
	TryReserve(kind uint32, n int) ([]byte, error)

	// Commit sends the reserved message. The files' descriptors travel with it; the
	// files stay the caller's, open, and may be closed when Commit has returned.
	// On an error the message is not sent. A nil error says that the message is on
	// its way, not that the peer has read it.
	Commit(files ...*os.File) error

	// Abort forgets the reserved message.
	Abort()

	// TryRecv returns the oldest message, or false when there is none now. Messages
	// sent before the peer closed or died are still delivered; then ErrPeerGone. While a
	// message is held (between TryRecv and Release) it panics: a caller's bug.
	//
	// Errors: ErrPeerGone, ErrCorrupt, net.ErrClosed after Close.
	TryRecv() (Message, bool, error)

	// Recv is TryRecv that waits for a message, on the conn's Waiter.
	Recv(ctx context.Context) (Message, error)

	// Release gives the last received message's bytes back to the sender. It may be
	// called after Close.
	Release()

	// Peer returns the process at the other end.
	Peer() Peer

	// Features returns the conn's abilities beyond messages. They never change.
	Features() Features

	// Err is nil while the conn works, afterwards why it does not: ErrPeerGone,
	// ErrCorrupt or net.ErrClosed, wrapped. Messages may still be waiting then.
	Err() error

	// Close ends the conn. A goroutine blocked in it returns net.ErrClosed; the peer
	// receives what was committed and then ErrPeerGone. A body that is held meanwhile
	// must not be relied on any more: it may read as zeros. Further calls do nothing.
	Close() error

	// Stats returns the counters so far.
	Stats() Stats
}

// Features are the abilities of a conn beyond messages. A transport sets them; nothing
// else tells transports apart.
type Features struct {
	// Files reports whether Commit carries descriptors. Both ends then run on one host
	// and can map the same memory.
	Files bool

	// Bulk moves bytes outside the queue. It is nil where the transport has no such path.
	Bulk Bulk
}

// Waiter is what one goroutine sleeps on for any number of conns and listeners: those
// that were opened with it in Options wake it when a message or a new conn arrives, when
// a peer dies, and when there is room again in a queue that was full.
//
// One goroutine at a time may Wait; any may Wake.
type Waiter interface {
	// Wait calls ready, in the caller's goroutine, until it returns true (then nil is
	// returned) or ctx is done (then the context's error; a deadline is also
	// os.ErrDeadlineExceeded). ready must not block; it may be called very often.
	Wait(ctx context.Context, ready func() bool) error

	// Wake makes a Wait that is under way, or the next one, call ready again.
	Wake()

	// OnPark has Wait call arm, in its own goroutine, each time before it sleeps and
	// before it calls ready for the last time. A source that ready polls, such as a
	// socket, need not wake the waiter until then. forget ends it, except for a call
	// under way. Any goroutine may call either.
	OnPark(arm func()) (forget func())
}

// Listener accepts conns at one address.
type Listener interface {
	// Accept waits for the next conn whose handshake is done.
	// Errors: net.ErrClosed after Close, the context's error.
	Accept(ctx context.Context) (Conn, error)

	// TryAccept is Accept without the wait: false when there is no new conn now.
	// The listener's Waiter is woken when there is one.
	TryAccept() (Conn, bool)

	// Addr is the address that Dial takes, in full: port 0 or an empty name are
	// replaced by what was chosen.
	Addr() string

	// Close stops accepting and frees the address. Conns that were accepted live on;
	// those that wait to be accepted are closed.
	Close() error
}

// Transport makes conns in one way. Safe for concurrent use.
type Transport interface {
	// Name is a short word for messages and flags: "local", "tcp".
	Name() string

	// Reaches reports whether Dial can be tried with addr from here. It looks at the
	// address and this host, and sends nothing.
	Reaches(addr string) bool

	// Dial opens a conn to a listener, handshake included. While the listener lets in
	// others first it waits, up to ctx. nil options are defaults. Errors: ErrNoListener,
	// ErrRefused, ErrVersion, the context's error (with a BusyError if it waited).
	Dial(ctx context.Context, addr string, o *Options) (Conn, error)

	// Listen opens a listener. nil options are defaults. Errors: ErrAddrInUse.
	Listen(addr string, o *Options) (Listener, error)

	// ListenAny opens a listener at an address of the transport's choice, and returns the
	// addresses at which other processes may reach it, the likeliest first. The error is
	// errors.ErrUnsupported if this host lacks the hardware or driver that the transport
	// needs.
	ListenAny(at Place, o *Options) (l Listener, addrs []string, err error)

	// SharesMemory reports whether both ends of a conn are always on one host, as in
	// Features.Files of the conns.
	SharesMemory() bool
}

// Place bounds the choice of ListenAny. A transport uses the field that it knows.
type Place struct {
	// Dir is a directory of this user's for sockets of one host.
	Dir string

	// Bind is the address or the name of an interface of this host, without a port.
	// Empty: every address, or without Options.Secret the loopback.
	Bind string
}

// Role is the purpose of a process.
type Role uint8

const (
	RoleUnknown Role = iota // did not say
	RoleClient              // has programs run
	RoleWorker              // runs them
	RoleControl             // asks for status, stops things
	RoleServer              // a dispatcher
	RoleRank                // a member of a group of ranks
)

// String returns the name, "unknown" for RoleUnknown and for roles of newer versions.
func (r Role) String() string {
	switch r {
	case RoleClient:
		return "client"
	case RoleWorker:
		return "worker"
	case RoleControl:
		return "control"
	case RoleServer:
		return "server"
	case RoleRank:
		return "rank"
	}
	return "unknown"
}

// Ordinary reports whether a peer of this role gets none of the descriptors that a
// process keeps for workers and for control when it has few left.
func (r Role) Ordinary() bool { return r == RoleClient || r == RoleUnknown }

// Peer describes the process at one end of a conn.
type Peer struct {
	Role Role
	Name string // free text, at most encoding.MaxName bytes

	// Note is for the layer above, which may put its own fields here: at most
	// wire.MaxNote bytes. The peer says it, as it says Name.
	Note string

	// Version is the peer's wire version. In Options.Hello 0 means this build's.
	Version uint32

	// PID, UID and GID come from the kernel where it can tell (the local transport),
	// otherwise from the peer; users are -1 if neither tells. Ignored in Options.Hello.
	PID      int
	UID, GID int

	// Start is when the peer's process started, in clock ticks after boot (field 22 of
	// /proc/PID/stat): with PID it names a process for good. 0 if not known.
	Start uint64

	// Addr is the address at which the transport sees the peer, host:port over TCP. Empty
	// on one host.
	Addr string
}

// Options for Dial and Listen. The zero value and nil are the documented defaults;
// transports copy what they are given.
type Options struct {
	// Hello introduces this end. Role, Name, Note and Version are used.
	Hello Peer

	// Waiter is woken for the conns and listeners opened with these options, and is
	// what their Recv, Reserve and Accept wait on. nil: each has its own.
	Waiter Waiter

	// Logger receives handshakes that failed and peers that broke the protocol; nothing
	// per message. nil discards.
	Logger *slog.Logger

	// Refused is called by a listener for each caller whose handshake failed, and
	// replaces the warning in the log. The fields of caller are the caller's claims; they
	// may be empty and are not proved. Several goroutines may call it at a time.
	Refused func(caller Peer, err error)

	// RingBytes is the size of the queue in each direction: a power of two between
	// MinRingBytes and MaxRingBytes. The listener's counts. 0: DefaultRingBytes.
	RingBytes int

	// Backlog is how many conns of a listener may wait to be accepted. Further peers wait
	// in the order in which they came, and are told every second how many are before
	// them. 0: DefaultBacklog.
	Backlog int

	// HandshakeTimeout bounds the handshake: the time until the peer says something. A
	// dialer to which the listener says that others come first waits up to its context,
	// and so does one on the same host while the listener's process computes or waits
	// for a processor.
	// 0: DefaultHandshakeTimeout.
	HandshakeTimeout time.Duration

	// AllowGID lets processes of other users whose primary group this is connect over
	// the local transport; 0: only processes of the same user (and root's group never).
	AllowGID int

	// Secret is shared by both ends of transports that cross hosts; they prove to
	// each other that they know it. The local transport ignores it.
	Secret []byte

	// TLS has transports that cross hosts encrypt. nil: they do not. Both ends have it,
	// or none.
	TLS *TLS
}

// Stats are counters of one conn since it was opened.
type Stats struct {
	SentMessages, SentBytes uint64 // committed; bodies only
	RecvMessages, RecvBytes uint64 // received; bodies only
	SentFiles, RecvFiles    uint64
	Full                    uint64 // times there was no room
	Wakes                   uint64 // system calls made to wake the peer
}
