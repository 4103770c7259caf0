package local

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// maxPath is what a unix socket's address holds, less the final zero.
const maxPath = 107

// hostIDLen is the number of hex digits of an advertised address's host id.
const hostIDLen = 32

// Advertise returns an address for path that names this host as well: path@hostid. It can
// be given to processes elsewhere, whose Reaches then returns false. The id is derived
// from the kernel's boot id and the device and inode of the socket's directory. A process
// that computes the same id sees the same directory of the same running kernel, possibly
// from another container.
func Advertise(path string) (string, error) {
	id, err := hostID(filepath.Dir(path))
	if err != nil {
		return "", err
	}
	return path + "@" + id, nil
}

// splitAddr cuts an address into its path and the host id, which may be empty.
func splitAddr(addr string) (path, id string) {
	at := strings.LastIndexByte(addr, '@')
	if at < 0 || len(addr)-at-1 != hostIDLen {
		return addr, ""
	}
	for _, c := range addr[at+1:] {
		if !strings.ContainsRune("0123456789abcdef", c) {
			return addr, ""
		}
	}
	return addr[:at], addr[at+1:]
}

func hostID(dir string) (string, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("local: host id: %w", err)
	}
	var st syscall.Stat_t
	if err := syscall.Stat(dir, &st); err != nil {
		return "", fmt.Errorf("local: host id: %w", &os.PathError{Op: "stat", Path: dir, Err: err})
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %d", strings.TrimSpace(string(boot)), st.Dev, st.Ino))
	return hex.EncodeToString(sum[:hostIDLen/2]), nil
}

// checkPath says whether path can be a socket's.
func checkPath(path string) error {
	if !filepath.IsAbs(path) {
		return fmt.Errorf("local: address %q is not an absolute path", path)
	}
	if len(path) > maxPath {
		return fmt.Errorf("local: address %q has %d bytes, a unix socket's at most %d", path, len(path), maxPath)
	}
	return nil
}
