package trace_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/tensor/cluster/trace"
)

// decoded parses a file as JSON that another program wrote, of the same length.
func decoded(b []byte) (*trace.File, error) {
	return trace.Parse(bytes.NewReader(bytes.Replace(b, []byte(`"ns"`), []byte(`"ms"`), 1)))
}

// same compares what Parse makes of a file with what it makes of any JSON.
func same(b []byte) error {
	got, err := trace.Parse(bytes.NewReader(b))
	want, wantErr := decoded(b)
	if fmt.Sprint(err) != fmt.Sprint(wantErr) || !reflect.DeepEqual(got, want) {
		return fmt.Errorf("%v, expected %v, of a file that ends with %.300q", err, wantErr, b[max(0, len(b)-300):])
	}
	return nil
}

// recorded is a whole file.
func recorded(t *testing.T) []byte {
	var file bytes.Buffer
	record(t, 2, 5, trace.Options{Trace: &file})
	if err := same(file.Bytes()); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

// TestLines has bytes of a file changed, taken out, doubled, and cut off behind: it is
// read, or refused with the same words, as any JSON is.
func TestLines(t *testing.T) {
	file := recorded(t)
	const seed = 21
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	times := 2000
	if testing.Short() {
		times = 200
	}
	for range times {
		// A piece of the file is enough, and what is changed is near its end.
		from := 40 + rng.IntN(len(file)-4000)
		b := append(bytes.Clone(file[:40]), file[from+bytes.IndexByte(file[from:], '{'):][:1500]...)
		at := 40 + rng.IntN(len(b)-40)
		const some = "{}[]\",:.-+eE0019 \n\x00\x7f\xff\\nul"
		switch rng.IntN(4) {
		case 0:
			b[at] = some[rng.IntN(len(some))]
		case 1:
			b = append(b[:at], b[at+1:]...)
		case 2:
			n := min(1+rng.IntN(40), len(b)-at)
			b = append(b[:at+n:at+n], b[at:]...)
		case 3:
			b = b[:at]
		}
		if end := bytes.LastIndex(b, []byte(",\n")); end > 0 && rng.IntN(8) > 0 {
			b = append(b[:end:end], "\n],\"otherData\":{\"events_dropped\":7,\"events_lost\":0}}\n"...)
		}
		if err := same(b); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLinesByHand are lines that differ little from those of a file.
func TestLinesByHand(t *testing.T) {
	const start = `{"displayTimeUnit":"ns","traceEvents":[` + "\n" + `{"name":"process_name","ph":"M","ts":0.000,"pid":1,"tid":0,"args":{"name":"p"}}`
	for _, c := range []struct {
		rest string
		ok   bool
	}{
		{"\n]}", true},
		{"\n],\"otherData\":{\"events_lost\":3}}\n", true},
		{",\n" + `{"name":"x","cat":"c","ph":"X","ts":-0.001,"dur":999999999999.999,"pid":1,"tid":2,"id":"i","s":"p","bp":"e","args":{"n":18446744073709551615,"t":"\u00e9","n":2}}` + "\n]}", true},
		{",\n" + `{"name":"x","ph":"i","ts":1e3,"pid":1,"tid":2}` + "\n]}", true},
		{",\n" + `{"ph":"i","name":"x","ts":1,"pid":1,"tid":2,"args":{}}` + "\n]}", true},
		{",\n  " + `{"name":"x","ph":"i","ts":1,"pid":1,"tid":2}` + "\n]}", true},
		{",\n" + `{"name":"` + strings.Repeat("x", 1<<17) + `","ph":"i","ts":1,"pid":1,"tid":2}` + "\n]}", true},
		{",\n]}", false},
		{"\n" + `{"name":"x","ph":"i","ts":1,"pid":1,"tid":2}` + "\n]}", false},
		{",\n" + `{"name":"x","ph":"i","ts":01,"pid":1,"tid":2}` + "\n]}", false},
		{",\n" + `{"name":"x","ph":"i","ts":0000000000000000000000001,"pid":1,"tid":2}` + "\n]}", false},
		{",\n" + `{"name":"x","ph":"i","ts":1.,"pid":1,"tid":2}` + "\n]}", false},
		{",\n" + `{"name":"x","ph":"i","ts":-,"pid":1,"tid":2}` + "\n]}", false},
		{",\n" + `{"name":"x","ph":"i","ts":1,"pid":1.5,"tid":2}` + "\n]}", false},
		{",\n" + `{"name":"x","ph":"i","ts":1,"pid":1,"tid":2,"args":{"n":1,}}` + "\n]}", false},
		{",\n" + `{"name":"x","ph":"i","ts":1,"pid":1,"tid":2,"args":{"n":"1}}` + "\n]}", false},
		{"\n]} ]", false},
		{"\n]}{}", false},
		{"\n]}" + start + "\n]}", false},
		{"\n", true}, // the end is missing
		{",", true},
	} {
		file := start + c.rest
		if err := same([]byte(file)); err != nil {
			t.Error(err)
		}
		if _, err := trace.Parse(strings.NewReader(file)); (err == nil) != c.ok {
			t.Errorf("%.300s: %v", c.rest, err)
		}
	}
}
