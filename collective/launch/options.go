package launch

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ringside-go/ringside/collective/rendezvous"
	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/net/tcp"
	"github.com/ringside-go/ringside/shm/plain"
)

// DefaultGrace is how long a rank has to end by itself.
const DefaultGrace = 10 * time.Second

// Localhost is the host whose ranks are started without a remote shell.
const Localhost = "localhost"

// Host is a machine and how many ranks run there.
type Host struct {
	Name  string
	Ranks int
}

// Options say what to start. Program is needed, and Ranks or Hosts.
type Options struct {
	Program []string // name and arguments

	// Ranks is how many to start: on Hosts in their order until all have a place, or
	// here.
	Ranks int

	// Hosts, where they aren't this one. 0 Ranks in Options: as many as they have
	// together.
	Hosts []Host

	// RemoteShell starts a command on a host: it gets the host's name and one argument
	// that a shell there is to run. nil: ssh, without questions.
	RemoteShell []string

	// Dir is the working directory of every rank. Empty: this process's.
	Dir string

	// Environ is what local ranks inherit; Env are variables that all ranks get besides,
	// and win over everything.
	Environ, Env []string

	// MasterAddr and MasterPort say where rank 0 is to listen. Empty and 0: the first
	// host, and a port by chance.
	MasterAddr string
	MasterPort int

	// Events is a folder of this host for the events of local ranks, which
	// collective.ReadEvents reads. Those of another host are in the folder of it that
	// EventsOf names; they come by RemoteShell when all ranks have ended, which is warned
	// of where it fails. Empty: none.
	Events string

	// Restarts is how often all ranks are started again after one failed.
	Restarts int

	// Prefix puts "[rank] " before every line of output.
	Prefix bool

	// Grace is how long ranks have to end after SIGTERM. 0: DefaultGrace.
	Grace time.Duration

	// Stdout and Stderr receive what the ranks write, line by line. nil discards.
	Stdout, Stderr io.Writer

	// Logger receives starts and ends. nil discards.
	Logger *slog.Logger
}

// ParseHosts reads "a:2,b:4,c": hosts and the number of ranks on them, 1 by default. An
// IPv6 address stands in brackets.
func ParseHosts(list string) ([]Host, error) {
	var out []Host
	for item := range strings.SplitSeq(list, ",") {
		name, count := item, ""
		if i := strings.LastIndexByte(item, ':'); i >= 0 && !strings.HasSuffix(item, "]") {
			name, count = item[:i], item[i+1:]
		} else {
			count = "1"
		}
		n, err := strconv.Atoi(count)
		bare := name
		if strings.HasPrefix(name, "[") && strings.HasSuffix(name, "]") {
			bare = name[1 : len(name)-1]
		}
		if err != nil || n < 1 || n > rendezvous.MaxSize || bare == "" || strings.HasPrefix(bare, "-") || strings.ContainsAny(bare, " \t[]") ||
			bare == name && strings.Contains(name, ":") {
			return nil, fmt.Errorf("%w: host %q, expected name or name:ranks", ErrOption, item)
		}
		if slices.ContainsFunc(out, func(h Host) bool { return h.Name == bare }) {
			return nil, fmt.Errorf("%w: host %q is there twice", ErrOption, bare)
		}
		out = append(out, Host{bare, n})
	}
	return out, nil
}

// settled are options with everything chosen.
type settled struct {
	Options
	places []place
	hosts  int
	runID  string
	secret string
	folder *folder // of the rendezvous socket; nil when it is over TCP
}

// place is where a rank is.
type place struct {
	rank, local, locals, host int
	name                      string
}

// settle checks the options and fills in the defaults.
func settle(o Options) (*settled, error) {
	s := &settled{Options: o, runID: rand.Text(), secret: rand.Text() + rand.Text()}
	s.Grace = cmp.Or(s.Grace, DefaultGrace)
	s.Logger = cmp.Or(s.Logger, slog.New(slog.DiscardHandler))
	for _, w := range []*io.Writer{&s.Stdout, &s.Stderr} {
		if *w == nil {
			*w = io.Discard
		}
	}
	if s.RemoteShell == nil {
		s.RemoteShell = []string{"ssh", "-o", "BatchMode=yes"}
	}
	if len(s.Hosts) == 0 {
		s.Hosts = []Host{{Localhost, s.Ranks}}
	}
	room := 0
	for _, h := range s.Hosts {
		room += h.Ranks
	}
	s.Ranks = cmp.Or(s.Ranks, room)
	for _, e := range slices.Concat(s.Env) {
		if name, _, ok := strings.Cut(e, "="); !ok || !isName(name) {
			return nil, fmt.Errorf("%w: variable %q, expected NAME=value", ErrOption, e)
		}
	}
	switch {
	case len(s.Program) == 0 || s.Program[0] == "":
		return nil, fmt.Errorf("%w: no program", ErrOption)
	case s.Ranks < 1 || s.Ranks > rendezvous.MaxSize:
		return nil, fmt.Errorf("%w: %d ranks, expected 1 to %d", ErrOption, s.Ranks, rendezvous.MaxSize)
	case s.Ranks > room:
		return nil, fmt.Errorf("%w: %d ranks, and the hosts have room for %d, one on each unless it is said, as in a:2,b:2", ErrOption, s.Ranks, room)
	case s.Restarts < 0:
		return nil, fmt.Errorf("%w: %d restarts, expected 0 or more", ErrOption, s.Restarts)
	case s.Grace < 0:
		return nil, fmt.Errorf("%w: a grace of %v, expected none or more", ErrOption, s.Grace)
	case s.MasterPort < 0 || s.MasterPort > 65535:
		return nil, fmt.Errorf("%w: port %d, expected 1 to 65535", ErrOption, s.MasterPort)
	case len(s.RemoteShell) == 0:
		return nil, fmt.Errorf("%w: an empty remote shell", ErrOption)
	}
	if s.Dir == "" {
		dir, err := os.Getwd()
		if err != nil {
			return nil, fmt.Errorf("launch: %w", err)
		}
		s.Dir = dir
	}
	s.settlePlaces()
	return s, s.settleMaster()
}

func isName(s string) bool {
	for i, c := range []byte(s) {
		if c != '_' && (c|0x20 < 'a' || c|0x20 > 'z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// settlePlaces fills the hosts in their order.
func (s *settled) settlePlaces() {
	for h, host := range s.Hosts {
		n := min(host.Ranks, s.Ranks-len(s.places))
		for l := range n {
			s.places = append(s.places, place{len(s.places), l, n, h, host.Name})
		}
		if n > 0 {
			s.hosts++
		}
	}
}

// settleMaster chooses where rank 0 listens.
func (s *settled) settleMaster() error {
	here := s.hosts == 1 && s.Hosts[0].Name == Localhost
	own := here && s.MasterAddr == "" && s.MasterPort == 0
	if s.MasterAddr == "" {
		s.MasterAddr = s.Hosts[0].Name
		switch {
		case here:
			s.MasterAddr = "127.0.0.1"
		case s.MasterAddr == Localhost:
			name, err := os.Hostname()
			if err != nil {
				return fmt.Errorf("launch: the others need a name of this host: %w", err)
			}
			s.MasterAddr = name
		}
	}
	if s.MasterPort == 0 {
		var err error
		if s.MasterPort, err = tcp.FreePort(""); err != nil {
			return fmt.Errorf("launch: %w", err)
		}
	}
	if !own {
		return nil
	}
	parent := local.DirIn(lookup(s.Environ, "XDG_RUNTIME_DIR"))
	err := local.PrepareDir(parent)
	if err == nil {
		s.folder, err = makeFolder(parent)
	}
	if err == nil {
		if n := len(s.socket(s.Restarts)); n > rendezvous.MaxSocketPath {
			s.folder.remove()
			s.folder = nil
			err = fmt.Errorf("a socket's path in %s has %d bytes, expected at most %d: choose a shorter XDG_RUNTIME_DIR", plain.Name(parent), n, rendezvous.MaxSocketPath)
		}
	}
	if err != nil {
		return fmt.Errorf("launch: a folder for the rendezvous: %w", err)
	}
	return nil
}

// lookup finds a variable, the last where there are several.
func lookup(environ []string, name string) string {
	for _, e := range slices.Backward(environ) {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			return v
		}
	}
	return ""
}

// socket is where the ranks of an attempt meet.
func (s *settled) socket(epoch int) string {
	return filepath.Join(s.folder.path, "rank0-"+strconv.Itoa(epoch))
}

// verdict returns the file in which a rank of an attempt names the rank because of which
// it fails.
func (s *settled) verdict(rank, epoch int) string {
	return filepath.Join(s.folder.path, "verdict"+strconv.Itoa(rank)+"-"+strconv.Itoa(epoch))
}

// variables are what a rank gets besides what it inherits; in an earlier attempt it has
// an earlier epoch.
func (s *settled) variables(p place, epoch int) []string {
	vars := []string{
		"RANK=" + strconv.Itoa(p.rank),
		"WORLD_SIZE=" + strconv.Itoa(s.Ranks),
		"LOCAL_RANK=" + strconv.Itoa(p.local),
		"LOCAL_WORLD_SIZE=" + strconv.Itoa(p.locals),
		"GROUP_RANK=" + strconv.Itoa(p.host),
		"GROUP_WORLD_SIZE=" + strconv.Itoa(s.hosts),
		"MASTER_ADDR=" + s.MasterAddr,
		"MASTER_PORT=" + strconv.Itoa(s.MasterPort),
		"TORCHELASTIC_RUN_ID=" + s.runID,
		"TORCHELASTIC_RESTART_COUNT=" + strconv.Itoa(epoch),
		"TORCHELASTIC_MAX_RESTARTS=" + strconv.Itoa(s.Restarts),
		"RINGSIDE_SECRET=" + s.secret,
	}
	if s.folder != nil {
		vars = append(vars, "RINGSIDE_RENDEZVOUS=unix:"+s.socket(epoch), "RINGSIDE_VERDICT="+s.verdict(p.rank, epoch))
	}
	if s.Events != "" && p.name == Localhost {
		vars = append(vars, "RINGSIDE_EVENTS="+s.Events)
	} else if s.Events != "" {
		vars = append(vars, "RINGSIDE_EVENTS="+s.farEvents(p.host))
	}
	return append(vars, s.Env...)
}

// inherited leaves out what an outer launcher said that would mislead the ranks.
func inherited(environ []string) []string {
	var out []string
	for _, e := range environ {
		name, _, _ := strings.Cut(e, "=")
		switch name {
		case "RINGSIDE_RENDEZVOUS", "RINGSIDE_VERDICT", "RINGSIDE_EVENTS", "RINGSIDE_EPOCH", "RINGSIDE_SECRET_FILE", "TORCHELASTIC_USE_AGENT_STORE":
		default:
			out = append(out, e)
		}
	}
	return out
}
