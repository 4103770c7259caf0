package encoding_test

import (
	"bytes"
	"errors"
	"flag"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/ipc/encoding"
	"github.com/ringside-go/ringside/ipc/encoding/encodingtest"
)

var update = flag.Bool("update", false, "write the golden bytes anew")

func sampleHello() *encoding.Hello {
	return &encoding.Hello{Version: encoding.Version, Role: 2, PID: 4711, Start: 987654321, Layout: 1, RingBytes: 1 << 20,
		DataBell: 0, RoomBell: 128, Name: "w0 – worker", Note: "\x00\xff note"}
}

func messages() []encodingtest.Message {
	welcome := encoding.Welcome(*sampleHello())
	all := []encodingtest.Message{
		encodingtest.Of("Hello", sampleHello(), encoding.AppendHello, encoding.ParseHello),
		encodingtest.Of("Welcome", &welcome, encoding.AppendWelcome, encoding.ParseWelcome),
		encodingtest.Of("Refuse", &encoding.Refuse{Version: encoding.Version, Reason: encoding.RefuseVersion, Text: "version 9, this is version 1"},
			encoding.AppendRefuse, encoding.ParseRefuse),
		encodingtest.Of("Busy", &encoding.Busy{Version: encoding.Version, Before: 241}, encoding.AppendBusy, encoding.ParseBusy),
	}
	// The parser wants this version in the zero message as well.
	all[0].Fresh = func() any { return &encoding.Hello{Version: encoding.Version} }
	all[1].Fresh = func() any { return &encoding.Welcome{Version: encoding.Version} }
	return all
}

func TestMessages(t *testing.T) { encodingtest.Test(t, messages(), *update) }

func FuzzParse(f *testing.F) { encodingtest.Fuzz(f, messages()) }

// TestLimits tests that text over its limit is refused.
func TestLimits(t *testing.T) {
	hello := sampleHello()
	hello.Name = strings.Repeat("x", encoding.MaxName+1)
	if err := encoding.ParseHello(encoding.AppendHello(nil, hello), new(encoding.Hello)); !errors.Is(err, encoding.ErrMalformed) {
		t.Errorf("name: %v", err)
	}
	hello = sampleHello()
	hello.Note = strings.Repeat("x", encoding.MaxNote+1)
	if err := encoding.ParseHello(encoding.AppendHello(nil, hello), new(encoding.Hello)); !errors.Is(err, encoding.ErrMalformed) {
		t.Errorf("note: %v", err)
	}
	refuse := &encoding.Refuse{Text: strings.Repeat("x", encoding.MaxText+1)}
	if err := encoding.ParseRefuse(encoding.AppendRefuse(nil, refuse), new(encoding.Refuse)); !errors.Is(err, encoding.ErrMalformed) {
		t.Errorf("text: %v", err)
	}
}

func TestVersions(t *testing.T) {
	m := sampleHello()
	m.Version = encoding.Version + 1
	var got encoding.Hello
	if err := encoding.ParseHello(encoding.AppendHello(nil, m), &got); !errors.Is(err, encoding.ErrVersion) || got.Version != encoding.Version+1 || got.Name != "" {
		t.Errorf("Hello of another version: %v, %+v", err, got)
	}
	refuse := &encoding.Refuse{Version: encoding.Version + 1, Text: "no"}
	var back encoding.Refuse
	if err := encoding.ParseRefuse(encoding.AppendRefuse(nil, refuse), &back); err != nil || back != *refuse {
		t.Errorf("Refuse of another version: %v, %+v", err, back)
	}
	if err := encoding.ParseHello(encoding.AppendRefuse(nil, refuse), &got); !errors.Is(err, encoding.ErrMalformed) {
		t.Errorf("a Refuse parsed as Hello: %v", err)
	}
	other := encoding.AppendHello(nil, sampleHello())
	other[0]++
	if err := encoding.ParseHello(other, &got); !errors.Is(err, encoding.ErrMalformed) {
		t.Errorf("another magic: %v", err)
	}
}

func TestCutText(t *testing.T) {
	for _, s := range []string{"", "short", strings.Repeat("x", encoding.MaxText)} {
		if encoding.CutText(s) != s {
			t.Errorf("CutText changed a text of %d bytes", len(s))
		}
	}
	for pad := range 4 {
		s := strings.Repeat("x", pad) + strings.Repeat("é", encoding.MaxText)
		cut := encoding.CutText(s)
		if len(cut) > encoding.MaxText || len(cut) < encoding.MaxText-4 || !strings.HasPrefix(s, strings.TrimSuffix(cut, "…")) {
			t.Errorf("cut to %d bytes", len(cut))
		}
	}
}

// every is a message with every kind of field.
type every struct {
	b    uint8
	yes  bool
	u32  uint32
	u64  uint64
	f    float64
	uv   uint64
	num  uint32
	d    uint64
	data []byte
	text string
	fix  [3]byte
	list []uint64
}

func (m *every) walk(w *encoding.Walk) {
	w.U8("b", &m.b)
	w.Bool("yes", &m.yes)
	w.U32("u32", &m.u32)
	w.U64("u64", &m.u64)
	w.F64("f", &m.f)
	w.Uvarint("uv", &m.uv)
	w.Number("num", &m.num, 1000)
	w.Delta("d", &m.d, m.u64)
	w.Bytes("data", &m.data, 10)
	w.Text("text", &m.text, 10)
	w.Fixed("fix", m.fix[:])
	encoding.List(w, "list", &m.list, 4, 8)
	for i := range m.list {
		w.U64("list", &m.list[i])
	}
}

// TestWalk tests that fields are parsed into a used message as they were written, that
// the first error leaves zeros behind it, and that nothing is allocated but text.
func TestWalk(t *testing.T) {
	m := every{1, true, 2, 1 << 63, -0.5, 300, 1000, 5, []byte("0123456789"), "text", [3]byte{7, 8, 9}, []uint64{1, 2}}
	var buf [200]byte
	var b []byte
	if n := testing.AllocsPerRun(10, func() {
		w := encoding.Appending(buf[:0])
		m.walk(&w)
		b = w.Appended()
	}); n != 0 {
		t.Errorf("writing allocates %v times", n)
	}
	got := every{list: make([]uint64, 4)}
	w := encoding.Parsing("every", b)
	got.walk(&w)
	if err := w.End(); err != nil || got.f != m.f || got.d != m.d || got.fix != m.fix || len(got.list) != 2 || got.list[1] != 2 {
		t.Errorf("%+v, %v; want %+v", got, err, m)
	}
	for n := range b {
		w := encoding.Parsing("every", b[:n])
		got.walk(&w)
		if err := w.End(); !errors.Is(err, encoding.ErrMalformed) || !strings.Contains(err.Error(), "every.") {
			t.Errorf("%d bytes: %v", n, err)
		}
		if n < len(b)-17 && (got.fix != [3]byte{} || len(got.list) != 0) {
			t.Errorf("%d bytes leave %+v", n, got)
		}
	}
	w = encoding.Parsing("every", bytes.Repeat([]byte{0xFF}, 100))
	got.walk(&w)
	if err := w.End(); err == nil || !strings.Contains(err.Error(), "every.yes at byte 2") || got.u64 != 0 || got.text != "" {
		t.Errorf("%v, %+v", err, got)
	}
}
