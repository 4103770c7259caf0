package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/ringside-go/ringside/gather/outcome"
	"github.com/ringside-go/ringside/gather/store"
	"github.com/ringside-go/ringside/gather/store/storetest"
	"github.com/ringside-go/ringside/shm/testneeds"
)

// fast are short waits.
var fast = store.FetchOptions{Base: time.Millisecond, Cap: 5 * time.Millisecond}

func fetchAll(t *testing.T, o store.FetchOptions, s store.Store, key string) (string, store.Fetched, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var b []byte
	got, err := store.NewFetcher(o).Fetch(ctx, s, key, func(r io.Reader) (err error) {
		b, err = io.ReadAll(r)
		return err
	})
	return string(b), got, err
}

func put(t testing.TB, s store.Store, key, data string) {
	t.Helper()
	if err := s.Put(t.Context(), key, strings.NewReader(data), int64(len(data)), nil); err != nil {
		t.Fatal(err)
	}
}

func httpStore(t testing.TB, s *storetest.Server) *store.HTTP {
	t.Helper()
	h, err := store.NewHTTP(s.URL, &http.Client{Transport: &http.Transport{DisableKeepAlives: true}})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestStores(t *testing.T) {
	t.Run("mem", func(t *testing.T) { storetest.Run(t, &store.Mem{}) })
	t.Run("http", func(t *testing.T) { storetest.Run(t, httpStore(t, storetest.NewServer(t))) })
	t.Run("file", func(t *testing.T) {
		s, err := store.NewFile(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		storetest.Run(t, s)
	})
	t.Run("s3", func(t *testing.T) { storetest.Run(t, storetest.StartGateway(t, os.Getenv).Bucket(t, "suite")) })
}

// TestFileStaysInside: no key leads out of the folder, nor to what is no file.
func TestFileStaysInside(t *testing.T) {
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := store.NewFile(filepath.Join(dir, "store"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Symlink("../secret", filepath.Join(dir, "store", "out")), os.Symlink("in", filepath.Join(dir, "store", "link")),
		os.Mkdir(filepath.Join(dir, "store", "folder"), 0o755)); err != nil {
		t.Fatal(err)
	}
	put(t, s, "in", "y")
	for _, key := range []string{"../secret", "/etc/passwd", "out", "link", "folder", "", ".", "a/../../secret", ".put-1", ".uploads/id/1", "a/.put-1"} {
		if o, err := s.Open(t.Context(), key, store.Get{}); err == nil {
			o.Body.Close()
			t.Errorf("%q was opened", key)
		}
	}
}

// TestSpoolWithoutFiles: a folder that takes no files is no spool.
func TestSpoolWithoutFiles(t *testing.T) {
	if _, err := store.NewSpool("/proc/self/fdinfo"); err == nil {
		t.Error("no error for a folder of the kernel")
	}
	dir := filepath.Join(t.TempDir(), "a", "b")
	if _, err := store.NewSpool(dir); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}

// TestListUnreadable: a folder that cannot be read hides nothing but what is in it.
func TestListUnreadable(t *testing.T) {
	dir := t.TempDir()
	s, err := store.NewFile(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"a", "hidden/b", "z"} {
		put(t, s, key, "data")
	}
	if err := os.Chmod(filepath.Join(dir, "hidden"), 0); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(filepath.Join(dir, "hidden"), 0o700)
	if os.Geteuid() == 0 { // it may read all: this thread as another user may not
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		const nobody = 65534
		if err := syscall.Setfsuid(nobody); err != nil {
			t.Fatal(err)
		}
		defer syscall.Setfsuid(0)
	}
	if _, err := os.ReadDir(filepath.Join(dir, "hidden")); err == nil {
		testneeds.Root.Skipf(t, os.Getenv, "every user of this container may read a folder of mode 0")
	}
	got, err := s.List(t.Context(), "")
	if err != nil || len(got) != 2 || got[0].Key != "a" || got[1].Key != "z" {
		t.Errorf("%v, %v: expected a and z", got, err)
	}
}

// TestT24Retry: what is temporary is tried again, and each in its way.
func TestT24Retry(t *testing.T) {
	data := strings.Repeat("abcdefgh", 4096)
	for name, c := range map[string]struct {
		fault    func(n int) storetest.Fault
		attempts int
	}{
		"503 twice": {func(n int) storetest.Fault {
			if n < 3 {
				return storetest.Fault{Code: 503}
			}
			return storetest.Fault{}
		}, 3},
		"404 four times": {func(n int) storetest.Fault {
			if n < 5 {
				return storetest.Fault{Code: 404}
			}
			return storetest.Fault{}
		}, 5},
		"the conn breaks three times": {func(n int) storetest.Fault {
			if n < 4 {
				return storetest.Fault{Cut: 5000}
			}
			return storetest.Fault{}
		}, 4},
	} {
		t.Run(name, func(t *testing.T) {
			s := storetest.NewServer(t)
			put(t, s.Mem, "k", data)
			s.Fault = func(_ string, n int) storetest.Fault { return c.fault(n) }
			b, got, err := fetchAll(t, fast, httpStore(t, s), "k")
			if err != nil || b != data || got.Attempts != c.attempts || s.Count("HEAD", "") != 0 {
				t.Errorf("%d bytes in %d attempts, %v; expected %d in %d", len(b), got.Attempts, err, len(data), c.attempts)
			}
			if got.Wire != int64(len(data)) {
				t.Errorf("%d bytes on the wire: expected %d, for what arrived is not asked for again", got.Wire, len(data))
			}
		})
	}
}

// TestT24RetryAfter: the server's own time is kept.
func TestT24RetryAfter(t *testing.T) {
	t.Parallel()
	s := storetest.NewServer(t)
	put(t, s.Mem, "k", "data")
	s.Fault = func(_ string, n int) storetest.Fault {
		if n == 1 {
			return storetest.Fault{Code: 429, RetryAfter: "1"}
		}
		return storetest.Fault{}
	}
	_, _, err := fetchAll(t, fast, httpStore(t, s), "k")
	at := s.Times("k")
	if err != nil || len(at) != 2 || at[1].Sub(at[0]) < time.Second {
		t.Errorf("%v; requests at %v, expected two, a second apart", err, at)
	}
}

// TestT24Stall: a server that stops in the middle takes the deadline's time and no more.
func TestT24Stall(t *testing.T) {
	t.Parallel()
	s := storetest.NewServer(t)
	put(t, s.Mem, "k", strings.Repeat("x", 50000))
	s.Fault = func(string, int) storetest.Fault { return storetest.Fault{Cut: 10, Stall: true} }
	begin := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := store.NewFetcher(fast).Fetch(ctx, httpStore(t, s), "k", func(r io.Reader) error {
		_, err := io.Copy(io.Discard, r)
		return err
	})
	took := time.Since(begin)
	if outcome.Of(err) != outcome.Timeout || took < 300*time.Millisecond {
		t.Errorf("%v after %v, expected TIMEOUT at 300 ms", err, took)
	}
	t.Logf("TIMEOUT after %v", took)
}

// stalling is a store whose object "stalls" is opened and never comes.
type stalling struct {
	*store.Mem
	opened chan struct{} // gets one element for each time
}

func (s *stalling) Open(ctx context.Context, key string, get store.Get) (*store.Object, error) {
	o, err := s.Mem.Open(ctx, key, get)
	if err == nil && key == "stalls" {
		s.opened <- struct{}{}
		o.Body = io.NopCloser(&never{ctx})
	}
	return o, err
}

// never is a body of which nothing comes while the request lasts.
type never struct{ ctx context.Context }

func (n *never) Read([]byte) (int, error) {
	<-n.ctx.Done()
	return 0, n.ctx.Err()
}

// TestStallerGivesPlace: a peer that stalls loses its place to one that waits for it, and
// comes to its turn again behind it.
func TestStallerGivesPlace(t *testing.T) {
	t.Parallel()
	s := &stalling{&store.Mem{}, make(chan struct{}, 1<<10)}
	put(t, s.Mem, "stalls", "x")
	put(t, s.Mem, "honest", "x")
	o := fast
	o.Concurrency = 1
	if o = o.Share(20*time.Second, 1); o.Hold != 0 {
		t.Fatalf("an attempt may take %v where none waits, expected no bound", o.Hold)
	}
	f := store.NewFetcher(o.Share(100*time.Millisecond, 2))
	read := func(r io.Reader) error { _, err := io.ReadAll(r); return err }
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	whole, stop := context.WithCancel(ctx)
	ended := make(chan error)
	go func() {
		_, err := f.Fetch(whole, s, "stalls", read)
		ended <- err
	}()
	<-s.opened
	if _, err := f.Fetch(ctx, s, "honest", read); err != nil {
		t.Errorf("a peer that waits behind one that stalls: %v", err)
	}
	<-s.opened // again
	stop()
	if err := <-ended; outcome.Of(err) != outcome.Cancelled {
		t.Errorf("%v, expected CANCELLED", err)
	}
}

// TestTerminal: what another attempt cannot change is not tried again.
func TestTerminal(t *testing.T) {
	for code, want := range map[int]outcome.Outcome{403: outcome.Forbidden, 401: outcome.Forbidden, 400: outcome.BadFormat} {
		s := storetest.NewServer(t)
		s.Fault = func(string, int) storetest.Fault { return storetest.Fault{Code: code} }
		if _, got, err := fetchAll(t, fast, httpStore(t, s), "k"); outcome.Of(err) != want || got.Attempts != 1 {
			t.Errorf("%d: %v after %d attempts, expected %v after 1", code, err, got.Attempts, want)
		}
	}
	s := &store.Mem{}
	put(t, s, "k", "data")
	n := 0
	_, err := store.NewFetcher(fast).Fetch(t.Context(), s, "k", func(io.Reader) error {
		n++
		return outcome.Errorf(outcome.Truncated, "the container is short")
	})
	if outcome.Of(err) != outcome.Truncated || n != 1 {
		t.Errorf("a container that is short was read %d times: %v", n, err)
	}
}

// TestT17Window: the bounds of the window are in it, to the second.
func TestT17Window(t *testing.T) {
	t0 := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	o := fast
	o.Attempts, o.TMin, o.TMax = 1, t0, t0.Add(time.Minute)
	check := func(t *testing.T, s store.Store, date func(time.Time)) {
		put(t, s, "k", "data")
		for _, c := range []struct {
			at   time.Time
			want outcome.Outcome
		}{
			{o.TMin.Add(-time.Second), outcome.TooEarly},
			{o.TMin, outcome.OK},
			{o.TMin.Add(999 * time.Millisecond), outcome.OK},
			{o.TMax, outcome.OK},
			{o.TMax.Add(999 * time.Millisecond), outcome.OK}, // the same second
			{o.TMax.Add(time.Second), outcome.TooLate},
		} {
			date(c.at)
			if _, _, err := fetchAll(t, o, s, "k"); outcome.Of(err) != c.want {
				t.Errorf("%v: %v, expected %v", c.at, err, c.want)
			}
		}
	}
	t.Run("mem", func(t *testing.T) {
		s := &store.Mem{}
		check(t, s, func(at time.Time) { s.Chtime("k", at) })
	})
	t.Run("http", func(t *testing.T) {
		s := storetest.NewServer(t)
		check(t, httpStore(t, s), func(at time.Time) { s.Mem.Chtime("k", at) })
	})
	t.Run("file", func(t *testing.T) {
		dir := t.TempDir()
		s, err := store.NewFile(dir)
		if err != nil {
			t.Fatal(err)
		}
		check(t, s, func(at time.Time) { os.Chtimes(filepath.Join(dir, "k"), at, at) })
	})
	t.Run("s3", func(t *testing.T) {
		g := storetest.StartGateway(t, os.Getenv)
		check(t, g.Bucket(t, "dates"), func(at time.Time) { os.Chtimes(filepath.Join(g.Data, "dates", "k"), at, at) })
	})
}

// TestT17Changed: an object that is replaced while it arrives is fetched once more,
// whole.
func TestT17Changed(t *testing.T) {
	s := storetest.NewServer(t)
	put(t, s.Mem, "k", strings.Repeat("old", 9000))
	fresh := strings.Repeat("new!", 9000)
	s.Fault = func(_ string, n int) storetest.Fault {
		if n > 1 {
			return storetest.Fault{}
		}
		return storetest.Fault{Cut: 8000, Then: func() { s.Mem.Put(context.Background(), "k", strings.NewReader(fresh), int64(len(fresh)), nil) }}
	}
	b, got, err := fetchAll(t, fast, httpStore(t, s), "k")
	if err != nil || b != fresh || got.Attempts != 3 {
		t.Errorf("%.12q… in %d attempts, %v; expected the new one in 3", b, got.Attempts, err)
	}
	s.Fault = func(_ string, n int) storetest.Fault {
		return storetest.Fault{Cut: 8000, Then: func() { s.Mem.Put(context.Background(), "k", strings.NewReader(fresh), int64(len(fresh)), nil) }}
	}
	if _, _, err := fetchAll(t, fast, httpStore(t, s), "k"); outcome.Of(err) != outcome.Changed {
		t.Errorf("replaced again and again: %v, expected CHANGED", err)
	}
}

// TestParts: an object larger than a part comes in several requests.
func TestParts(t *testing.T) {
	s := storetest.NewServer(t)
	data := strings.Repeat("0123456789", 1001)
	put(t, s.Mem, "k", data)
	o := fast
	for part, want := range map[int64]int{1 << 20: 1, 10010: 1, 5005: 2, 4000: 3} {
		o.Part = part
		b, got, err := fetchAll(t, o, httpStore(t, s), "k")
		if err != nil || b != data || got.Attempts != want || got.Size != int64(len(data)) {
			t.Errorf("parts of %d: %d bytes in %d requests, %v; expected %d", part, len(b), got.Attempts, err, want)
		}
	}
	o.MaxBytes = int64(len(data)) - 1
	if _, got, err := fetchAll(t, o, httpStore(t, s), "k"); outcome.Of(err) != outcome.TooLarge || got.Wire != 0 {
		t.Errorf("%v with %d bytes read, expected TOO_LARGE with none", err, got.Wire)
	}
}

// TestLateTry: after the end of the window and its grace one attempt is made.
func TestLateTry(t *testing.T) {
	s := storetest.NewServer(t)
	o := fast
	o.TMax = time.Now().Add(-time.Minute)
	if _, got, err := fetchAll(t, o, httpStore(t, s), "k"); outcome.Of(err) != outcome.NotFound || got.Attempts != 1 {
		t.Errorf("%v after %d attempts, expected NOT_FOUND after 1", err, got.Attempts)
	}
}

// TestConcurrency: no more requests are under way than are allowed.
func TestConcurrency(t *testing.T) {
	var mu sync.Mutex
	now, most := 0, 0
	s := &store.Mem{}
	for i := range 32 {
		put(t, s, fmt.Sprint(i), "x")
	}
	f := store.NewFetcher(store.FetchOptions{Concurrency: 16, Memory: 3 * store.Buffer})
	arrived := make(chan struct{}, 32)
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			f.Fetch(t.Context(), s, fmt.Sprint(i), func(io.Reader) error {
				mu.Lock()
				now++
				most = max(most, now)
				mu.Unlock()
				arrived <- struct{}{}
				mu.Lock()
				now--
				mu.Unlock()
				return nil
			})
		})
	}
	wg.Wait()
	if most > 3 || len(arrived) != 32 {
		t.Errorf("%d at once, expected at most 3", most)
	}
}

// TestT23S3Credentials: a user with the right to read reads and does no more; a wrong
// secret is refused at once; no error shows a secret.
func TestT23S3Credentials(t *testing.T) {
	g := storetest.StartGateway(t, os.Getenv)
	root := g.Bucket(t, "peer1")
	put(t, root, "k", "data")
	g.User(t, "reader1", "readersecret1")
	key, secret := g.Keys()
	admin, err := minio.New(g.Endpoint, &minio.Options{Creds: credentials.NewStaticV4(key, secret, ""), Region: "us-east-1"})
	if err != nil {
		t.Fatal(err)
	}
	if err := admin.SetBucketPolicy(t.Context(), "peer1", g.Policy("peer1", "reader1")); err != nil {
		t.Fatal(err)
	}
	reader := g.Store(t, "peer1", "reader1", "readersecret1")
	if b, got, err := fetchAll(t, fast, reader, "k"); err != nil || b != "data" || got.Attempts != 1 {
		t.Errorf("reading: %q in %d attempts, %v", b, got.Attempts, err)
	}
	errPut := reader.Put(t.Context(), "k2", bytes.NewReader(nil), 0, nil)
	if outcome.Of(errPut) != outcome.Forbidden {
		t.Errorf("writing: %v, expected FORBIDDEN", errPut)
	}
	_, got, errSecret := fetchAll(t, fast, g.Store(t, "peer1", "reader1", "wrongsecret99"), "k")
	if outcome.Of(errSecret) != outcome.Forbidden || got.Attempts != 1 {
		t.Errorf("a wrong secret: %v after %d attempts, expected FORBIDDEN after 1", errSecret, got.Attempts)
	}
	for _, err := range []error{errPut, errSecret} {
		if strings.Contains(err.Error(), "secret1") || strings.Contains(err.Error(), "wrongsecret99") {
			t.Errorf("an error shows a secret: %v", err)
		}
	}
	o := store.S3Options{Endpoint: "e", SecretKey: "verysecret", AccessKey: "id"}
	if s := fmt.Sprintf("%v %+v %#v", o, o, o); strings.Contains(s, "verysecret") {
		t.Errorf("options show the secret: %s", s)
	}
}

// TestNew: the store of a URL is of its kind, and a wrong one is refused.
func TestNew(t *testing.T) {
	dir := t.TempDir()
	for raw, want := range map[string]string{dir: "*store.File", "file://" + dir: "*store.File", "http://localhost/x": "*store.HTTP", "s3://bucket/p": "*store.S3"} {
		s, err := store.New(raw, nil)
		if got := fmt.Sprintf("%T", s); err != nil || got != want {
			t.Errorf("%s: %s, %v", raw, got, err)
		}
	}
	for _, raw := range []string{"", "ftp://x/y", "s3://", "http://[::"} {
		if _, err := store.New(raw, nil); err == nil {
			t.Errorf("%q was taken", raw)
		}
	}
}
