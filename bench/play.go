package bench

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/net/nettest"
)

// A play is a measurement by processes of their own: this program, started once for each
// role. Parent and child speak over the child's standard streams:
//
//	stdin    one line of JSON, the role; then a line "go" when all roles are ready
//	stdout   one byte 'R' when it is ready; then the result, float32 little endian
//	3, 4, …  the role's Files
//
// A role that serves others ends by itself when they are gone, or is killed when the last
// one that measures is done.

// role is what one process does.
type role struct {
	Part    string `json:"part"`            // in parts
	Addr    string `json:"addr,omitempty"`  // of a listener
	Kind    string `json:"kind,omitempty"`  // variant of the part
	Count   int    `json:"count,omitempty"` // of messages or round trips
	Batch   int    `json:"batch,omitempty"` // messages shown at a time
	Size    int    `json:"size,omitempty"`  // bytes, when it varies
	PauseUS int    `json:"pause_us,omitempty"`
	WorkUS  int    `json:"work_us,omitempty"`
	Clients int    `json:"clients,omitempty"`
	Workers int    `json:"workers,omitempty"`
	Core    int    `json:"core"` // for the thread that measures; -1: any

	Hello ipc.Role `json:"hello,omitempty"` // with which it dials

	Rank  int      `json:"rank,omitempty"`
	Ranks int      `json:"ranks,omitempty"`
	Cases []string `json:"cases,omitempty"`

	Persistent bool `json:"persistent,omitempty"` // the cases are calls of that kind

	Host     *nettest.Host `json:"-"` // where it runs; nil: here
	Files    []*os.File    `json:"-"`
	Measures bool          `json:"-"`
	// The whole process, with everything it starts, on the first core.
	OneCore bool `json:"-"`
}

// as is the role for another part, which measures if it asks or receives.
func (r role) as(part string) role {
	r.Part, r.Measures = part, part == "ping" || part == "idle" || strings.HasSuffix(part, "-sink")
	return r
}

// actor is the child's view of its role.
type actor struct {
	role
	in   *bufio.Reader
	out  *bufio.Writer
	said bool // that it is ready
}

// parts are what a child can do.
func parts() map[string]func(a *actor) {
	return map[string]func(a *actor){
		"ping": ping, "pong": pong, "hop-hub": hopHub,
		"ring-source": ringSource, "ring-sink": ringSink,
		"conn-source": connSource, "conn-sink": connSink,
		"block-source": blockSource, "block-sink": blockSink,
		"idle":        idle,
		"collective":  collectiveRank,
		"fair-client": fairClient, "fair-flood": fairFlood,
		"gather-update": gatherUpdate,
	}
}

// Peer plays the part of that name: `ringside bench-peer NAME` calls it. The rest of the
// role comes on standard input. It returns when the part is over.
func Peer(name string) error {
	part := parts()[name]
	if part == nil {
		return fmt.Errorf("%w peer %q; expected a part of a play", ErrUnknown, name)
	}
	return try(func() {
		a := &actor{in: bufio.NewReader(os.Stdin), out: bufio.NewWriter(os.Stdout)}
		within("bench: the role", func() { check(json.Unmarshal(must(a.in.ReadBytes('\n')), &a.role)) })
		if cores := local.Cores(); cores >= 2 && a.Core >= 0 && a.Core < cores {
			must(local.Bind(a.Core))
		}
		within("bench: "+name, func() { part(a) })
		check(a.out.Flush())
	})
}

// ready says that others may count on this one.
func (a *actor) ready() {
	if !a.said {
		check(a.out.WriteByte('R'))
		check(a.out.Flush())
	}
	a.said = true
}

// waitGo waits until all roles are ready.
func (a *actor) waitGo() { must(a.in.ReadString('\n')) }

// start is both.
func (a *actor) start() {
	a.ready()
	a.waitGo()
}

// measured hands over figures.
func (a *actor) measured(x ...float32) { check(binary.Write(a.out, binary.LittleEndian, x)) }

// file is the i-th of the role's files.
func (a *actor) file(i int) *os.File { return os.NewFile(uintptr(3+i), fmt.Sprintf("file %d", i)) }

// child is a process with a role.
type child struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out io.Reader
}

// duo plays a role on the second core, and one that measures on the first. A Core of -1
// leaves both where they are.
func duo(r *run, other, measures role) []float64 {
	other.Core = cmp.Or(other.Core, 1)
	return play(r.ctx, r.Options, other, measures)
}

// socket returns an address that nothing listens at yet.
func (r *run) socket() string { return filepath.Join(r.tempDir(), "conn") }

// play starts the roles one after the other, each when the one before it is ready, and
// returns the figures of those that measure, one after the other.
func play(ctx context.Context, o *Options, roles ...role) (all []float64) {
	if o.Self == nil {
		check(errors.New("bench: Options.Self is not set: the roles need a program to start"))
	}
	children := make([]*child, len(roles))
	for i := range roles {
		within("bench: starting "+roles[i].Part, func() {
			children[i] = startRole(o, &roles[i])
		})
		cmd := children[i].cmd
		defer cmd.Wait()
		defer cmd.Process.Kill()
		defer context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })()
		var r [1]byte
		if _, err := io.ReadFull(children[i].out, r[:]); err != nil || r[0] != 'R' {
			check(fmt.Errorf("bench: %s did not get ready: %w", roles[i].Part, err))
		}
	}
	for i, c := range children {
		within("bench: starting "+roles[i].Part, func() { must(io.WriteString(c.in, "go\n")) })
	}
	for i, c := range children {
		if !roles[i].Measures {
			continue
		}
		within("bench: "+roles[i].Part, func() {
			x, err := floats(c.out)
			check(errors.Join(err, c.cmd.Wait()))
			if len(x) == 0 {
				check(errors.New("it measured nothing"))
			}
			all = append(all, x...)
		})
	}
	return all
}

// startRole starts a process and tells it its role.
func startRole(o *Options, r *role) *child {
	cmd := o.Self("bench-peer", r.Part)
	if r.Host != nil {
		there := r.Host.Command(context.Background(), cmd.Path, cmd.Args[1:]...)
		// Elsewhere sockets would lead from host to host.
		there.Env = append(cmd.Environ(), "XDG_RUNTIME_DIR=/dev/shm")
		there.Stderr = cmd.Stderr
		cmd = there
	}
	cmd.ExtraFiles = r.Files
	c := &child{cmd, must(cmd.StdinPipe()), must(cmd.StdoutPipe())}
	if r.OneCore { // a process inherits the cores of the thread that starts it
		unbind := must(local.Bind(0))
		defer unbind()
	}
	check(cmd.Start())
	if err := json.NewEncoder(c.in).Encode(r); err != nil {
		_ = cmd.Process.Kill()
		check(errors.Join(err, cmd.Wait()))
	}
	return c
}
