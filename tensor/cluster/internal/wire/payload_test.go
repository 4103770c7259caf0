package wire

import "testing"

// TestPayload: what is inline is counted, what is behind a handle is not, and broken
// messages do no harm.
func TestPayload(t *testing.T) {
	run := sampleRun()
	inline := 0
	for _, u := range run.Uploads {
		inline += len(u.Inline)
	}
	if inline == 0 {
		t.Fatal("the sample has nothing inline")
	}
	var h History
	for range 2 { // once explicit, once predicted
		body := AppendRun(nil, run, &h)
		if n := Payload(KindRun, body); n != inline {
			t.Errorf("a Run with %d bytes inline counts as %d", inline, n)
		}
		for i := range body {
			if n := Payload(KindRun, body[:i]); n > inline {
				t.Errorf("the first %d bytes of it count as %d", i, n)
			}
		}
		h.Record(run)
	}
	handles := *run
	handles.Uploads = run.Uploads[:1]
	if n := Payload(KindRun, AppendRun(nil, &handles, nil)); n != 0 {
		t.Errorf("a Run with handles alone counts as %d", n)
	}
	for _, at := range []uint32{0, 8} {
		done := &Done{Seq: 1, At: at, Text: "no", Results: []Result{
			{ID: 1, Value: Value{DType: 1, Dims: []int{2}, Inline: make([]byte, 8)}},
			{ID: 2, Value: Value{DType: 1, Dims: []int{2, 7}, Handle: sampleHandle(1)}},
			{ID: 3, Value: Value{DType: 1, Inline: make([]byte, 4)}},
		}}
		if n := Payload(KindDone, Append(nil, done)); n != 12 {
			t.Errorf("a Done with 12 bytes inline counts as %d", n)
		}
	}
	if n := Payload(KindBody, make([]byte, 1000)); n != 0 {
		t.Errorf("a program counts as %d", n)
	}
}

func FuzzPayload(f *testing.F) {
	f.Add(KindRun, AppendRun(nil, sampleRun(), nil))
	f.Add(KindDone, Append(nil, &Done{Results: []Result{{Value: Value{Inline: []byte{1}}}}}))
	f.Fuzz(func(t *testing.T, kind uint32, body []byte) {
		if n := Payload(kind, body); n < 0 || n > len(body) {
			t.Fatalf("%d bytes of %d", n, len(body))
		}
	})
}
