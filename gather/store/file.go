package store

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/ringside-go/ringside/gather/outcome"
	"github.com/ringside-go/ringside/shm/limits"
	"github.com/ringside-go/ringside/shm/plain"
)

// File is a folder whose files are the objects. Keys cannot lead out of it, and no key
// is that of a symbolic link. Names that begin with a dot are the store's own.
type File struct{ root *os.Root }

// NewFile opens the folder, which is made if it is not there.
func NewFile(dir string) (*File, error) {
	if dir == "" {
		return nil, errors.New("store: the name of the folder is empty")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("store: %w", plain.Path(err))
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("store: %w", plain.Path(err))
	}
	return &File{root}, nil
}

// fileError gives a system's error the outcome that it means.
func fileError(key string, err error) error {
	s := outcome.Network
	var p *fs.PathError
	if errors.As(err, &p) { // it names the key again
		err = p.Err
	}
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.EISDIR), errors.Is(err, syscall.ENOTDIR):
		s = outcome.NotFound
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.ELOOP):
		s = outcome.Forbidden
	}
	return outcome.Errorf(s, "%s: %v", plain.Name(key), plain.Path(err))
}

func checkKey(key string) error {
	if !fs.ValidPath(key) || strings.HasPrefix(key, ".") || strings.Contains(key, "/.") {
		return outcome.Errorf(outcome.BadFormat, "key %q: expected a relative path of names without dots at their front", key)
	}
	return nil
}

// Open implements Store.
func (s *File) Open(ctx context.Context, key string, get Get) (*Object, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	seen, err := s.root.Lstat(key)
	if err != nil {
		return nil, fileError(key, err)
	}
	f, err := s.root.OpenFile(key, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fileError(key, err)
	}
	o, err := fileObject(f, seen, key, get)
	if err != nil {
		f.Close()
		return nil, err
	}
	o.Body = &fileBody{ctx, o.Body, f}
	return o, nil
}

// fileObject looks at an open file, which must be the one that was seen under the name: a
// link is not.
func fileObject(f *os.File, seen fs.FileInfo, key string, get Get) (*Object, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, fileError(key, err)
	}
	if !info.Mode().IsRegular() || !os.SameFile(seen, info) {
		return nil, outcome.Errorf(outcome.NotFound, "%s is no regular file", plain.Name(key))
	}
	o := &Object{Size: info.Size(), LastModified: info.ModTime(), ETag: fmt.Sprintf("%d-%d", info.Size(), info.ModTime().UnixNano())}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		o.ETag += "-" + strconv.FormatUint(st.Ino, 10)
	}
	if get.IfMatch != "" && get.IfMatch != o.ETag {
		return nil, outcome.Errorf(outcome.Changed, "%s: ETag %s, expected %s", plain.Name(key), o.ETag, get.IfMatch)
	}
	n := max(o.Size-get.Off, 0)
	if get.Len > 0 {
		n = min(n, get.Len)
	}
	o.Body = io.NopCloser(io.NewSectionReader(f, get.Off, n))
	return o, nil
}

// fileBody ends when its context does.
type fileBody struct {
	ctx context.Context
	io.Reader
	f *os.File
}

func (b *fileBody) Read(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	return b.Reader.Read(p)
}

func (b *fileBody) Close() error { return b.f.Close() }

// Put implements Store.
func (s *File) Put(_ context.Context, key string, r io.Reader, size int64, o *PutOptions) error {
	if err := checkKey(key); err != nil {
		return err
	}
	tmp := path.Join(path.Dir(key), ".put-"+rand.Text())
	if err := s.write(tmp, r, size); err != nil {
		return fmt.Errorf("store: %s: %w", plain.Name(path.Join(s.root.Name(), key)), plain.Path(err))
	}
	return s.publish(tmp, key, o)
}

func (s *File) write(name string, r io.Reader, size int64) error {
	if err := s.root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := s.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	n, err := io.Copy(f, io.LimitReader(r, size))
	if err == nil && n != size {
		err = fmt.Errorf("%d bytes, expected %d", n, size)
	}
	if err = cmp.Or(err, f.Sync(), f.Close()); err != nil {
		err = limits.Written(s.root.Name(), err)
		s.root.Remove(name)
	}
	return err
}

// publish gives a file its name. A link fails where the name is taken.
func (s *File) publish(tmp, key string, o *PutOptions) error {
	if o == nil || !o.Exclusive {
		if err := s.root.Rename(tmp, key); err != nil {
			s.root.Remove(tmp)
			return fmt.Errorf("store: %w", plain.Path(err))
		}
		return nil
	}
	err := s.root.Link(tmp, key)
	s.root.Remove(tmp)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: %s", ErrExists, plain.Name(key))
	}
	return plain.Path(err)
}

// List implements Store.
func (s *File) List(_ context.Context, prefix string) ([]Entry, error) {
	var out []Entry
	err := fs.WalkDir(s.root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil && name == ".":
			return err
		case err != nil:
			return nil // what cannot be read, or is gone, is not listed
		}
		if name != "." && strings.HasPrefix(path.Base(name), ".") {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() || !strings.HasPrefix(name, prefix) {
			return nil
		}
		info, err := d.Info()
		if err == nil {
			out = append(out, Entry{name, info.Size(), info.ModTime()})
		}
		return nil // one that is gone meanwhile is not listed
	})
	if err != nil {
		return nil, fmt.Errorf("store: listing %s: %w", plain.Name(s.root.Name()), plain.Path(err))
	}
	slices.SortFunc(out, func(a, b Entry) int { return cmp.Compare(a.Key, b.Key) })
	return out, nil
}

// Delete implements Store.
func (s *File) Delete(_ context.Context, key string) error {
	if err := checkKey(key); err != nil {
		return err
	}
	if err := s.root.Remove(key); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fileError(key, err)
	}
	return nil
}

// uploadDir holds the parts of an upload until it is completed.
const uploadDir = ".uploads"

// CreateUpload implements Uploader.
func (s *File) CreateUpload(_ context.Context, key string, _ *PutOptions) (string, error) {
	if err := checkKey(key); err != nil {
		return "", err
	}
	id := strings.ReplaceAll(key, "/", "_") + "-" + rand.Text()
	return id, plain.Path(s.root.MkdirAll(path.Join(uploadDir, id), 0o755))
}

func partName(id string, n int) (string, error) {
	if strings.Contains(id, "/") || id == "" || id[0] == '.' {
		return "", outcome.Errorf(outcome.BadFormat, "upload %q: expected an id of CreateUpload", id)
	}
	return path.Join(uploadDir, id, strconv.Itoa(n)), nil
}

// UploadPart implements Uploader.
func (s *File) UploadPart(_ context.Context, key, id string, n int, r io.Reader, size int64) (string, error) {
	name, err := partName(id, n)
	if err != nil {
		return "", err
	}
	s.root.Remove(name) // of an attempt that broke
	if err := s.write(name, r, size); err != nil {
		return "", fmt.Errorf("store: part %d of %s: %w", n, plain.Name(key), plain.Path(err))
	}
	return strconv.Itoa(n), nil
}

// CompleteUpload implements Uploader.
func (s *File) CompleteUpload(ctx context.Context, key, id string, etags []string, o *PutOptions) error {
	var parts []io.Reader
	var size int64
	for n := range etags {
		name, err := partName(id, n+1)
		if err != nil {
			return err
		}
		f, err := s.root.Open(name)
		if err != nil {
			return fileError(key, err)
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			return fileError(key, err)
		}
		parts, size = append(parts, f), size+info.Size()
	}
	if err := s.Put(ctx, key, io.MultiReader(parts...), size, o); err != nil {
		return err
	}
	return s.AbortUpload(ctx, key, id)
}

// AbortUpload implements Uploader.
func (s *File) AbortUpload(_ context.Context, _, id string) error {
	name, err := partName(id, 0)
	if err != nil {
		return err
	}
	return plain.Path(s.root.RemoveAll(path.Dir(name)))
}

// Uploads implements Uploader.
func (s *File) Uploads(_ context.Context, prefix string) ([]string, error) {
	dir, err := fs.ReadDir(s.root.FS(), uploadDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var ids []string
	for _, d := range dir {
		if strings.HasPrefix(d.Name(), strings.ReplaceAll(prefix, "/", "_")) {
			ids = append(ids, d.Name())
		}
	}
	return ids, nil
}
