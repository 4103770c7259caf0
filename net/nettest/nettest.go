// Package nettest plays several hosts on one machine, for tests of what crosses between
// them: network namespaces, each with mounts, a /dev/shm and a host name of its own,
// joined by virtual Ethernet (Pair) or by a process that damages packets (Meddled). A
// Forwarder damages single connections, and needs no privileges.
package nettest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ringside-go/ringside/shm/testneeds"
)

// ErrNotAllowed is returned to processes that may not make namespaces: those without
// CAP_SYS_ADMIN and CAP_NET_ADMIN, which root has.
var ErrNotAllowed = errors.New("nettest: namespaces need CAP_SYS_ADMIN and CAP_NET_ADMIN")

// Host is one of two that are joined by a link. It exists as long as a process in it, and
// that one as long as its standard input is open: nothing is left behind, however the
// process that made it ends.
type Host struct {
	Name string // its host name
	Addr string // its IPv4 address on the link

	pid   int
	stdin io.Closer
	wait  func() error
}

// Link is what the link is called on both hosts.
const Link = "wire0"

// Pair makes two hosts, with the addresses 10.77.0.1 and 10.77.0.2 on a link of their
// own. The caller closes both. Errors: ErrNotAllowed; otherwise a program (unshare,
// nsenter, mount, ip) is missing or failed.
func Pair(ctx context.Context) (hosts [2]*Host, err error) {
	return pair(ctx, func() ([]ipCommand, error) {
		// Both ends are made where they belong: the link is never among this machine's
		// own.
		return []ipCommand{{hosts[0], fmt.Sprintf("link add %s type veth peer name %s netns %d", Link, Link, hosts[1].pid)}}, nil
	}, &hosts)
}

// ipCommand is a command of the program ip, on a host.
type ipCommand struct {
	host *Host
	args string
}

// pair makes two hosts, whose devices for the link join makes or returns the commands
// for.
func pair(ctx context.Context, join func() ([]ipCommand, error), hosts *[2]*Host) (_ [2]*Host, err error) {
	defer func() {
		if err != nil {
			for _, h := range hosts {
				if h != nil {
					h.Close()
				}
			}
		}
	}()
	if !allowed() {
		return *hosts, ErrNotAllowed
	}
	for i := range hosts {
		if hosts[i], err = start(ctx, i); err != nil {
			return *hosts, err
		}
	}
	commands, err := join()
	if err != nil {
		return *hosts, err
	}
	for _, h := range hosts {
		commands = append(commands, ipCommand{h, fmt.Sprintf("addr add %s/24 dev %s", h.Addr, Link)})
	}
	for _, h := range hosts {
		commands = append(commands, ipCommand{h, "link set " + Link + " up"})
	}
	for _, c := range commands {
		if out, err := c.host.Command(ctx, "ip", strings.Fields(c.args)...).CombinedOutput(); err != nil {
			return *hosts, fmt.Errorf("nettest: ip %s: %w: %s", c.args, err, out)
		}
	}
	return *hosts, nil
}

func start(ctx context.Context, i int) (*Host, error) {
	h := &Host{Name: fmt.Sprintf("host%d", i+1), Addr: fmt.Sprintf("10.77.0.%d", i+1)}
	cmd := exec.CommandContext(ctx, "unshare", "--net", "--mount", "--uts", "--ipc", "sh", "-ec",
		"mount -t tmpfs -o size=1g tmpfs /dev/shm; hostname "+h.Name+"; ip link set lo up; echo up; exec cat")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("nettest: %w", err)
	}
	// unshare becomes the shell, and that cat
	h.pid, h.stdin, h.wait = cmd.Process.Pid, stdin, cmd.Wait
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "up\n" {
		h.Close()
		return nil, fmt.Errorf("nettest: a namespace did not start: %w: %s", err, stderr.String())
	}
	return h, nil
}

// allowed reads the effective capabilities.
func allowed() bool {
	var sets [2]unix.CapUserData
	err := unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &sets[0])
	const need = 1<<unix.CAP_NET_ADMIN | 1<<unix.CAP_SYS_ADMIN
	return err == nil && sets[0].Effective&need == need
}

// Command is exec.CommandContext for a program that runs on h, in the working directory
// of this process. Sockets in the file system would lead from one host to the other:
// those in /dev/shm do not.
func (h *Host) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	enter := []string{"--target", strconv.Itoa(h.pid), "--net", "--mount", "--uts", "--ipc"}
	if dir, err := os.Getwd(); err == nil {
		enter = append(enter, "--wdns="+dir)
	}
	enter = append(enter, "--", name)
	return exec.CommandContext(ctx, "nsenter", append(enter, args...)...)
}

// Apart is exec.CommandContext for a program that has a /dev/shm of its own and this
// host's network: processes whose sockets lie in /dev/shm reach each other by TCP alone.
// Errors: ErrNotAllowed.
func Apart(ctx context.Context, name string, args ...string) (*exec.Cmd, error) {
	if !allowed() {
		return nil, ErrNotAllowed
	}
	enter := []string{"--mount", "sh", "-ec", `mount -t tmpfs tmpfs /dev/shm; exec "$0" "$@"`, name}
	return exec.CommandContext(ctx, "unshare", append(enter, args...)...), nil
}

// Sent is how many bytes have left h by the link, headers included.
func (h *Host) Sent() (uint64, error) {
	path := fmt.Sprintf("/proc/%d/net/dev", h.pid)
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		name, counters, _ := strings.Cut(strings.TrimSpace(line), ":")
		// Eight counters of what was received, then the bytes sent.
		if fields := strings.Fields(counters); name == Link && len(fields) > 8 {
			return strconv.ParseUint(fields[8], 10, 64)
		}
	}
	return 0, fmt.Errorf("nettest: %s: no counters of %s", path, Link)
}

// Unplug takes h off the link: packets on the way are lost, and no host is told.
func (h *Host) Unplug(ctx context.Context) error {
	if out, err := h.Command(ctx, "ip", "link", "set", Link, "down").CombinedOutput(); err != nil {
		return fmt.Errorf("nettest: unplug: %w: %s", err, out)
	}
	return nil
}

// Close ends the host. Processes that still run there go on without a link.
func (h *Host) Close() {
	_ = h.stdin.Close()
	_ = h.wait()
}

// Need fails t for an error. Where namespaces are not allowed see [testneeds.Root].
// getenv is os.Getenv.
func Need(t testing.TB, getenv func(string) string, err error) {
	t.Helper()
	if errors.Is(err, ErrNotAllowed) {
		testneeds.Root.Skipf(t, getenv, "two hosts can't be played here: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// ForTest is Pair for a test, which ends the hosts. Errors are treated as Need says.
func ForTest(t testing.TB, getenv func(string) string) [2]*Host {
	t.Helper()
	hosts, err := Pair(t.Context())
	forTest(t, getenv, hosts, err)
	return hosts
}

func forTest(t testing.TB, getenv func(string) string, hosts [2]*Host, err error) {
	t.Helper()
	Need(t, getenv, err)
	t.Cleanup(func() {
		for _, h := range hosts {
			h.Close()
		}
	})
}
