package events

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"math"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// records cuts a file, checking both sums of each record.
func records(t *testing.T, file []byte) (all [][]byte) {
	t.Helper()
	for len(file) > 0 {
		if len(file) < 16 {
			t.Fatalf("%d bytes are left", len(file))
		}
		n := binary.LittleEndian.Uint64(file)
		if binary.LittleEndian.Uint32(file[8:]) != masked(file[:8]) || n > uint64(len(file)-16) {
			t.Fatalf("a length of %d with a wrong sum, or more than there is", n)
		}
		data := file[12 : 12+n]
		if binary.LittleEndian.Uint32(file[12+n:]) != masked(data) {
			t.Fatalf("the sum of %x is wrong", data)
		}
		all = append(all, data)
		file = file[16+n:]
	}
	return all
}

// fields returns the fields of a message by number.
func fields(t *testing.T, b []byte) map[protowire.Number][]byte {
	t.Helper()
	out := map[protowire.Number][]byte{}
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			t.Fatal(protowire.ParseError(n))
		}
		b = b[n:]
		n = protowire.ConsumeFieldValue(number, kind, b)
		if n < 0 {
			t.Fatal(protowire.ParseError(n))
		}
		value := b[:n]
		if kind == protowire.BytesType {
			value, _ = protowire.ConsumeBytes(b)
		}
		out[number], b = value, b[n:]
	}
	return out
}

func TestWriter(t *testing.T) {
	var file bytes.Buffer
	begin := time.Unix(1700000000, 500_000_000)
	w, err := NewWriter(&file, begin)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Scalars(begin.Add(time.Second), 300, Scalar{"loss", 2.5}); err != nil {
		t.Fatal(err)
	}
	if err := w.Text(begin, 301, "sample", "hello"); err != nil {
		t.Fatal(err)
	}
	all := records(t, file.Bytes())
	if len(all) != 3 {
		t.Fatalf("%d records, expected 3", len(all))
	}
	if first := fields(t, all[0]); string(first[eventVersion]) != version {
		t.Errorf("the first record has the version %q", first[eventVersion])
	}
	e := fields(t, all[1])
	if at := math.Float64frombits(binary.LittleEndian.Uint64(e[eventTime])); at != 1700000001.5 {
		t.Errorf("time %v", at)
	}
	if step, _ := protowire.ConsumeVarint(e[eventStep]); step != 300 {
		t.Errorf("step %d", step)
	}
	value := fields(t, fields(t, e[eventSummary])[summaryValue])
	if x := math.Float32frombits(binary.LittleEndian.Uint32(value[valueSimple])); string(value[valueTag]) != "loss" || x != 2.5 {
		t.Errorf("%q is %v", value[valueTag], x)
	}
	value = fields(t, fields(t, fields(t, all[2])[eventSummary])[summaryValue])
	if text := fields(t, value[valueTensor])[tensorString]; string(text) != "hello" || string(value[valueTag]) != "sample" {
		t.Errorf("%q is %q", value[valueTag], text)
	}
}

// TestBegin compares the begin of a file with that of TensorFlow's files.
func TestBegin(t *testing.T) {
	var file bytes.Buffer
	if _, err := NewWriter(&file, time.Unix(1700000000, 0)); err != nil {
		t.Fatal(err)
	}
	const want = "1800000000000000a37f4b2209"
	if got := hex.EncodeToString(file.Bytes()); got[:len(want)] != want {
		t.Errorf("%s, expected it to begin with %s", got, want)
	}
}
