package rendezvous

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/ringside-go/ringside/ipc"
)

// Lookup finds an environment variable; os.LookupEnv is one.
type Lookup func(name string) (value string, ok bool)

// MaxSize is the largest number of ranks.
const MaxSize = 1 << 16

// DefaultPort is rank 0's where no launcher chooses one and no job id gives one; it is
// torchrun's.
const DefaultPort = 29500

// World is a process's place among the ranks of its program.
type World struct {
	Rank int // 0 to Size-1
	Size int

	// LocalRank and LocalSize count the ranks that the launcher started on this host: -1
	// and 0 where it doesn't say. They choose devices and cores; which ranks share memory
	// is found out, not believed.
	LocalRank, LocalSize int

	// MasterAddr and MasterPort are where rank 0's store listens: empty and 0 where it is
	// at Socket.
	MasterAddr string
	MasterPort int

	// Socket is the absolute path of the store's Unix socket, for ranks on one host;
	// empty where it isn't known: Open then derives it from Job.
	Socket string

	// Job is a name that all ranks of this run have and no other run on their hosts.
	// Empty if the launcher gives none.
	Job string

	// Secret is known only to the ranks; empty for none.
	Secret []byte

	// TLS is the one of ipc.Options, for all conns between hosts; nil for none.
	TLS *ipc.TLS

	// Epoch counts the attempts of a job that is restarted: ranks of different epochs
	// don't meet.
	Epoch uint64

	// RuntimeDir is the runtime folder of this user's, as XDG_RUNTIME_DIR names it; empty
	// for the default in /tmp.
	RuntimeDir string

	// Verdict is the file in which the launcher looks for a Verdict when this process
	// ends badly; empty if it does not.
	Verdict string

	// Flight is the folder in which ranks write down their last calls when one fails:
	// "off" for none, empty where nothing is said.
	Flight string

	// Events is a folder in which ranks write their events for the launcher; empty if it
	// asks for none.
	Events string

	rankName string // the variable that Rank is from

	// Source is the origin of this, for logs: "torchrun's variables".
	Source string
}

// Overrides are explicit options; they win over every variable. nil and zero values leave
// it to the environment.
type Overrides struct {
	Size int // above 0: Rank and Size are these, whatever the launcher says
	Rank int

	MasterAddr string
	MasterPort int
	Socket     string // absolute path
	Secret     []byte
	TLS        *ipc.TLS
	Epoch      uint64
}

// Addr is where rank 0's store listens, as in "node7:29500" or
// "unix:/run/user/1000/ringside/job-17.0".
func (w World) Addr() string {
	if w.MasterAddr == "" {
		return "unix:" + w.Socket
	}
	return net.JoinHostPort(w.MasterAddr, strconv.Itoa(w.MasterPort))
}

// String is as in "rank 1 of 4 (torchrun's variables), rank 0 at 10.0.0.1:29500".
func (w World) String() string {
	s := fmt.Sprintf("rank %d of %d (%s)", w.Rank, w.Size, w.Source)
	if w.MasterAddr != "" || w.Socket != "" {
		s += ", rank 0 at " + w.Addr()
	}
	return s
}

// OneHost reports whether all ranks are on this host, as far as the launcher says.
func (w World) OneHost() bool { return w.Size == 1 || w.LocalSize == w.Size }

// Resolve finds out which rank this process is, of how many, and where rank 0 is. See the
// package's documentation for the order. The error is ErrEnvironment.
func Resolve(lookup Lookup, o *Overrides) (World, error) {
	over := *cmp.Or(o, &Overrides{})
	e := &environment{lookup: lookup}
	w := World{LocalRank: -1, Source: "no launcher"}
	for _, l := range launchers {
		if l.present(e, over) {
			w = World{LocalRank: -1, Source: l.name}
			l.read(e, over, &w)
			break
		}
	}
	if w.Size == 0 && e.err == nil {
		// A size without anything that says which rank this is: a launcher that was only
		// half set up.
		if n := e.integer("WORLD_SIZE", 1, MaxSize, 1); n > 1 {
			e.fail("WORLD_SIZE=%d is set, and none of the variables that say which rank this is: expected RANK, "+
				"or JOB_COMPLETION_INDEX of a Kubernetes indexed job", n)
		}
		w.Size, w.LocalRank, w.LocalSize = 1, 0, 1
	}
	e.common(over, &w)
	if e.err != nil {
		return World{}, e.err
	}
	return w, nil
}

// common reads what is no launcher's: our own variables, and options that win over
// everything.
func (e *environment) common(over Overrides, w *World) {
	w.RuntimeDir, w.Verdict, w.Flight = e.text("XDG_RUNTIME_DIR"), e.text("RINGSIDE_VERDICT"), e.text("RINGSIDE_FLIGHT")
	w.Events = e.text("RINGSIDE_EVENTS")
	if at := e.text("RINGSIDE_RENDEZVOUS"); at != "" {
		e.rendezvous(at, w)
	}
	if _, ok := e.lookup("RINGSIDE_EPOCH"); ok {
		w.Epoch = uint64(e.integer("RINGSIDE_EPOCH", 0, 1<<53, 0))
	}
	if w.Secret = over.Secret; len(w.Secret) == 0 {
		w.Secret = e.secret()
	} else if _, err := ipc.TrimSecret(w.Secret); err != nil {
		e.fail("option Secret: %v", err)
	}
	if w.TLS = over.TLS; w.TLS == nil {
		w.TLS = e.tls()
	}
	if w.TLS != nil && w.TLS.Certificate == nil && len(w.Secret) == 0 {
		e.fail("TLS without RINGSIDE_SECRET: expected a secret to derive the key from, or RINGSIDE_TLS_CERT, RINGSIDE_TLS_KEY and RINGSIDE_TLS_CA")
	}
	if over.Epoch != 0 {
		w.Epoch = over.Epoch
	}
	if over.Socket != "" {
		e.rendezvous("unix:"+over.Socket, w)
	}
	if over.MasterAddr != "" {
		w.MasterAddr, w.Socket = over.MasterAddr, ""
		w.MasterPort = cmp.Or(w.MasterPort, DefaultPort)
	}
	if over.MasterPort != 0 {
		if over.MasterPort < 0 || over.MasterPort > 65535 {
			e.fail("option MasterPort %d, expected 1 to 65535", over.MasterPort)
		}
		if w.MasterAddr == "" {
			e.fail("option MasterPort %d without an address: expected MasterAddr too, or MASTER_ADDR", over.MasterPort)
		}
		w.MasterPort = over.MasterPort
	}
	w.MasterAddr = e.host(w.MasterAddr)
	if w.Size > 1 && w.MasterAddr == "" && w.Socket == "" && !w.OneHost() {
		e.fail("MASTER_ADDR is not set, and %s do not say that all %d ranks are on this host: expected MASTER_ADDR to be "+
			"rank 0's host, on every rank (mpirun -x MASTER_ADDR=host)", w.Source, w.Size)
	}
}

// host checks the address of rank 0's host, and takes the brackets off that some put
// around one of IPv6.
func (e *environment) host(addr string) string {
	inner := addr
	if in, ok := strings.CutPrefix(addr, "["); ok {
		inner = strings.TrimSuffix(in, "]")
	}
	_, err := netip.ParseAddr(inner)
	if err != nil && (inner != addr || strings.ContainsAny(inner, ":/ \t\r\n")) {
		e.fail("MASTER_ADDR=%q, expected the name or address of rank 0's host, without a port", addr)
	}
	return inner
}

// rendezvous reads an address as RINGSIDE_RENDEZVOUS has it.
func (e *environment) rendezvous(at string, w *World) {
	kind, addr, _ := strings.Cut(at, ":")
	switch kind {
	case "unix":
		if !strings.HasPrefix(addr, "/") || len(addr) > MaxSocketPath {
			e.fail("rendezvous %q, expected an absolute path of at most %d bytes after unix:", at, MaxSocketPath)
		}
		w.Socket, w.MasterAddr, w.MasterPort = addr, "", 0
	case "tcp":
		host, port, err := net.SplitHostPort(addr)
		n, perr := strconv.Atoi(port)
		if err != nil || host == "" || perr != nil || n < 1 || n > 65535 {
			e.fail("rendezvous %q, expected tcp:host:port", at)
		}
		w.Socket, w.MasterAddr, w.MasterPort = "", host, n
	default:
		e.fail("rendezvous %q, expected unix:/path or tcp:host:port", at)
	}
}

// secret returns RINGSIDE_SECRET, or the secret in the file that RINGSIDE_SECRET_FILE
// names.
func (e *environment) secret() []byte {
	var b []byte
	var err error
	if s := e.text("RINGSIDE_SECRET"); s != "" {
		b, err = ipc.TrimSecret([]byte(s))
		if err != nil {
			e.fail("RINGSIDE_SECRET: %v", err)
		}
	} else if name := e.text("RINGSIDE_SECRET_FILE"); name != "" {
		if b, err = ipc.ReadSecret(name); err != nil {
			e.fail("RINGSIDE_SECRET_FILE: %v", err)
		}
	}
	return b
}

// tls returns the TLS that RINGSIDE_TLS, RINGSIDE_TLS_CERT, RINGSIDE_TLS_KEY and
// RINGSIDE_TLS_CA describe.
func (e *environment) tls() *ipc.TLS {
	f := ipc.TLSFiles{Cert: e.text("RINGSIDE_TLS_CERT"), Key: e.text("RINGSIDE_TLS_KEY"), CA: e.text("RINGSIDE_TLS_CA")}
	if on := e.text("RINGSIDE_TLS"); on != "" {
		var err error
		if f.On, err = strconv.ParseBool(on); err != nil {
			e.fail("RINGSIDE_TLS=%q, expected 1 or 0", on)
		}
	}
	t, err := f.Read()
	if err != nil {
		e.fail("RINGSIDE_TLS_CERT, RINGSIDE_TLS_KEY, RINGSIDE_TLS_CA: %v", err)
	}
	return t
}
