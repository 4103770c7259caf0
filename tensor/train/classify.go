package train

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/ringside-go/ringside/shm/plain"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/data"
	"github.com/ringside-go/ringside/tensor/nn"
)

// evalImages is the number of images that are classified at once: enough to make packing
// for a matrix product worthwhile.
const evalImages = 500

// Images are the data of a classifier: [n, 1, rows, columns] in, the class out.
type Images struct {
	Train, Test *data.Images
	From        string // where they lie
}

// LoadImages finds and loads a set in MNIST's format in the folder dir, which the path of
// its training images (From) names too, or Fashion-MNIST in a distribution's folder if
// dir is empty.
func LoadImages(dir string) (*Images, error) {
	find := data.FindFashionMNIST
	var dirs []string
	if dir != "" {
		if strings.TrimSuffix(filepath.Base(dir), ".gz") == data.TrainImages {
			dir = filepath.Dir(dir)
		}
		find, dirs = data.FindImages, []string{dir}
	}
	files, err := find(dirs...)
	if err != nil {
		return nil, err
	}
	set := &Images{From: files.TrainImages}
	set.Train, set.Test, err = files.Load()
	return set, err
}

func (d *Images) kind() string  { return "images" }
func (d *Images) where() string { return d.From }
func (d *Images) unit() string  { return "images" }

func (d *Images) content() [][]byte { return [][]byte{d.Train.Pixels, d.Train.Labels} }

func (d *Images) check(m *Model) error {
	if m.Side > 0 && (d.Train.Rows != m.Side || d.Train.Cols != m.Side) || m.Classes > 0 && d.Train.Classes > m.Classes {
		return fmt.Errorf("%w: %s: images of %dx%d in %s; %s takes %dx%d in at most %d", ErrData, plain.Name(d.From),
			d.Train.Rows, d.Train.Cols, plain.Count(d.Train.Classes, "class"), m.Name, m.Side, m.Side, m.Classes)
	}
	return nil
}

func (d *Images) loss(out, y *tensor.Tensor) *tensor.Tensor { return nn.CrossEntropy(out, y) }

// steps feeds shuffled epochs of the training images.
func (d *Images) steps(r *run) (feed, int, error) {
	rows := r.rows()
	epochs := data.NewEpochs(d.Train, r.o.Seed)
	x := make([]float32, rows*d.Train.Rows*d.Train.Cols)
	y := make([]int64, rows)
	return func(n int) (*tensor.Tensor, *tensor.Tensor, error) {
		if err := epochs.Fill(uint64(n)*uint64(rows), x, y); err != nil {
			return nil, nil, err
		}
		return tensor.From(r.s, x, rows, 1, d.Train.Rows, d.Train.Cols), tensor.From(r.s, y), nil
	}, rows, nil
}

// evaluate classifies every image of the test set.
func (d *Images) evaluate(ctx context.Context, r *run) error {
	start := time.Now()
	size := d.Test.Rows * d.Test.Cols
	x := make([]float32, evalImages*size)
	y := make([]int64, evalImages)
	var right, loss float64
	for first := 0; first < d.Test.Count; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := d.Test.Slice(first, x, y)
		if err != nil {
			return err
		}
		hits, nll, err := d.judge(r, x[:n*size], y[:n])
		if err != nil {
			return err
		}
		right += hits
		loss += nll * float64(n)
		first += n
	}
	accuracy := right / float64(d.Test.Count)
	r.sum.Accuracy, r.sum.HeldOut = &accuracy, loss/float64(d.Test.Count)
	r.sum.EvalSeconds = time.Since(start).Seconds()
	return nil
}

// sample does nothing: a classifier writes no text.
func (d *Images) sample(context.Context, *run) error { return nil }

// judge returns how many images it recognises, and the mean of their losses, with one
// program and one read.
func (d *Images) judge(r *run, x []float32, y []int64) (hits, loss float64, err error) {
	both := nn.Result(r.s, func() *tensor.Tensor {
		labels := tensor.From(r.s, y)
		logits := r.net.Forward(tensor.From(r.s, x, len(y), 1, d.Test.Rows, d.Test.Cols))
		same := logits.Argmax(-1).Eq(labels).Cast(tensor.F32).Sum()
		return tensor.Stack(0, same, nn.CrossEntropy(logits, labels))
	})
	defer both.Free()
	v, err := tensor.Data[float32](both)
	if err != nil {
		return 0, 0, err
	}
	return float64(v[0]), float64(v[1]), nil
}
