package store

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ringside-go/ringside/gather/outcome"
	"github.com/ringside-go/ringside/shm/plain"
)

// Mem is a store in memory. The zero value is empty and ready.
type Mem struct {
	// Now is the clock that objects are dated by. Nil: time.Now.
	Now func() time.Time

	mu      sync.Mutex
	objects map[string]memObject
	uploads map[string]map[int][]byte
	version int
	gets    map[string]int
}

type memObject struct {
	data []byte
	time time.Time
	etag string
}

// Gets returns how often each key was opened.
func (m *Mem) Gets() map[string]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.gets)
}

// Chtime dates an object.
func (m *Mem) Chtime(key string, t time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o := m.objects[key]
	o.time = t
	m.objects[key] = o
}

// Open implements Store.
func (m *Mem) Open(ctx context.Context, key string, get Get) (*Object, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gets == nil {
		m.gets = map[string]int{}
	}
	m.gets[key]++
	if err := ctx.Err(); err != nil {
		return nil, outcome.Errorf(outcome.Of(err), "%s: %v", plain.Name(key), err)
	}
	o, ok := m.objects[key]
	if !ok {
		return nil, outcome.Errorf(outcome.NotFound, "%s", plain.Name(key))
	}
	if get.IfMatch != "" && get.IfMatch != o.etag {
		return nil, outcome.Errorf(outcome.Changed, "%s: ETag %s, expected %s", plain.Name(key), o.etag, get.IfMatch)
	}
	b := o.data[min(get.Off, int64(len(o.data))):]
	if get.Len > 0 {
		b = b[:min(get.Len, int64(len(b)))]
	}
	return &Object{io.NopCloser(bytes.NewReader(b)), int64(len(o.data)), o.time, o.etag}, nil
}

// Put implements Store.
func (m *Mem) Put(_ context.Context, key string, r io.Reader, size int64, o *PutOptions) error {
	b, err := io.ReadAll(io.LimitReader(r, size))
	if err != nil {
		return err
	}
	if int64(len(b)) != size {
		return fmt.Errorf("store: %s: %d bytes, expected %d", plain.Name(key), len(b), size)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.put(key, b, o)
}

func (m *Mem) put(key string, b []byte, o *PutOptions) error {
	if _, ok := m.objects[key]; ok && o != nil && o.Exclusive {
		return fmt.Errorf("%w: %s", ErrExists, plain.Name(key))
	}
	if m.objects == nil {
		m.objects = map[string]memObject{}
	}
	at := time.Now()
	if m.Now != nil {
		at = m.Now()
	}
	m.version++
	m.objects[key] = memObject{b, at, fmt.Sprint("v", m.version)}
	return nil
}

// List implements Store.
func (m *Mem) List(_ context.Context, prefix string) ([]Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []Entry
	for _, key := range slices.Sorted(maps.Keys(m.objects)) {
		if strings.HasPrefix(key, prefix) {
			out = append(out, Entry{key, int64(len(m.objects[key].data)), m.objects[key].time})
		}
	}
	return out, nil
}

// Delete implements Store.
func (m *Mem) Delete(_ context.Context, key string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.objects, key)
	return nil
}

// CreateUpload implements Uploader.
func (m *Mem) CreateUpload(_ context.Context, key string, o *PutOptions) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.uploads == nil {
		m.uploads = map[string]map[int][]byte{}
	}
	m.version++
	id := fmt.Sprint(key, "#", m.version)
	m.uploads[id] = map[int][]byte{}
	return id, nil
}

// UploadPart implements Uploader.
func (m *Mem) UploadPart(_ context.Context, key, id string, n int, r io.Reader, size int64) (string, error) {
	b, err := io.ReadAll(io.LimitReader(r, size))
	if err != nil {
		return "", err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	parts, ok := m.uploads[id]
	if !ok {
		return "", outcome.Errorf(outcome.NotFound, "upload %s of %s", plain.Name(id), plain.Name(key))
	}
	parts[n] = b
	return fmt.Sprint("p", n), nil
}

// CompleteUpload implements Uploader.
func (m *Mem) CompleteUpload(_ context.Context, key, id string, etags []string, o *PutOptions) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	parts, ok := m.uploads[id]
	if !ok || len(parts) != len(etags) {
		return outcome.Errorf(outcome.NotFound, "upload %s of %s with %d parts", plain.Name(id), plain.Name(key), len(etags))
	}
	var all []byte
	for n := range etags {
		all = append(all, parts[n+1]...)
	}
	if err := m.put(key, all, o); err != nil {
		return err
	}
	delete(m.uploads, id)
	return nil
}

// AbortUpload implements Uploader.
func (m *Mem) AbortUpload(_ context.Context, _, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.uploads, id)
	return nil
}

// Uploads implements Uploader.
func (m *Mem) Uploads(_ context.Context, prefix string) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var ids []string
	for _, id := range slices.Sorted(maps.Keys(m.uploads)) {
		if strings.HasPrefix(id, prefix) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}
