package ipc_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/ipctest"
)

// TestWarnings: the first few of a kind come at once, others as a count an interval, and
// nothing hides another kind. A kind that was quiet for an interval begins anew.
func TestWarnings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out ipctest.Log
		w := ipc.NewWarnings(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{
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
			got := strings.Split(strings.TrimSuffix(out.Take(), "\n"), "\n")
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
		expect("at once", lines[:ipc.WarnAtOnce]...)
		w.Warn("version", "another version", "peer", 7)
		expect("another kind", `level=WARN msg="another version" peer=7`)
		<-time.After(ipc.WarnEvery)
		expect("after an interval", fmt.Sprintf(`level=WARN msg="handshake failed" peer=999 count=%d`, 1000-ipc.WarnAtOnce))
		bad(1000, 1010)
		expect("in the second interval", "")
		<-time.After(ipc.WarnEvery)
		expect("after the second", `level=WARN msg="handshake failed" peer=1009 count=10`)
		<-time.After(2 * ipc.WarnEvery)
		expect("while nothing happens", "")
		lines = bad(0, ipc.WarnAtOnce+1)
		expect("anew", lines[:ipc.WarnAtOnce]...)
		w.Close()
		expect("when closed", fmt.Sprintf(`level=WARN msg="handshake failed" peer=%d count=1`, ipc.WarnAtOnce))
		expect("later", bad(3, 4)...)
	})
}
