package tcp

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestGolden compares what is on the wire with the bytes of this version. A change is a
// new version.
func TestGolden(t *testing.T) {
	if version != 3 {
		t.Fatalf("version %d: write its bytes to testdata/wire.hex and its history", version)
	}
	h := hello{sums: wantSums, wire: []byte("hello")}
	w := welcome{sums: wantSums, wire: []byte("welcome")}
	for i := range h.nonce {
		h.nonce[i], w.proof[i] = byte(i), byte(i+100)
	}
	for i := range w.token {
		w.token[i], h.token[i] = byte(i+200), byte(i+200)
	}
	var got strings.Builder
	line := func(what string, b []byte) { fmt.Fprintln(&got, what, hex.EncodeToString(b)) }
	line("hello", h.append(nil))
	h.bulk = true
	line("hello-bulk", h.append(nil))
	line("welcome", w.append(nil, false))
	var busy bytes.Buffer
	if err := newGreeter(&busy, nil).say(kindBusy, []byte("busy")); err != nil {
		t.Fatal(err)
	}
	line("busy", busy.Bytes())
	line("welcome-bulk", w.append(nil, true))
	for _, dialer := range []bool{true, false} {
		s := w.streams(dialer)
		from := map[bool]string{true: "dialer", false: "listener"}[dialer]
		body := []byte("123456789") // its CRC32C is e3069283
		var header [frameHeader]byte
		frame{uint32(len(body)), 5, 7, s.messages.out.of(body)}.put(&header, &s.messages.out)
		line(from+"-message", append(header[:], body...))
		frame{kind: beat, released: 8, sum: 99}.put(&header, &s.messages.out)
		line(from+"-beat", header[:])
		for _, n := range []int{0, 9} {
			x := outTransfer{transfer: transfer{stream: s.bulk.out}}
			x.start([][]byte{body[:n]})
			x.head(3)
			x.next()
			b := append(x.header[:], body[:n]...)
			if n > 0 {
				b = append(b, x.trailer[:]...)
			}
			line(fmt.Sprint(from, "-transfer-", n), b)
			s.bulk.out = x.stream
		}
	}
	want, err := os.ReadFile("testdata/wire.hex")
	if err != nil || got.String() != string(want) {
		t.Errorf("%v; the bytes are now\n%s", err, &got)
	}
	if x := (&stream{on: true}).of([]byte("123456789")); x != 0xe3069283 {
		t.Errorf("CRC32C of 123456789 is %#x, expected 0xe3069283", x)
	}
}
