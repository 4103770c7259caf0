package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/ringside-go/ringside/gather/outcome"
	"github.com/ringside-go/ringside/gather/store"
)

// Run checks what every store does. s is empty.
func Run(t *testing.T, s store.Store) {
	ctx := t.Context()
	data := []byte("0123456789")
	put := func(key string, b []byte, o *store.PutOptions) error {
		return s.Put(ctx, key, bytes.NewReader(b), int64(len(b)), o)
	}
	if _, err := s.Open(ctx, "a/x", store.Get{}); outcome.Of(err) != outcome.NotFound {
		t.Fatalf("what is not there: %v, expected NOT_FOUND", err)
	}
	if err := put("a/x", data, &store.PutOptions{Exclusive: true}); err != nil {
		t.Fatal(err)
	}
	if err := put("a/x", data, &store.PutOptions{Exclusive: true}); !errors.Is(err, store.ErrExists) {
		t.Errorf("created twice: %v, expected ErrExists", err)
	}
	etag := read(t, s, "a/x", store.Get{}, "0123456789")
	read(t, s, "a/x", store.Get{Off: 3}, "3456789")
	read(t, s, "a/x", store.Get{Len: 4}, "0123")
	read(t, s, "a/x", store.Get{Off: 8, Len: 40, IfMatch: etag}, "89")
	if err := put("a/x", []byte("another one"), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Open(ctx, "a/x", store.Get{Off: 3, IfMatch: etag}); outcome.Of(err) != outcome.Changed {
		t.Errorf("an older ETag: %v, expected CHANGED", err)
	}
	done, cancel := context.WithCancel(ctx)
	cancel()
	if o, err := s.Open(done, "a/x", store.Get{}); err == nil {
		if _, err = io.ReadAll(o.Body); err == nil {
			t.Error("a context that is done was not looked at")
		}
		o.Body.Close()
	} else if outcome.Of(err) != outcome.Cancelled {
		t.Errorf("cancelled: %v", err)
	}
	if err := put("b", data, nil); err != nil {
		t.Fatal(err)
	}
	list(t, s, "", "a/x 11", "b 10")
	list(t, s, "a/", "a/x 11")
	for range 2 {
		if err := s.Delete(ctx, "b"); err != nil {
			t.Errorf("delete: %v", err)
		}
	}
	list(t, s, "b")
	if u, ok := s.(store.Uploader); ok {
		uploads(t, u)
	}
}

// read compares what a Get gives, and returns the ETag.
func read(t *testing.T, s store.Store, key string, get store.Get, want string) string {
	t.Helper()
	o, err := s.Open(t.Context(), key, get)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Body.Close()
	b, err := io.ReadAll(o.Body)
	if err != nil || string(b) != want || o.Size != 10 || o.LastModified.IsZero() || o.ETag == "" {
		t.Errorf("%+v: %q of %d bytes, dated %v, ETag %q, %v; expected %q of 10", get, b, o.Size, o.LastModified, o.ETag, err, want)
	}
	return o.ETag
}

func list(t *testing.T, s store.Store, prefix string, want ...string) {
	t.Helper()
	all, err := s.List(t.Context(), prefix)
	if _, web := s.(*store.HTTP); web && errors.Is(err, store.ErrUnsupported) {
		return // a web server does not list
	}
	var got []string
	for _, e := range all {
		got = append(got, fmt.Sprint(e.Key, " ", e.Size))
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("below %q: %v, %v; expected %v", prefix, got, err, want)
	}
}

// uploads checks uploads in parts: the object shows at the end, and nothing is left.
func uploads(t *testing.T, s store.Uploader) {
	ctx := t.Context()
	o := &store.PutOptions{Exclusive: true, Metadata: map[string]string{"digest": "abc"}}
	// the least that S3 takes of any but the last part
	first := bytes.Repeat([]byte("x"), 5<<20)
	for _, round := range []string{"completed", "refused", "aborted"} {
		id, err := s.CreateUpload(ctx, "up/load", o)
		if err != nil {
			t.Fatal(err)
		}
		var tags []string
		for n, b := range [][]byte{first, []byte("the end")} {
			tag, err := s.UploadPart(ctx, "up/load", id, n+1, bytes.NewReader(b), int64(len(b)))
			if err != nil {
				t.Fatal(err)
			}
			tags = append(tags, tag)
		}
		if round == "completed" {
			list(t, s, "up/")
			if err := s.CompleteUpload(ctx, "up/load", id, tags, o); err != nil {
				t.Fatal(err)
			}
			list(t, s, "up/", fmt.Sprint("up/load ", len(first)+7))
			continue
		}
		if round == "refused" {
			if err := s.CompleteUpload(ctx, "up/load", id, tags, o); !errors.Is(err, store.ErrExists) {
				t.Errorf("a second object of the name: %v, expected ErrExists", err)
			}
		}
		if err := s.AbortUpload(ctx, "up/load", id); err != nil {
			t.Errorf("abort: %v", err)
		}
	}
	if left, err := s.Uploads(ctx, "up/"); err != nil || len(left) != 0 {
		t.Errorf("uploads that are left: %v, %v", left, err)
	}
}
