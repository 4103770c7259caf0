package cuda

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/tensor"
)

var writeTable = flag.Bool("write", false, "write the table of docs/gpu.md instead of comparing it")

// recorder is an engine that keeps where the steps of the last program run, instead of
// running them.
type recorder struct {
	tensor.Engine
	steps []Placed
}

func (r *recorder) Submit(_ context.Context, b *tensor.Batch) ([]tensor.Fetched, error) {
	if b.Program != nil {
		r.steps = Place(b.Program)
	}
	return nil, nil
}

func (r *recorder) Name() string { return "recorder" }
func (r *recorder) Close() error { return nil }

// sample are operands and attributes of an operation in the table. An index is an operand
// of i64.
type sample struct {
	ints   func(d tensor.DType) []int64
	shapes [][]int
	index  int // the operand that is one; 0 for none
}

func attributes(ints ...int64) func(tensor.DType) []int64 {
	return func(tensor.DType) []int64 { return ints }
}

func withDType(ints ...int64) func(tensor.DType) []int64 {
	return func(d tensor.DType) []int64 { return append([]int64{int64(d)}, ints...) }
}

var (
	square  = []int{4, 4}
	picture = []int{1, 1, 4, 4}
	half    = []int{1, 1, 2, 2}
)

// samples are those of operations that need other than squares without attributes.
var samples = map[tensor.Op]sample{
	tensor.OpFull: {ints: withDType(4, 4)}, tensor.OpArange: {ints: withDType(4)},
	tensor.OpRand: {ints: withDType(0, 4, 4)}, tensor.OpRandN: {ints: withDType(0, 4, 4)},
	tensor.OpCast: {ints: withDType()}, tensor.OpDropout: {ints: attributes(0)},
	tensor.OpCumsum: {ints: attributes(0, 0)}, tensor.OpProdGrad: {ints: attributes(0), shapes: [][]int{square, {1, 4}}},
	tensor.OpConcat: {ints: attributes(0)}, tensor.OpPad: {ints: attributes(1, 1, 0, 2)},
	tensor.OpTril: {ints: attributes(0)}, tensor.OpTriu: {ints: attributes(0)},
	tensor.OpIndexSelect:      {ints: attributes(0), shapes: [][]int{square, {3}}, index: 1},
	tensor.OpIndexAdd:         {ints: attributes(0), shapes: [][]int{square, {3}, {3, 4}}, index: 1},
	tensor.OpGather:           {ints: attributes(0), index: 1},
	tensor.OpScatterAdd:       {ints: attributes(0), index: 1},
	tensor.OpSoftmax:          {ints: attributes(1)},
	tensor.OpSoftmaxGrad:      {ints: attributes(1)},
	tensor.OpLogSoftmax:       {ints: attributes(1)},
	tensor.OpLogSoftmaxGrad:   {ints: attributes(1)},
	tensor.OpLayerNorm:        {ints: attributes(1)},
	tensor.OpLayerNormGradX:   {ints: attributes(1)},
	tensor.OpLayerNormGradW:   {ints: attributes(1)},
	tensor.OpRMSNorm:          {ints: attributes(1)},
	tensor.OpRMSNormGradX:     {ints: attributes(1)},
	tensor.OpRMSNormGradW:     {ints: attributes(1)},
	tensor.OpRope:             {ints: attributes(0), shapes: [][]int{square, {4, 2}, {4, 2}}},
	tensor.OpCrossEntropy:     {ints: attributes(-100), shapes: [][]int{square, {4}}, index: 1},
	tensor.OpCrossEntropyGrad: {ints: attributes(-100), shapes: [][]int{square, {4}, {}}, index: 1},
	tensor.OpConv2D:           {ints: attributes(1, 1, 0, 0, 1, 1, 1), shapes: [][]int{picture, half}},
	tensor.OpConv2DGradX:      {ints: attributes(1, 1, 0, 0, 1, 1, 1, 4, 4), shapes: [][]int{{1, 1, 3, 3}, half}},
	tensor.OpConv2DGradW:      {ints: attributes(1, 1, 0, 0, 1, 1, 1, 2, 2), shapes: [][]int{picture, {1, 1, 3, 3}}},
	tensor.OpMaxPool2D:        {ints: attributes(2, 2, 2, 2, 0, 0), shapes: [][]int{picture}},
	tensor.OpMaxPool2DGrad:    {ints: attributes(2, 2, 2, 2, 0, 0), shapes: [][]int{picture, half}},
	tensor.OpAvgPool2D:        {ints: attributes(2, 2, 2, 2, 0, 0), shapes: [][]int{picture}},
	tensor.OpAvgPool2DGrad:    {ints: attributes(2, 2, 2, 2, 0, 0, 4, 4), shapes: [][]int{half}},
}

// placeOf returns where op of operands of dtype d runs, "" where there is no such
// operation.
func placeOf(t *testing.T, op tensor.Op, d tensor.DType) string {
	info := op.Info()
	sm := samples[op]
	r := &recorder{}
	s := tensor.NewSession(r, nil)
	defer s.Close()
	var args []tensor.Arg
	for i := range max(info.MinTensors, len(sm.shapes)) {
		shape, of := square, d
		if i < len(sm.shapes) {
			shape = sm.shapes[i]
		}
		switch {
		case sm.index > 0 && i == sm.index:
			of = tensor.I64
		case op == tensor.OpWhere && i == 0:
			of = tensor.Bool
		}
		args = append(args, tensor.T(tensor.Full(s, of, 0, shape...)))
	}
	if op == tensor.OpOneHot {
		args[0] = tensor.T(tensor.Full(s, tensor.I64, 0, 4))
		sm.ints = withDType(4)
	}
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	r.steps = nil
	for range info.Scalars {
		args = append(args, tensor.S(0.5))
	}
	var ints []int64
	switch {
	case sm.ints != nil:
		ints = sm.ints(d)
	case info.Class == tensor.ClassReduction:
		ints = []int64{0, 1}
	}
	y := s.Apply(op, ints, args...)
	if y.Err() != nil {
		return ""
	}
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	if len(r.steps) == 0 {
		t.Fatalf("%v of %v has no step", op, d)
	}
	for _, p := range r.steps {
		if p.Host {
			return "host"
		}
	}
	return "kernel"
}

// TestTable compares the table of docs/gpu.md with where the steps run. Operations with
// the same row share it.
func TestTable(t *testing.T) {
	names, all := map[string][]string{}, 0 // of operations, by their row
	var rows []string
	for _, op := range tensor.Ops() {
		if op.Info().Class == tensor.ClassView {
			continue
		}
		row := ""
		for _, d := range tensor.DTypes() {
			row += " " + placeOf(t, op, d) + " |"
		}
		kernels, hosts := strings.Count(row, "kernel"), strings.Count(row, "host")
		if kernels == 0 || hosts > 0 {
			t.Errorf("%v has a kernel in %d dtypes, and none in %d:%s", op, kernels, hosts, row)
		}
		all += kernels
		if names[row] == nil {
			rows = append(rows, row)
		}
		names[row] = append(names[row], op.String())
	}
	t.Logf("%d pairs of an operation and a dtype have kernels", all)
	var b strings.Builder
	b.WriteString("| operations |")
	for _, d := range tensor.DTypes() {
		fmt.Fprintf(&b, " %v |", d)
	}
	b.WriteString("\n|" + strings.Repeat("---|", len(tensor.DTypes())+1) + "\n")
	for _, row := range rows {
		fmt.Fprintf(&b, "| %s |%s\n", strings.Join(names[row], ", "), row)
	}
	const file, begins = "../../docs/gpu.md", "| operations |"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, found := strings.Cut(string(text), begins)
	old, tail, ends := strings.Cut(rest, "\n\n")
	if !found || !ends {
		t.Fatalf("%s has no table that begins with %q", file, begins)
	}
	if *writeTable {
		if err := os.WriteFile(file, []byte(head+b.String()+"\n"+tail), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if begins+old+"\n" != b.String() {
		t.Errorf("the table of %s is not what the code says; make ops writes it:\n%s", file, b.String())
	}
}
