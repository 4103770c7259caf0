package limits

import (
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Machine is where the files of the kernel are read. The zero value is this machine;
// tests make others, as one of 192 cores.
type Machine struct {
	Root string // folder that holds proc and sys; empty: the machine's own
	CPUs int    // that this process may run on; 0: those of the machine itself
}

// controller is one kind of bound, with its files in both versions of cgroups.
type controller string

const (
	memory controller = "memory"
	cpu    controller = "cpu"
	tasks  controller = "pids" // processes and threads
)

// group is a control group that this process is in, by itself or through a descendant.
type group struct {
	version int    // 1 or 2
	dir     string // its files
	name    string // as errors call it
}

// text returns the content of a file of the kernel, without the final newline; "" if it
// cannot be read.
func (m Machine) text(file string) string {
	b, _ := os.ReadFile(path.Join("/", m.Root, file))
	return strings.TrimSpace(string(b))
}

// number returns the number in a file of the group; false without one, as for "max".
func (m Machine) number(g group, file string) (int64, bool) {
	n, err := strconv.ParseInt(m.text(path.Join(g.dir, file)), 10, 64)
	return n, err == nil
}

// groups returns the groups with bounds of that kind: the process's own first, then its
// ancestors as far as they are mounted.
func (m Machine) groups(c controller) []group {
	g, ok := m.own(c)
	if !ok {
		return nil
	}
	mounted, top, ok := m.mount(c, g.version)
	if !ok {
		return nil
	}
	// in a container the mount can show a part of the tree only, from mounted on
	rest, below := strings.CutPrefix(g.name, mounted)
	if !below || mounted != "/" && rest != "" && rest[0] != '/' {
		rest = "/"
	}
	var out []group
	for rest = path.Join("/", rest); ; rest = path.Dir(rest) {
		out = append(out, group{g.version, path.Join(top, rest), rest})
		if rest == "/" {
			return out
		}
	}
}

// own finds the group of this process. A controller that a tree of version 1 has is not
// in the tree of version 2.
func (m Machine) own(c controller) (g group, ok bool) {
	text := m.text("proc/self/cgroup")
	for line := range strings.Lines(text) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		names, name, found := strings.Cut(rest, ":")
		switch {
		case !found:
		case slices.Contains(strings.Split(names, ","), string(c)):
			return group{version: 1, name: path.Clean(name)}, true
		case names == "":
			g, ok = group{version: 2, name: path.Clean(name)}, true
		}
	}
	return g, ok
}

// mount finds where a tree of groups is mounted: the group at the top of what is mounted,
// and the folder. A line of mountinfo is
//
//	31 23 0:26 /mounted /folder rw,relatime shared:9 - type source options
func (m Machine) mount(c controller, version int) (mounted, folder string, ok bool) {
	text := m.text("proc/self/mountinfo")
	for line := range strings.Lines(text) {
		left, right, _ := strings.Cut(line, " - ")
		at, kind := strings.Fields(left), strings.Fields(right)
		if len(at) < 5 || len(kind) < 3 {
			continue
		}
		if version == 2 && kind[0] == "cgroup2" ||
			version == 1 && kind[0] == "cgroup" && slices.Contains(strings.Split(kind[2], ","), string(c)) {
			return unescape(at[3]), unescape(at[4]), true
		}
	}
	return "", "", false
}

// unescape undoes the kernel's \040 for a space in a path.
func unescape(s string) string {
	if plain, err := strconv.Unquote(`"` + s + `"`); err == nil {
		return plain
	}
	return s
}
