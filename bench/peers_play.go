package bench

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"

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

// actor is the child's view of its role.
type actor struct {
	role
	in  *bufio.Reader
	out *bufio.Writer
}

// parts are what a child can do.
func parts() map[string]func(a *actor) error {
	return map[string]func(a *actor) error{
		"ring-ping": ringPing, "ring-pong": ringPong,
		"conn-ping": connPing, "conn-pong": connPong,
		"bytes-ping": bytesPing, "bytes-pong": bytesPong,
		"hop-client": hopClient, "hop-hub": hopHub, "hop-worker": hopWorker,
		"ring-source": ringSource, "ring-sink": ringSink,
		"conn-source": connSource, "conn-sink": connSink,
		"block-source": blockSource, "block-sink": blockSink,
		"idle":        idle,
		"collective":  collectiveRank,
		"fair-client": fairClient, "fair-flood": fairFlood,
		"gather-update": gatherUpdate,
	}
}

// act plays the role that comes on standard input.
func act(part func(a *actor) error) error {
	a := &actor{in: bufio.NewReader(os.Stdin), out: bufio.NewWriter(os.Stdout)}
	line, err := a.in.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("bench: reading the role: %w", err)
	}
	if err := json.Unmarshal(line, &a.role); err != nil {
		return fmt.Errorf("bench: role: %w", err)
	}
	if a.Core >= 0 {
		if err := bind(a.Core); err != nil {
			return err
		}
	}
	if err := part(a); err != nil {
		return fmt.Errorf("bench: %s: %w", a.Part, err)
	}
	return a.out.Flush()
}

// ready says that others may count on this one.
func (a *actor) ready() error {
	if err := a.out.WriteByte('R'); err != nil {
		return err
	}
	return a.out.Flush()
}

// waitGo waits until all roles are ready.
func (a *actor) waitGo() error {
	_, err := a.in.ReadString('\n')
	return err
}

// start is both.
func (a *actor) start() error {
	if err := a.ready(); err != nil {
		return err
	}
	return a.waitGo()
}

// measured hands over figures.
func (a *actor) measured(x ...float32) error {
	var b [4]byte
	for _, v := range x {
		binary.LittleEndian.PutUint32(b[:], math.Float32bits(v))
		if _, err := a.out.Write(b[:]); err != nil {
			return err
		}
	}
	return nil
}

// file is the i-th of the role's files.
func (a *actor) file(i int) *os.File { return os.NewFile(uintptr(3+i), fmt.Sprintf("file %d", i)) }

// child is a process with a role.
type child struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out io.Reader
}

// play starts the roles one after the other, each when the one before it is ready, and
// returns the figures of those that measure, one after the other.
func play(ctx context.Context, o *Options, roles ...role) ([]float64, error) {
	if o.Self == nil {
		return nil, errors.New("bench: Options.Self is not set: the roles need a program to start")
	}
	children := make([]*child, 0, len(roles))
	defer func() {
		for _, c := range children {
			_ = c.cmd.Process.Kill()
			_ = c.cmd.Wait()
		}
	}()
	for i := range roles {
		c, err := startRole(o, &roles[i])
		if err != nil {
			return nil, err
		}
		children = append(children, c)
		kill := context.AfterFunc(ctx, func() { _ = c.cmd.Process.Kill() })
		defer kill()
		var r [1]byte
		if _, err := io.ReadFull(c.out, r[:]); err != nil || r[0] != 'R' {
			return nil, fmt.Errorf("bench: %s did not get ready: %w", roles[i].Part, errors.Join(err, ctx.Err()))
		}
	}
	for i, c := range children {
		if _, err := io.WriteString(c.in, "go\n"); err != nil {
			return nil, fmt.Errorf("bench: starting %s: %w", roles[i].Part, err)
		}
	}
	var all []float64
	for i, c := range children {
		if !roles[i].Measures {
			continue
		}
		x, err := floats(c.out)
		if err == nil {
			err = c.cmd.Wait()
		}
		if err != nil {
			return nil, fmt.Errorf("bench: %s: %w", roles[i].Part, errors.Join(err, ctx.Err()))
		}
		if len(x) == 0 {
			return nil, fmt.Errorf("bench: %s measured nothing", roles[i].Part)
		}
		all = append(all, x...)
	}
	return all, nil
}

func startRole(o *Options, r *role) (*child, error) {
	cmd := o.Self("bench-peer", r.Part)
	if r.Host != nil {
		there := r.Host.Command(context.Background(), cmd.Path, cmd.Args[1:]...)
		// Elsewhere sockets would lead from host to host.
		there.Env = append(cmd.Environ(), "XDG_RUNTIME_DIR=/dev/shm")
		there.Stderr = cmd.Stderr
		cmd = there
	}
	cmd.ExtraFiles = r.Files
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if r.OneCore {
		err = onFirstCore(cmd.Start)
	} else {
		err = cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("bench: starting %s: %w", r.Part, err)
	}
	c := &child{cmd, in, out}
	if err := json.NewEncoder(in).Encode(r); err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return nil, fmt.Errorf("bench: %s: %w", r.Part, err)
	}
	return c, nil
}

// bind has the calling goroutine run on the n-th core from then on, if there are so many,
// and at least two.
func bind(n int) error {
	if cores := local.Cores(); cores < 2 || n >= cores {
		return nil
	}
	_, err := local.Bind(n)
	return err
}

// onFirstCore calls start on a thread that may use one core only: what it starts inherits
// that.
func onFirstCore(start func() error) error {
	unbind, err := local.Bind(0)
	if err != nil {
		return err
	}
	defer unbind()
	return start()
}

// floats reads figures to the end.
func floats(r io.Reader) ([]float64, error) {
	b, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	if len(b)%4 != 0 {
		return nil, fmt.Errorf("%d bytes of figures, expected a multiple of 4", len(b))
	}
	out := make([]float64, len(b)/4)
	for i := range out {
		out[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:])))
	}
	return out, nil
}
