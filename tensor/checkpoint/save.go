package checkpoint

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/ringside-go/ringside/shm/limits"
	"github.com/ringside-go/ringside/shm/plain"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/safetensors"
)

// Options configure Save. Nil is the default.
type Options struct {
	// Step is kept for the program that continues from the checkpoint.
	Step uint64

	// Notes are kept. They must be valid UTF-8.
	Notes map[string]string
}

const (
	manifestName = "manifest.json"
	savingPrefix = ".saving-" // a folder that is not finished
	dataPrefix   = "data-"
)

// ours are the names that Save makes besides manifestName.
var ours = regexp.MustCompile(`^(\.saving-|data-)[0-9a-f]{32}$`)

// Save writes tensors of the session s to the folder dir, which it makes if necessary,
// and replaces the checkpoint there. It waits for the computations that the tensors
// depend on. After an error the folder holds the old checkpoint.
//
// Names must be unique. One Save at a time may run in a folder, of any process; another
// returns ErrBusy.
func Save(ctx context.Context, s *tensor.Session, dir string, tensors []tensor.Named, o *Options) (err error) {
	o = cmp.Or(o, &Options{})
	defer func() {
		if err != nil {
			err = fmt.Errorf("checkpoint: saving to %s: %w", plain.Name(dir), plain.Path(limits.Written(dir, err)))
		}
	}()
	for k, v := range o.Notes {
		if k != strings.ToValidUTF8(k, "") || v != strings.ToValidUTF8(v, "") {
			return fmt.Errorf("%w: note %.40q: %.40q, expected valid UTF-8", ErrFormat, k, v)
		}
	}
	unlock, err := lock(dir)
	if err != nil {
		return err
	}
	defer unlock()
	var id [16]byte
	rand.Read(id[:])
	saving, data := savingPrefix+hex.EncodeToString(id[:]), dataPrefix+hex.EncodeToString(id[:])
	if err := os.Mkdir(filepath.Join(dir, saving), 0o755); err != nil {
		return err
	}
	final := false
	defer func() {
		if !final {
			os.RemoveAll(filepath.Join(dir, saving))
			os.RemoveAll(filepath.Join(dir, data))
		}
	}()
	m := &Manifest{Format: formatName, Version: Version, Step: o.Step, Notes: o.Notes}
	if err := m.write(ctx, s, filepath.Join(dir, saving), data, tensors); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(dir, saving), filepath.Join(dir, data)); err != nil {
		return err
	}
	// the files must be durable before the manifest names them
	if err := safetensors.SyncDir(dir); err != nil {
		return err
	}
	b, err := m.encode()
	if err != nil {
		return err
	}
	if final, err = safetensors.Replace(filepath.Join(dir, manifestName), 0o644, func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	}); err != nil {
		return err
	}
	sweep(dir, data)
	return nil
}

// write has the tensors written to files in folder, which is to be renamed to data, and
// adds them to m.
func (m *Manifest) write(ctx context.Context, s *tensor.Session, folder, data string, tensors []tensor.Named) error {
	ts, list := make([]*tensor.Tensor, len(tensors)), make([]safetensors.Tensor, len(tensors))
	for i, t := range tensors {
		if err := t.T.Err(); err != nil {
			return fmt.Errorf("%s: %w", t.Name, err)
		}
		list[i] = safetensors.Tensor{Name: t.Name, DType: safetensors.TypeOf(t.T.DType()), Shape: safetensors.Dims(t.T.Shape())}
	}
	// It is not known yet which worker writes which tensor. Room for the head of all
	// tensors is enough for that of every file.
	head, order, err := safetensors.Place(list, nil, 0)
	if err != nil {
		return err
	}
	for k, i := range order {
		ts[k] = tensors[i].T
	}
	files := make([]*os.File, s.Writers())
	for r := range files {
		if files[r], err = os.OpenFile(filepath.Join(folder, fileName(r)), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o644); err != nil {
			return err
		}
		defer files[r].Close()
	}
	pieces, err := s.SaveTo(ctx, files, int64(len(head)), ts)
	if err != nil {
		return err
	}
	m.Tensors = make([]Tensor, len(tensors))
	for i, t := range tensors {
		m.Tensors[i] = Tensor{Name: t.Name, DType: list[i].DType, Shape: append([]int{}, t.T.Shape()...)}
	}
	for r, f := range files {
		if err := m.finish(f, r, data, pieces[r], list, order, len(head)); err != nil {
			return err
		}
	}
	slices.SortFunc(m.Tensors, func(a, b Tensor) int { return strings.Compare(a.Name, b.Name) })
	if err := m.check(); err != nil { // the pieces must cover all tensors
		return err
	}
	return safetensors.SyncDir(folder)
}

func fileName(rank int) string { return fmt.Sprintf("%d.safetensors", rank) }

// finish adds the pieces that are in file f of rank r, in the order in which they follow
// the room for a head, and writes the head. They are pieces of the tensors
// list[order[piece.Index]].
func (m *Manifest) finish(f *os.File, r int, data string, pieces []tensor.Piece, list []safetensors.Tensor, order []int, room int) error {
	own := make([]safetensors.Tensor, len(pieces))
	off := int64(room)
	for k, p := range pieces {
		if p.Index < 0 || p.Index >= len(order) || k > 0 && p.Index <= pieces[k-1].Index {
			return fmt.Errorf("%w: file %d: tensor %d after %d of %d was written", ErrFormat, r, p.Index, k, len(order))
		}
		i := order[p.Index]
		own[k] = safetensors.Tensor{Name: list[i].Name, DType: list[i].DType, Shape: safetensors.Dims(p.Shape)}
		n, err := m.Tensors[i].bytes(p.Shape)
		if err != nil {
			return fmt.Errorf("%w: file %d: %s: %w", ErrFormat, r, list[i].Name, err)
		}
		m.Tensors[i].Slices = append(m.Tensors[i].Slices, Slice{File: r, Start: append([]int{}, p.Start...), Shape: append([]int{}, p.Shape...),
			Offset: off, Sum: hex.EncodeToString(p.Sum[:])})
		off += n
	}
	head, _, err := safetensors.Place(own, nil, room)
	if err != nil {
		return err
	}
	if len(head) != room {
		return fmt.Errorf("%w: file %d: a head of %d bytes, expected %d", ErrFormat, r, len(head), room)
	}
	if _, err := f.WriteAt(head, 0); err != nil {
		return err
	}
	if err := f.Truncate(off); err != nil {
		return err
	}
	m.Files = append(m.Files, File{Path: data + "/" + fileName(r), Bytes: off})
	return errors.Join(f.Sync(), f.Close())
}

// Writable returns an error unless Save can begin to write to the folder dir, which it
// makes.
func Writable(dir string) error {
	unlock, err := lock(dir)
	if err == nil {
		defer unlock()
		err = safetensors.Writable(filepath.Join(dir, manifestName))
	}
	if err != nil {
		return fmt.Errorf("checkpoint: saving to %s: %w", plain.Name(dir), plain.Path(limits.Written(dir, err)))
	}
	return nil
}

// lock makes the folder and locks it against other Saves until unlock.
func lock(dir string) (unlock func(), err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	// On a file system without locks, two processes that save at once lose one of the
	// checkpoints.
	if err := syscall.Flock(int(d.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); errors.Is(err, syscall.EWOULDBLOCK) {
		d.Close()
		return nil, ErrBusy
	}
	return func() { d.Close() }, nil
}

// sweep removes files that older Saves left, finished or not. It ignores errors: the next
// Save tries again.
func sweep(dir, current string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		switch name := e.Name(); {
		case name == current:
		case e.IsDir() && ours.MatchString(name):
			os.RemoveAll(filepath.Join(dir, name))
		case strings.HasPrefix(name, "."+manifestName+".tmp"):
			os.Remove(filepath.Join(dir, name))
		}
	}
}
