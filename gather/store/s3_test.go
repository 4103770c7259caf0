package store_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ringside-go/ringside/gather/outcome"
	"github.com/ringside-go/ringside/gather/store"
)

// fakeS3 returns the store of a bucket whose server answers requests by h.
func fakeS3(t *testing.T, h http.HandlerFunc) *store.S3 {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	s, err := store.NewS3("bucket", "p", &store.S3Options{Endpoint: strings.TrimPrefix(server.URL, "http://"), Plain: true})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestUploadsPages: a list of uploads in several pages is read to its end, and one that
// begins again is an error.
func TestUploadsPages(t *testing.T) {
	type page struct{ key, id, ids, nextKey, nextID string }
	pages := []page{
		{"", "", "1 2", "p/a", "2"},
		{"p/a", "2", "3 4", "p/a", "4"}, // uploads of one key
		{"p/a", "4", "5", "", ""},
	}
	s := fakeS3(t, func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		i := slices.IndexFunc(pages, func(p page) bool { return p.key == q.Get("key-marker") && p.id == q.Get("upload-id-marker") })
		if i < 0 || !q.Has("uploads") || q.Get("prefix") != "p/x" {
			t.Errorf("asked for %s", r.URL)
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		fmt.Fprintf(w, "<ListMultipartUploadsResult><IsTruncated>%v</IsTruncated><NextKeyMarker>%s</NextKeyMarker><NextUploadIdMarker>%s</NextUploadIdMarker>",
			pages[i].nextKey != "", pages[i].nextKey, pages[i].nextID)
		for _, id := range strings.Fields(pages[i].ids) {
			fmt.Fprintf(w, "<Upload><Key>p/a</Key><UploadId>%s</UploadId></Upload>", id)
		}
		fmt.Fprint(w, "</ListMultipartUploadsResult>")
	})
	ids, err := s.Uploads(t.Context(), "x")
	if want := []string{"1", "2", "3", "4", "5"}; err != nil || !slices.Equal(ids, want) {
		t.Errorf("%v, %v; expected %v", ids, err, want)
	}
	pages[2] = page{"p/a", "4", "5", "p/a", "4"}
	if _, err := s.Uploads(t.Context(), "x"); outcome.Of(err) != outcome.BadFormat {
		t.Errorf("a list without end: %v, expected BAD_FORMAT", err)
	}
}

// TestUploadPartAttempts: a part whose connection breaks is sent again, whole, if it can
// be read again; a refusal is taken at once.
func TestUploadPartAttempts(t *testing.T) {
	var mu sync.Mutex // of what the server's goroutines share with this one
	var got []string
	broken, code := 2, http.StatusOK
	s := fakeS3(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		if got = append(got, string(b)); len(got) <= broken {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("ETag", `"tag"`)
		w.WriteHeader(code)
	})
	part := strings.NewReader("before part after")
	part.Seek(7, io.SeekStart)
	tag, err := s.UploadPart(t.Context(), "k", "id", 1, part, 4)
	mu.Lock()
	if err != nil || tag != "tag" || len(got) != 3 || !strings.Contains(got[2], "part") || got[2] != got[0] {
		t.Errorf("ETag %q, %v after %q; expected the part three times", tag, err, got)
	}
	got = nil
	mu.Unlock()
	_, err = s.UploadPart(t.Context(), "k", "id", 1, io.MultiReader(strings.NewReader("part")), 4)
	mu.Lock()
	if outcome.Of(err) != outcome.Network || len(got) != 1 {
		t.Errorf("a stream: %v after %d attempts, expected NETWORK after 1", err, len(got))
	}
	got, broken, code = nil, 0, http.StatusForbidden
	mu.Unlock()
	_, err = s.UploadPart(t.Context(), "k", "id", 1, strings.NewReader("part"), 4)
	mu.Lock()
	defer mu.Unlock()
	if outcome.Of(err) != outcome.Forbidden || len(got) != 1 {
		t.Errorf("refused: %v after %d attempts, expected FORBIDDEN after 1", err, len(got))
	}
}
