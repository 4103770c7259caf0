// Package revision has the files of earlier revisions of the repository.
package revision

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// Checkout writes the files of a revision of the repository in the current folder into a
// new temporary folder, which the caller removes.
func Checkout(rev string) (string, error) {
	dir, err := os.MkdirTemp("", "ringside-")
	if err != nil {
		return "", err
	}
	var said [2]strings.Builder // of both
	archive, unpack := exec.Command("git", "archive", "--format=tar", rev), exec.Command("tar", "-x", "-C", dir)
	archive.Stderr, unpack.Stderr = &said[0], &said[1]
	pipe, err := archive.StdoutPipe()
	if err == nil {
		if err = archive.Start(); err == nil {
			unpack.Stdin = pipe
			err = unpack.Run()
			pipe.Close() // ends git if tar ended before it
			err = errors.Join(err, archive.Wait())
		}
	}
	if err != nil {
		err = fmt.Errorf("git archive %s, and tar: %w: %s%s", rev, err, said[0].String(), said[1].String())
		return "", errors.Join(err, os.RemoveAll(dir))
	}
	return dir, nil
}
