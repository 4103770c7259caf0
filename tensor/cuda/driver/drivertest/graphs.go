package drivertest

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"

	"github.com/ringside-go/ringside/tensor/cuda/driver"
)

// captured is work that the cases of graphs record: x comes from pinned memory, a second
// stream fills z, y becomes a*x + y, and goes back.
type captured struct {
	f            driver.Function
	main, side   driver.Stream
	fork, join   driver.Event
	x, y, z      driver.DevicePtr
	input, fills []byte // pinned
}

const elements = 500

// record captures the work, with or without the last copy.
func (e *env) record(t *testing.T, c *captured, a float32, all bool) driver.Graph {
	t.Helper()
	check(t, e.CaptureBegin(c.main, driver.CaptureThreadLocal))
	if is := must(e.Capturing(c.main))(t); !is {
		t.Error("a stream that captures says no")
	}
	for _, err := range []error{
		e.CopyHtoDAsync(c.x, c.input, c.main),
		e.EventRecord(c.fork, c.main), e.StreamWaitEvent(c.side, c.fork),
		e.Fill32Async(c.z, 7, elements, c.side),
		e.axpy(c.f, c.main, c.x, c.y, a, elements),
		e.EventRecord(c.join, c.side), e.StreamWaitEvent(c.main, c.join),
	} {
		check(t, err)
	}
	if all {
		check(t, e.CopyDtoHAsync(c.fills, c.z, c.main))
	}
	g := must(e.CaptureEnd(c.main))(t)
	want := 3
	if all {
		want++
	}
	if n := must(e.GraphNodes(g))(t); n != want {
		t.Errorf("%d nodes, want %d", n, want)
	}
	return g
}

// graphs captures work of two streams, launches it with other inputs and updates it.
func (e *env) graphs(t *testing.T) {
	m := must(e.ModuleLoad(program))(t)
	c := &captured{
		f:    must(e.ModuleFunction(m, "axpy"))(t),
		main: must(e.StreamCreate(driver.StreamNonBlocking, 0))(t), side: must(e.StreamCreate(driver.StreamNonBlocking, 0))(t),
		fork: must(e.EventCreate(driver.EventDisableTiming))(t), join: must(e.EventCreate(driver.EventDisableTiming))(t),
		x: must(e.Alloc(4 * elements))(t), y: must(e.Alloc(4 * elements))(t), z: must(e.Alloc(4 * elements))(t),
		input: must(e.HostAlloc(4*elements, 0))(t), fills: must(e.HostAlloc(4*elements, 0))(t),
	}
	check(t, e.CopyHtoD(c.y, make([]byte, 4*elements)))
	g := e.record(t, c, 2, true)
	if is := must(e.Capturing(c.main))(t); is {
		t.Error("a stream captures after the end")
	}
	x := must(e.GraphInstantiate(g))(t)
	check(t, e.GraphUpload(x, c.main))
	var want float32 // of element 3
	launch := func(a, first float32) {
		t.Helper()
		copy(c.input, floats(elements, first))
		clear(c.fills)
		check(t, e.GraphLaunch(x, c.main))
		check(t, e.StreamSynchronize(c.main))
		back := make([]byte, 4*elements)
		check(t, e.CopyDtoH(back, c.y))
		want += a * (first + 3)
		if got := math.Float32frombits(binary.LittleEndian.Uint32(back[12:])); got != want {
			t.Errorf("element 3 is %g, want %g", got, want)
		}
		if !bytes.Equal(c.fills, bytes.Repeat([]byte{7, 0, 0, 0}, elements)) {
			t.Error("the second stream's work is missing")
		}
	}
	if binary.LittleEndian.Uint32(c.fills) != 0 {
		t.Error("captured work ran")
	}
	launch(2, 1)
	launch(2, 5)
	other := e.record(t, c, 3, true)
	check(t, e.GraphUpdate(x, other))
	check(t, e.GraphDestroy(other))
	launch(3, 1)
	less := e.record(t, c, 3, false)
	if err := e.GraphUpdate(x, less); code(err) != driver.GraphUpdateFailed {
		t.Errorf("update by a graph without a node: %v", err)
	}
	launch(3, 2)
	e.captures(t, c)
	for _, err := range []error{
		e.GraphDestroy(less), e.GraphDestroy(g), e.GraphExecDestroy(x), e.ModuleUnload(m),
		e.Free(c.x), e.Free(c.y), e.Free(c.z), e.HostFree(c.input), e.HostFree(c.fills),
		e.EventDestroy(c.fork), e.EventDestroy(c.join), e.StreamDestroy(c.main), e.StreamDestroy(c.side),
	} {
		check(t, err)
	}
}

// captures misuses captures: each row's last call within one, and how the capture ends.
func (e *env) captures(t *testing.T, c *captured) {
	misuse(t, e, []row{
		{"CaptureBegin of the legacy stream", func(a driver.API) error { return a.CaptureBegin(0, driver.CaptureRelaxed) }, driver.CaptureUnsupported},
		{"CaptureEnd of none", func(a driver.API) error { return fails(a.CaptureEnd(c.main)) }, driver.IllegalState},
	})
	for _, r := range []struct {
		name      string
		call      func() error
		want, end driver.Result
	}{
		{"nothing", func() error { return nil }, driver.Success, driver.Success},
		{"CaptureBegin", func() error { return e.CaptureBegin(c.main, driver.CaptureRelaxed) }, driver.IllegalState, driver.Success},
		{"StreamSynchronize", func() error { return e.StreamSynchronize(c.main) }, driver.CaptureUnsupported, driver.CaptureInvalidated},
		{"StreamQuery", func() error { return fails(e.StreamQuery(c.main)) }, driver.CaptureUnsupported, driver.CaptureInvalidated},
		{"Alloc", func() error { return fails(e.Alloc(512)) }, driver.CaptureUnsupported, driver.CaptureInvalidated},
		{"a wait for work outside", func() error {
			check(t, e.EventRecord(c.fork, c.side))
			return e.StreamWaitEvent(c.main, c.fork)
		}, driver.CaptureIsolation, driver.CaptureInvalidated},
		{"EventQuery of an event inside", func() error {
			check(t, e.EventRecord(c.fork, c.main))
			return fails(e.EventQuery(c.fork))
		}, driver.CapturedEvent, driver.CaptureInvalidated},
		{"CaptureEnd of a stream that joined", func() error {
			for _, err := range []error{e.EventRecord(c.fork, c.main), e.StreamWaitEvent(c.side, c.fork)} {
				check(t, err)
			}
			return fails(e.CaptureEnd(c.side))
		}, driver.CaptureUnmatched, driver.Success},
		{"a stream that does not come back", func() error {
			for _, err := range []error{e.EventRecord(c.fork, c.main), e.StreamWaitEvent(c.side, c.fork)} {
				check(t, err)
			}
			return e.Fill32Async(c.z, 1, 1, c.side)
		}, driver.Success, driver.CaptureUnjoined},
	} {
		check(t, e.CaptureBegin(c.main, driver.CaptureGlobal))
		if err := r.call(); code(err) != r.want {
			t.Errorf("in a capture, %s: %v, want code %d", r.name, err, r.want)
		}
		g, err := e.CaptureEnd(c.main)
		if code(err) != r.end {
			t.Errorf("the end of a capture with %s: %v, want code %d", r.name, err, r.end)
		}
		if err == nil {
			check(t, e.GraphDestroy(g))
		}
	}
}
