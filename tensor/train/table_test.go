package train

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/data"
	"github.com/ringside-go/ringside/tensor/device/devicetest"
	"github.com/ringside-go/ringside/tensor/nn"
)

// points is a table of points in a square: which of both diagonal halves they lie in, or
// the sum of both columns.
func points(t testing.TB, rows int, number bool) *Table {
	t.Helper()
	read, err := data.ReadCSV(strings.NewReader(pointsText(rows, number)), "points", &data.TableOptions{Regression: number})
	if err != nil {
		t.Fatal(err)
	}
	d, err := SplitTable(read, "points")
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// pointsText is the table of points as text.
func pointsText(rows int, number bool) string {
	var text strings.Builder
	text.WriteString("x,y,half\n")
	for i := range uint64(rows) {
		x, y := float64(data.Index(data.Key("x"), i, 1000))/500-1, float64(data.Index(data.Key("y"), i, 1000))/500-1
		label := fmt.Sprint(x > y)
		if number {
			label = fmt.Sprint(x + y)
		}
		fmt.Fprintf(&text, "%v,%v,%s\n", x, y, label)
	}
	return text.String()
}

// own is a model that is not in the list.
func own(outputs int) *Model {
	return &Model{
		Name: "own", Data: "table", Classes: 2,
		Defaults: Options{Steps: 150, Batch: 32, LR: 1e-2, LossEvery: 10},
		Build: func(s *tensor.Session) (nn.Layer, error) {
			return nn.Sequential{nn.NewLinear(s, 2, 16, true), nn.ReLU(), nn.NewLinear(s, 16, outputs, true)}, nil
		},
	}
}

// TestTable trains a model of the test's own on a table: for classes and for numbers, in
// one batch, in several and in pieces, through a cluster, and stopped between.
func TestTable(t *testing.T) { devicetest.Each(t, testTable) }

func testTable(t *devicetest.T) {
	d, m := points(t, 500, false), own(2)
	kept, saved := filepath.Join(t.TempDir(), "run"), filepath.Join(t.TempDir(), "own.safetensors")
	whole, err := m.Train(t.Context(), inProcess(t), d, &Options{Seed: 3, Save: saved})
	if err != nil || whole.Unit != "rows" || whole.Accuracy == nil || *whole.Accuracy < 0.9 || whole.BitsPerByte != nil || whole.Sample != "" {
		t.Fatalf("%+v, %v", whole, err)
	}
	s, _ := throughCluster(t)
	if sum, err := m.Train(t.Context(), s, d, &Options{Seed: 3}); err != nil || !slices.Equal(sum.Losses, whole.Losses) || sum.HeldOut != whole.HeldOut {
		t.Errorf("through a cluster: %v, %+v, expected %+v", err, sum, whole)
	}
	if e, err := m.Evaluate(t.Context(), inProcess(t), d, saved); err != nil || e.HeldOut != whole.HeldOut || *e.Accuracy != *whole.Accuracy {
		t.Errorf("with the saved weights: %+v, %v, expected a loss of %v", e, err, whole.HeldOut)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stop := Options{Seed: 3, Checkpoint: kept, Progress: func(p Progress) {
		if p.Step >= 50 {
			cancel()
		}
	}}
	part, err := m.Train(ctx, inProcess(t), d, &stop)
	if err != nil || !part.Stopped || part.Checkpoint != kept {
		t.Fatalf("stopped: %+v, %v", part, err)
	}
	if rest, err := m.Train(t.Context(), inProcess(t), d, &Options{Resume: kept}); err != nil || rest.Loss != whole.Loss || rest.HeldOut != whole.HeldOut {
		t.Errorf("resumed: %+v, %v, expected %v and %v", rest, err, whole.Loss, whole.HeldOut)
	}
	numbers := points(t, 500, true)
	for name, o := range map[string]Options{"whole": {}, "accumulated": {Batch: 16, Accumulate: 2}, "in pieces": {MicroBatches: 2}} {
		o.Seed = 3
		sum, err := own(1).Train(t.Context(), inProcess(t), numbers, &o)
		if err != nil || sum.Accuracy != nil || sum.HeldOut > 0.05 || sum.HeldOut <= 0 {
			t.Errorf("numbers, %s: %+v, %v", name, sum, err)
		}
	}
}

// TestTableErrors checks what is refused before anything is trained.
func TestTableErrors(t *testing.T) { devicetest.Each(t, testTableErrors) }

func testTableErrors(t *devicetest.T) {
	three := points(t, 10, false)
	three.Train.Classes = []string{"a", "b", "c"}
	noBuild, noContext := own(2), own(2)
	noBuild.Build = nil
	noContext.Data = "text"
	noNet := own(2)
	noNet.Build = func(*tensor.Session) (nn.Layer, error) { return nil, nil }
	d, numbers := points(t, 10, false), points(t, 10, true)
	narrow := *d.Held
	narrow.Names, narrow.X = narrow.Names[:1], narrow.X[:narrow.Rows]
	for _, c := range []struct {
		m    *Model
		d    Data
		want error
		says string
	}{
		{own(2), three, ErrData, `points: column "half" has 3 values, so 3 classes; own has 2; if it is a number to predict`},
		{own(2), someText(), ErrData, "own learns from table, and "},
		{noBuild, d, ErrModel, `"own" has no Build`},
		{noNet, d, ErrModel, `Build of "own" returned neither a network nor an error`},
		{own(2), &Table{Train: d.Train, From: "half"}, ErrData, "half: no table"},
		{own(2), &Table{Held: d.Held, From: "half"}, ErrData, "half: no table"},
		{own(2), &Table{Train: d.Train, Held: &narrow, From: "cut"}, ErrData, "cut: the rows held out have 1 column and those to train on 2"},
		{own(2), &Table{Train: d.Train, Held: numbers.Held, From: "both"}, ErrData, "classes or numbers in both"},
		{own(2), &Table{Train: &data.Table{Rows: 9, Names: d.Train.Names}, Held: d.Held, From: "bare"}, ErrData, "bare: 9 rows of 2 columns with 0 numbers"},
		{noContext, someText(), ErrModel, "own has Context 0"},
	} {
		if _, err := c.m.Train(t.Context(), inProcess(t), c.d, nil); !errors.Is(err, c.want) || !strings.Contains(fmt.Sprint(err), c.says) {
			t.Errorf("%v, expected %q", err, c.says)
		}
	}
	if _, err := noBuild.Export(t.Context(), inProcess(t), "none", t.TempDir()); !errors.Is(err, ErrModel) {
		t.Errorf("export without a Build: %v", err)
	}
	for _, table := range []*data.Table{
		{Rows: 5, Class: make([]int64, 5)},
		{Names: []string{"x"}, Rows: 4, X: make([]float32, 4), Class: make([]int64, 4)},
		{Names: []string{"x"}, Rows: 5, X: make([]float32, 4), Class: make([]int64, 5)},
		{Names: []string{"x"}, Rows: 5, X: make([]float32, 5), Target: make([]float32, 4)},
	} {
		if _, err := SplitTable(table, "few"); !errors.Is(err, ErrData) || !strings.Contains(err.Error(), "few: ") {
			t.Errorf("%d rows: %v", table.Rows, err)
		}
	}
	if _, err := own(2).Load(""); !errors.Is(err, ErrData) || !strings.Contains(err.Error(), "no file of a table") {
		t.Errorf("a table without a path: %v", err)
	}
	if _, err := LoadTable(filepath.Join(t.TempDir(), "none.csv"), nil); err == nil {
		t.Error("a file that is not there was loaded")
	}
}

// TestTableLabels: a table whose classes and columns have another order than those
// trained is evaluated, trained on and exported by their names, and other names are an
// error.
func TestTableLabels(t *testing.T) { devicetest.Each(t, testTableLabels) }

func testTableLabels(t *devicetest.T) {
	m := own(2)
	m.Classes = 0
	table := func(of func(x, y, class string) string) *Table {
		var text strings.Builder
		for line := range strings.Lines(pointsText(500, false)) {
			f := strings.Split(strings.TrimSpace(line), ",")
			text.WriteString(of(f[0], f[1], f[2]) + "\n")
		}
		read, err := data.ReadCSV(strings.NewReader(text.String()), "other.csv", &data.TableOptions{Label: "half"})
		if err != nil {
			t.Fatal(err)
		}
		d, err := SplitTable(read, "other.csv")
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	named := func(no, yes string) func(string) string {
		return strings.NewReplacer("true", yes, "false", no).Replace
	}
	up := named("b-lower", "a-upper")
	d := table(func(x, y, class string) string { return x + "," + y + "," + up(class) })
	kept, saved := filepath.Join(t.TempDir(), "run"), filepath.Join(t.TempDir(), "own.safetensors")
	sum, err := m.Train(t.Context(), inProcess(t), d, &Options{Seed: 3, Save: saved, Checkpoint: kept})
	if err != nil || *sum.Accuracy < 0.9 {
		t.Fatalf("%+v, %v", sum, err)
	}
	out := filepath.Join(t.TempDir(), "out.safetensors")
	if _, err := m.Export(t.Context(), inProcess(t), kept, out); err != nil {
		t.Fatal(err)
	}
	// The labels are in other columns, and of the classes only one is held out: by itself
	// it would be class 0.
	moved := table(func(x, y, class string) string { return up(class) + "," + y + "," + x })
	one := *moved.Held
	one.Classes, one.Class, one.X, one.Rows = []string{"b-lower"}, nil, nil, 0
	for i, c := range moved.Held.Class {
		if moved.Held.Classes[c] == "b-lower" {
			one.X = append(one.X, moved.Held.X[2*i:2*i+2]...)
			one.Class, one.Rows = append(one.Class, 0), one.Rows+1
		}
	}
	for name, path := range map[string]string{"a file": saved, "a checkpoint": kept, "an export": out} {
		if e, err := m.Evaluate(t.Context(), inProcess(t), moved, path); err != nil || e.HeldOut != sum.HeldOut || *e.Accuracy != *sum.Accuracy {
			t.Errorf("%s: %+v, %v, expected a loss of %v", name, e, err, sum.HeldOut)
		}
		part := &Table{Train: d.Train, Held: &one, From: "one"}
		if e, err := m.Evaluate(t.Context(), inProcess(t), part, path); err != nil || *e.Accuracy < 0.9 {
			t.Errorf("%s: one class of two: %+v, %v", name, e, err)
		}
		more, err := m.Train(t.Context(), inProcess(t), moved, &Options{Steps: 1, LR: 1e-9, Load: path})
		if err != nil || *more.Accuracy < 0.9 {
			t.Errorf("%s: trained on: %+v, %v", name, more, err)
		}
	}
	// A run that began so goes on with the same rows.
	further := Options{Steps: 10, Load: saved, Checkpoint: filepath.Join(t.TempDir(), "further")}
	if _, err := m.Train(t.Context(), inProcess(t), moved, &further); err != nil {
		t.Fatal(err)
	}
	if again, err := m.Train(t.Context(), inProcess(t), moved, &Options{Resume: further.Checkpoint}); err != nil || *again.Accuracy < 0.9 {
		t.Errorf("resumed: %+v, %v", again, err)
	}
	red := named("red", "a-upper")
	for says, of := range map[string]func(x, y, class string) string{
		`other.csv: class "red" is unknown to the weights in ` + saved + `, which have "a-upper", "b-lower"`: func(x, y, class string) string {
			return x + "," + y + "," + red(class)
		},
		`other.csv: column "z" is unknown to the weights in ` + saved + `, which have "x", "y"`: func(x, y, class string) string {
			return x + "," + strings.Replace(y, "y", "z", 1) + "," + up(class)
		},
		`other.csv has 1 column and lacks "y"`:                            func(x, _, class string) string { return x + "," + up(class) },
		`other.csv: column "x" is there twice`:                            func(x, y, class string) string { return x + "," + y + "," + up(class) },
		"the classes \"a-upper\", \"b-lower\", expected a table of these": nil,
	} {
		other := points(t, 500, true)
		if of != nil {
			other = table(of)
		}
		if strings.Contains(says, "twice") {
			other.Train.Names = []string{"x", "x"}
		}
		if _, err := m.Evaluate(t.Context(), inProcess(t), other, saved); !errors.Is(err, ErrData) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, expected %q", err, says)
		}
	}
	wild := *d.Held
	wild.Classes, wild.Class = []string{"b-lower", "a-upper"}, slices.Repeat([]int64{7}, wild.Rows)
	if _, err := m.Evaluate(t.Context(), inProcess(t), &Table{Train: d.Train, Held: &wild, From: "wild"}, saved); !errors.Is(err, ErrData) || !strings.Contains(err.Error(), "row 0 has class 7") {
		t.Errorf("a class that is no index: %v", err)
	}
}

// TestTableTexts: a table whose texts have other numbers than those trained, or another
// scale, is evaluated and trained on as the weights have them.
func TestTableTexts(t *testing.T) { devicetest.Each(t, testTableTexts) }

func testTableTexts(t *devicetest.T) {
	m := own(2)
	split := func(text string, o *data.TableOptions) *Table {
		t.Helper()
		read, err := data.ReadCSV(strings.NewReader(text), "texts.csv", o)
		if err != nil {
			t.Fatal(err)
		}
		d, err := SplitTable(read, "texts.csv")
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	rows := func(names ...string) string {
		text := "colour,size,ripe\n"
		for i := range uint64(500) {
			c, size := data.Index(data.Key("colour"), i, uint64(len(names))), data.Index(data.Key("size"), i, 1000)
			text += fmt.Sprintf("%s,%d,%t\n", names[c], size, (c%2 == 0) == (size > 500))
		}
		return text
	}
	texts := &data.TableOptions{Categories: []string{"colour"}}
	d := split(rows("red", "lime", "plum"), texts)
	scale, err := data.ScaleOf(d.Train.X, 2)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []*data.Table{d.Train, d.Held} {
		if err := part.ApplyScale(scale); err != nil {
			t.Fatal(err)
		}
	}
	saved := filepath.Join(t.TempDir(), "own.safetensors")
	sum, err := m.Train(t.Context(), inProcess(t), d, &Options{Seed: 3, Save: saved, Steps: 600})
	if err != nil || *sum.Accuracy < 0.9 {
		t.Fatalf("%+v, %v", sum, err)
	}
	// Without "plum" the other two have the numbers 0 and 1 of "lime" and "plum" before.
	for name, other := range map[string]*Table{
		"without a scale": split(rows("red", "lime", "plum"), texts),
		"fewer texts":     split(rows("red", "lime"), texts),
	} {
		e, err := m.Evaluate(t.Context(), inProcess(t), other, saved)
		if err != nil || *e.Accuracy < 0.9 || name == "without a scale" && *e.Accuracy != *sum.Accuracy {
			t.Errorf("%s: %+v, %v, expected about %v", name, e, err, *sum.Accuracy)
		}
		more, err := m.Train(t.Context(), inProcess(t), other, &Options{Steps: 1, LR: 1e-9, Load: saved})
		if err != nil || *more.Accuracy != *e.Accuracy {
			t.Errorf("%s: trained on: %+v, %v, expected %v", name, more, err, *e.Accuracy)
		}
	}
	wild := *d.Held
	wild.X = slices.Repeat([]float32{100}, len(wild.X))
	short := *d.Held
	short.Categories = short.Categories[:1]
	other := *d.Held
	other.Categories = [][]string{{"red", "lime", "plum"}, nil}
	wild.Categories = other.Categories
	for says, held := range map[string]*data.Table{
		`texts.csv: column "colour" holds numbers, and that of the weights in ` + saved + " texts":                               split(rows("1", "2"), nil).Held,
		`texts.csv: text "kiwi" is unknown to column "colour" of the weights in ` + saved + `, which have "lime", "plum", "red"`: split(rows("red", "kiwi"), texts).Held,
		`texts.csv: row 0, column "colour": `: &wild,
		"2 columns with categories of 1":      &short,
	} {
		d := &Table{Train: held, Held: held, From: "texts.csv"}
		if held == &wild {
			d.Train = &other
		}
		if _, err := m.Evaluate(t.Context(), inProcess(t), d, saved); !errors.Is(err, ErrData) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, expected %q", err, says)
		}
	}
}

// houses is a table with a column of texts, one of numbers, and a price of six digits.
func houses(t testing.TB, rows int, names ...string) *data.Table {
	t.Helper()
	text := "heating,area,price\n"
	for i := range uint64(rows) {
		h, area := data.Index(data.Key("heating"), i, uint64(len(names))), data.Index(data.Key("area"), i, 200)
		text += fmt.Sprintf("%s,%d,%d\n", names[h], 40+area, 100_000+2000*area+60_000*h)
	}
	read, err := data.ReadCSV(strings.NewReader(text), "houses.csv", &data.TableOptions{Regression: true, Categories: []string{data.AllTexts}, OneHot: true})
	if err != nil {
		t.Fatal(err)
	}
	return read
}

// TestStandardize: large numbers are learnt, told and predicted in their own unit, and a
// table with fewer texts is judged as one that has all.
func TestStandardize(t *testing.T) { devicetest.Each(t, testStandardize) }

func testStandardize(t *devicetest.T) {
	m := own(1)
	m.Build = func(s *tensor.Session) (nn.Layer, error) {
		return nn.Sequential{nn.NewLinear(s, 4, 16, true), nn.ReLU(), nn.NewDropout(0.01), nn.NewLinear(s, 16, 1, true)}, nil
	}
	names := []string{"gas", "none", "oil"}
	split := func(names ...string) *Table {
		d, err := SplitTable(houses(t, 400, names...), "houses.csv")
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	d, saved := split(names...), filepath.Join(t.TempDir(), "own.safetensors")
	if err := d.Standardize(); err != nil {
		t.Fatal(err)
	}
	sum, err := m.Train(t.Context(), inProcess(t), d, &Options{Seed: 3, Steps: 300, Save: saved})
	if err != nil || sum.Explained == nil || *sum.Explained < 0.95 || sum.HeldOut < 1e4 || sum.HeldOut > 1e9 || sum.Loss > 1 {
		t.Fatalf("%+v, %v, expected an error in squares of the price, and a loss that is not", sum, err)
	}
	for name, other := range map[string]*Table{"as read": split(names...), "fewer texts": split("gas", "none")} {
		e, err := m.Evaluate(t.Context(), inProcess(t), other, saved)
		if err != nil || e.Explained == nil || *e.Explained < 0.9 {
			t.Errorf("%s: %+v, %v", name, e, err)
		} else if name == "as read" && (e.HeldOut < sum.HeldOut*0.999 || e.HeldOut > sum.HeldOut*1.001) {
			t.Errorf("%s: %v, expected %v", name, e.HeldOut, sum.HeldOut)
		}
	}
	form, err := FormOf(saved)
	if err != nil || form.Label != "price" || form.Target == nil || len(form.OneHot) != 4 || form.TargetScale == nil {
		t.Fatalf("%+v, %v", form, err)
	}
	rows, err := data.ReadCSV(strings.NewReader("area,heating\n100,gas\n100,oil\n"), "new.csv", &data.TableOptions{Like: form, NoLabel: true})
	if err != nil {
		t.Fatal(err)
	}
	prices, err := m.Predict(t.Context(), inProcess(t), rows, saved)
	if err != nil || len(prices) != 2 || prices[0] < 190_000 || prices[0] > 250_000 || prices[1]-prices[0] < 90_000 || prices[1]-prices[0] > 150_000 {
		t.Errorf("%v, %v, expected about 220000 and 340000", prices, err)
	}
	// Rows that were read without the form are brought to it.
	plain := &data.Table{Names: []string{"area"}, Rows: 1, X: []float32{100}}
	if _, err := m.Predict(t.Context(), inProcess(t), plain, saved); !errors.Is(err, ErrData) || !strings.Contains(err.Error(), `the rows to predict has 1 column and lacks "heating=gas"`) {
		t.Errorf("rows without texts: %v", err)
	}
	if again, err := m.Predict(t.Context(), inProcess(t), split(names...).Held, saved); err != nil || len(again) != 80 || again[0] < 100_000 {
		t.Errorf("rows as they were read: %v, %v", again, err)
	}
	if err := d.Standardize(); !errors.Is(err, data.ErrMismatch) {
		t.Errorf("standardized twice: %v", err)
	}
	bare := filepath.Join(t.TempDir(), "bare.safetensors")
	if err := nn.Save(bare, nn.NewLinear(inProcess(t), 4, 1, true).Params(), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := FormOf(bare); !errors.Is(err, ErrData) || !strings.Contains(err.Error(), "do not say which table they learnt from") {
		t.Errorf("weights without a form: %v", err)
	}
	for says, note := range map[string]string{"no columns": "{}", "marks of 1": `{"Names":["a","b"],"OneHot":[{}]}`, "table": "{"} {
		if _, err := formIn(map[string]string{noteTable: note}, "w"); !errors.Is(err, ErrData) || !strings.Contains(err.Error(), says) {
			t.Errorf("the note %q: %v, expected %q", note, err, says)
		}
	}
}

// TestManyNames finds many names in another order in time that does not grow with their
// square.
func TestManyNames(t *testing.T) {
	all := make([]string, 200_000)
	for i := range all {
		all[i] = fmt.Sprintf("text %d", i)
	}
	names := slices.Clone(all)
	slices.Reverse(names)
	at, err := fitting{}.places(names, all, "text", "the weights")
	if err != nil || at[0] != len(all)-1 || at[len(all)-1] != 0 {
		t.Errorf("%v, the first of %d is at %d", err, len(at), at[0])
	}
}
