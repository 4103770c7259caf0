package ipc

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// lockedBuffer is where a logger of several goroutines writes to.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

// take is what was written since the last time.
func (l *lockedBuffer) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.b.Reset()
	return l.b.String()
}

// TestWarnings: the first few of a kind come at once, others as a count an interval, and nothing hides another kind. A kind that was
// quiet for an interval begins anew.
func TestWarnings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out lockedBuffer
		w := NewWarnings(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{
			ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
				if a.Key == slog.TimeKey {
					return slog.Attr{}
				}
				return a
			},
		})))
		expect := func(when string, want ...string) {
			t.Helper()
			synctest.Wait()
			got := strings.Split(strings.TrimSuffix(out.take(), "\n"), "\n")
			if strings.Join(got, "\n") != strings.Join(want, "\n") {
				t.Errorf("%s: logged\n%s\nexpected\n%s", when, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
		bad := func(from, to int) (lines []string) {
			for i := from; i < to; i++ {
				w.Warn("bad", "handshake failed", "peer", i)
				lines = append(lines, fmt.Sprintf("level=WARN msg=\"handshake failed\" peer=%d", i))
			}
			return lines
		}
		lines := bad(0, 1000)
		expect("at once", lines[:warnAtOnce]...)
		w.Warn("version", "another version", "peer", 7)
		expect("another kind", `level=WARN msg="another version" peer=7`)
		<-time.After(warnEvery)
		expect("after an interval", fmt.Sprintf(`level=WARN msg="handshake failed" peer=999 count=%d`, 1000-warnAtOnce))
		bad(1000, 1010)
		expect("in the second interval", "")
		<-time.After(warnEvery)
		expect("after the second", `level=WARN msg="handshake failed" peer=1009 count=10`)
		<-time.After(2 * warnEvery)
		expect("while nothing happens", "")
		lines = bad(0, warnAtOnce+1)
		expect("anew", lines[:warnAtOnce]...)
		w.Close()
		expect("when closed", fmt.Sprintf(`level=WARN msg="handshake failed" peer=%d count=1`, warnAtOnce))
		expect("later", bad(3, 4)...)
	})
}
