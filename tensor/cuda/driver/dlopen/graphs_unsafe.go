package dlopen

import (
	"unsafe"

	"github.com/ringside-go/ringside/tensor/cuda/driver"
)

type graphs struct{ l *library }

func (g graphs) CaptureBegin(s driver.Stream, m driver.CaptureMode) error {
	return g.l.call(streamBeginCapture, uintptr(s), uintptr(m))
}

func (g graphs) CaptureEnd(s driver.Stream) (driver.Graph, error) {
	out := new(driver.Graph)
	err := g.l.call(streamEndCapture, uintptr(s), uintptr(unsafe.Pointer(out)))
	return *out, err
}

// Capturing reports a capture that an error invalidated as one too: it has to be ended.
func (g graphs) Capturing(s driver.Stream) (bool, error) {
	status := new(int32)
	err := g.l.call(streamIsCapturing, uintptr(s), uintptr(unsafe.Pointer(status)))
	return *status != 0, err
}

func (g graphs) GraphNodes(gr driver.Graph) (int, error) {
	n := new(uint64)
	err := g.l.call(graphGetNodes, uintptr(gr), 0, uintptr(unsafe.Pointer(n)))
	return int(*n), err
}

func (g graphs) GraphInstantiate(gr driver.Graph) (driver.GraphExec, error) {
	return get[driver.GraphExec](g.l, graphInstantiate, uintptr(gr), 0)
}

// updateResult is CUgraphExecUpdateResultInfo.
type updateResult struct {
	result    int32
	err, from uintptr // the nodes at either end of an edge
}

func (g graphs) GraphUpdate(x driver.GraphExec, gr driver.Graph) error {
	return g.l.call(graphExecUpdate, uintptr(x), uintptr(gr), uintptr(unsafe.Pointer(new(updateResult))))
}

func (g graphs) GraphUpload(x driver.GraphExec, s driver.Stream) error {
	return g.l.call(graphUpload, uintptr(x), uintptr(s))
}

func (g graphs) GraphLaunch(x driver.GraphExec, s driver.Stream) error {
	return g.l.call(graphLaunch, uintptr(x), uintptr(s))
}

func (g graphs) GraphExecDestroy(x driver.GraphExec) error {
	return g.l.call(graphExecDestroy, uintptr(x))
}

func (g graphs) GraphDestroy(gr driver.Graph) error { return g.l.call(graphDestroy, uintptr(gr)) }
