package data

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/ringside-go/ringside/shm/plain"
)

// Images is a set of grey images and their classes.
type Images struct {
	Count, Rows, Cols int
	Classes           int    // one more than the largest label
	Pixels            []byte // [Count, Rows, Cols], 0 is black
	Labels            []byte // [Count]
}

// LoadImages reads an IDX file of images and the one of their labels. A set without
// images, and images without pixels, are ErrFormat.
func LoadImages(imagesPath, labelsPath string) (*Images, error) {
	img, err := ReadIDXFile(imagesPath)
	if err != nil {
		return nil, err
	}
	if len(img.Dims) != 3 || len(img.Data) == 0 {
		return nil, fmt.Errorf("%w: %s: dimensions %v, expected [images, rows, columns], none 0", ErrFormat, plain.Name(imagesPath), img.Dims)
	}
	lab, err := ReadIDXFile(labelsPath)
	if err != nil {
		return nil, err
	}
	if len(lab.Dims) != 1 {
		return nil, fmt.Errorf("%w: %s: dimensions %v, expected [labels]", ErrFormat, plain.Name(labelsPath), lab.Dims)
	}
	if lab.Dims[0] != img.Dims[0] {
		return nil, fmt.Errorf("%w: %s holds %d labels, expected %d, one for each image in %s", ErrMismatch, plain.Name(labelsPath), lab.Dims[0], img.Dims[0], plain.Name(imagesPath))
	}
	set := &Images{Count: img.Dims[0], Rows: img.Dims[1], Cols: img.Dims[2], Pixels: img.Data, Labels: lab.Data}
	for _, l := range set.Labels {
		set.Classes = max(set.Classes, int(l)+1)
	}
	return set, nil
}

// FashionMNISTDir is where Debian's package dataset-fashion-mnist puts its files.
const FashionMNISTDir = "/usr/share/datasets/fashion-mnist"

// ImageFiles are the paths of a set in the four files that MNIST came in.
type ImageFiles struct {
	TrainImages, TrainLabels string
	TestImages, TestLabels   string
}

// FindFashionMNIST looks for the set in each of dirs and then in FashionMNISTDir. If none
// holds all four files it returns ErrNotFound, which says how to get them.
func FindFashionMNIST(dirs ...string) (*ImageFiles, error) {
	dirs = append(dirs[:len(dirs):len(dirs)], FashionMNISTDir)
	files, err := FindImages(dirs...)
	if err != nil {
		return nil, fmt.Errorf("%w; `apt-get install dataset-fashion-mnist` puts Fashion-MNIST into %s", err, FashionMNISTDir)
	}
	return files, nil
}

// TrainImages is the name of a set's file of training images, which may end in .gz.
const TrainImages = "train-images-idx3-ubyte"

// FindImages returns the files of the first of dirs that holds all four files of a set
// named as MNIST's: {train,t10k}-{images-idx3,labels-idx1}-ubyte, each plain or with .gz
// appended. It returns ErrNotFound, with the missing files of each folder.
func FindImages(dirs ...string) (*ImageFiles, error) {
	var missing []string
	for _, dir := range dirs {
		var files ImageFiles
		ok := true
		for _, f := range []struct {
			name string
			path *string
		}{
			{TrainImages, &files.TrainImages},
			{"train-labels-idx1-ubyte", &files.TrainLabels},
			{"t10k-images-idx3-ubyte", &files.TestImages},
			{"t10k-labels-idx1-ubyte", &files.TestLabels},
		} {
			var err error
			if *f.path, err = plainOrGzip(filepath.Join(dir, f.name)); err != nil {
				missing = append(missing, fmt.Sprintf("%s has no %s[.gz] (%v)", plain.Name(dir), f.name, err))
				ok = false
				break
			}
		}
		if ok {
			return &files, nil
		}
	}
	if len(missing) == 0 {
		missing = append(missing, "no folder to search")
	}
	return nil, fmt.Errorf("%w: %s", ErrNotFound, strings.Join(missing, ", "))
}

// plainOrGzip returns path or path.gz, whichever is a file, or the reason why neither is.
func plainOrGzip(path string) (string, error) {
	var why error
	for _, p := range [...]string{path, path + ".gz"} {
		switch st, err := os.Stat(p); {
		case err == nil && st.Mode().IsRegular():
			return p, nil
		case err == nil:
			why = fmt.Errorf("%s is %v", filepath.Base(p), st.Mode())
		case why == nil || !errors.Is(err, fs.ErrNotExist):
			why = errors.Unwrap(err) // without the path: "permission denied"
		}
	}
	return "", why
}

// Load reads the training set and the test set. They must have images of one size;
// both get the larger number of classes.
func (f *ImageFiles) Load() (train, test *Images, err error) {
	if train, err = LoadImages(f.TrainImages, f.TrainLabels); err != nil {
		return nil, nil, err
	}
	if test, err = LoadImages(f.TestImages, f.TestLabels); err != nil {
		return nil, nil, err
	}
	if train.Rows != test.Rows || train.Cols != test.Cols {
		return nil, nil, fmt.Errorf("%w: %s holds images of %dx%d, expected %dx%d as in %s", ErrMismatch, plain.Name(f.TestImages), test.Rows, test.Cols, train.Rows, train.Cols, plain.Name(f.TrainImages))
	}
	train.Classes = max(train.Classes, test.Classes)
	test.Classes = train.Classes
	return train, test, nil
}
