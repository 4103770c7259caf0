package command

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ringside-go/ringside/tensor/cluster"
	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/cuda"
	"github.com/ringside-go/ringside/tensor/cuda/blas"
	"github.com/ringside-go/ringside/tensor/cuda/comm"
	"github.com/ringside-go/ringside/tensor/cuda/driver"
	"github.com/ringside-go/ringside/tensor/cuda/memory"
	"github.com/ringside-go/ringside/tensor/device"
)

const (
	autoDevice = "auto"
	maxGPUs    = 64 // more than a machine has
)

// devices is a value of --device: where workers compute.
type devices struct {
	text    string
	kind    device.Kind // 0 for auto
	numbers []int       // of GPUs; nil: all that there are
}

// deviceFlag adds --device. An empty value is the default.
func deviceFlag(f *pflag.FlagSet, text *string, what string) {
	f.StringVar(text, "device", "", "where "+what+": cpu, cuda (GPUs), cuda:0,1 (those GPUs), or auto (GPUs if there are any, else cpu) (default: cpu)")
}

// withoutProducts is the value of --cublas for none.
const withoutProducts = "off"

// productsFlag adds --cublas.
func productsFlag(f *pflag.FlagSet, text *string) {
	f.StringVar(text, "cublas", "", "library of matrix products on GPUs: off, or its file (default: libcublasLt.so of CUDA 13 or 12, if it is found)")
}

// collectivesNCCL is the value of --collectives for the machine's NCCL; a colon and a
// file may follow.
const collectivesNCCL = "nccl"

// collectivesFlag adds --collectives.
func collectivesFlag(f *pflag.FlagSet, text *string) {
	f.StringVar(text, "collectives", "", "library of collectives between GPUs of this host: nccl, or nccl:FILE (default: none, ringside runs them)")
}

// collectivesFile returns the file that a value of --collectives names, empty for the
// machine's.
func collectivesFile(text string) (file string, err error) {
	name, file, named := strings.Cut(text, ":")
	if name != collectivesNCCL || named && !filepath.IsAbs(file) {
		return "", usagef("--collectives %q: expected nccl, or nccl: and the absolute path of libnccl.so.2", text)
	}
	return file, nil
}

// collectivesLibrary returns the library of collectives for a value of --collectives, nil
// if that is empty.
func (h *host) collectivesLibrary(text string) (comm.Library, error) {
	if text == "" {
		return nil, nil
	}
	file, err := collectivesFile(text)
	if err != nil {
		return nil, err
	}
	return h.openCollectives(file)
}

// workerArgs returns the arguments of the processes of a cluster whose workers are given
// that value of --collectives; nil for those that cluster makes itself.
func (d devices) workerArgs(collectives string) (func(c cluster.Child) []string, error) {
	if collectives == "" {
		return nil, nil
	}
	if d.kind == device.CPU {
		return nil, usagef("--collectives %s is about GPUs, and workers use the cores: say --device cuda", collectives)
	}
	if _, err := collectivesFile(collectives); err != nil {
		return nil, err
	}
	return func(c cluster.Child) []string {
		args := cluster.DefaultArgs(c)
		if c.Role == cluster.RoleWorker {
			args = append(args, "--collectives", collectives)
		}
		return args
	}, nil
}

// library returns the library of matrix products for a value of --cublas, nil if it is
// off. Any other value than a file is the machine's.
func (h *host) library(api driver.API, text string) (blas.Library, error) {
	if text == withoutProducts {
		return nil, nil
	}
	if text != "" && !filepath.IsAbs(text) {
		return nil, usagef("--cublas %q: expected off, or the absolute path of libcublasLt.so", text)
	}
	v, err := api.Version()
	if err != nil {
		return nil, err
	}
	return h.openProducts(text, v)
}

// parseDevices reads a value of --device.
func parseDevices(text string) (devices, error) {
	d := devices{text: text, kind: device.CPU}
	name, list, some := strings.Cut(text, ":")
	switch {
	case text == "" || text == device.CPU.String():
		return d, nil
	case text == autoDevice:
		d.kind = 0
		return d, nil
	case name != device.CUDA.String():
		return d, usagef("--device %q: expected auto, cpu, cuda, or numbers of GPUs, as cuda:0,1", text)
	}
	d.kind = device.CUDA
	if !some {
		return d, nil
	}
	for field := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(field)
		if err != nil || n < 0 || n >= maxGPUs {
			return d, usagef("--device %q: GPU %q, expected a number from 0 to %d", text, field, maxGPUs-1)
		}
		if slices.Contains(d.numbers, n) {
			return d, usagef("--device %q: GPU %d is there twice; workers that are more than the GPUs share them", text, n)
		}
		d.numbers = append(d.numbers, n)
	}
	return d, nil
}

// find returns the numbers of the GPUs that were asked for and can be used, with their
// driver, or none for the cores. With auto it says why it is the cores; where GPUs were
// named, that is an error.
func (d devices) find(said io.Writer, h *host) (driver.API, []int, error) {
	if d.kind == device.CPU {
		return nil, nil, nil
	}
	api, numbers, f := h.usableGPUs(d, said)
	switch {
	case len(numbers) > 0:
		return api, numbers, nil
	case d.kind == 0:
		fmt.Fprintf(said, "workers use the cores; GPU driver: %s\n", f.text())
		return nil, nil, nil
	}
	return nil, nil, fmt.Errorf("--device %s: GPU driver: %s; without --device workers use the cores", d.text, f.text())
}

// text returns what was found and what to do.
func (f finding) text() string {
	if f.Do == "" {
		return f.Found
	}
	return f.Found + "; " + f.Do
}

// usableGPUs returns the driver and the numbers of those GPUs that d asks for and that
// can be opened, and why there are none. With auto it says which ones are left out.
func (h *host) usableGPUs(d devices, said io.Writer) (driver.API, []int, finding) {
	api, _, n, f := h.driver()
	if api == nil {
		return nil, nil, f
	}
	numbers := d.numbers
	for i := range n {
		if d.numbers == nil {
			numbers = append(numbers, i)
		}
	}
	var can []int
	for _, i := range numbers {
		if i >= n {
			return nil, nil, warned("", "it has %d device(s), and no GPU %d: expected 0 to %d", n, i, n-1)
		}
		err := tryGPU(api, i)
		switch {
		case err == nil:
			can = append(can, i)
		case d.kind == device.CUDA:
			return nil, nil, warned("", "GPU %d can't be used: %v", i, err)
		default:
			f = warned("", "GPU %d can't be used: %v", i, err)
			fmt.Fprintf(said, "%s\n", f.Found)
		}
	}
	return api, can, f
}

// tryGPU opens a device and closes it.
func tryGPU(api driver.API, number int) error {
	d, err := memory.Open(api, number, trialOptions)
	if err != nil {
		return err
	}
	return d.Close()
}

// forWorkers returns the value of --device for each of so many workers; 0 is one for each
// GPU, or onCores of them where it is the cores. Workers that are more than the GPUs
// share them.
func (d devices) forWorkers(cmd *cobra.Command, workers, onCores int) ([]string, error) {
	_, numbers, err := d.find(cmd.ErrOrStderr(), thisHost())
	if err != nil {
		return nil, err
	}
	if workers == 0 {
		workers = onCores
		if len(numbers) > 0 {
			workers = len(numbers)
		}
	}
	if len(d.numbers) > workers {
		return nil, usagef("--device %s: %d GPUs for %d workers, expected a worker for each", d.text, len(d.numbers), workers)
	}
	all := make([]string, workers)
	for i := range all {
		all[i] = device.CPU.String()
		if len(numbers) > 0 {
			all[i] = fmt.Sprintf("%v:%d", device.CUDA, numbers[i%len(numbers)])
		}
	}
	return all, nil
}

// onGPU returns what to say of a worker after its process: where it is, unless on cores.
func onGPU(device string) string {
	if strings.HasPrefix(device, "cuda") {
		return ", " + device
	}
	return ""
}

// open makes the device of a worker. o is for the cores, and for what a GPU leaves to
// them. products is a value of --cublas, collectives one of --collectives.
func (d devices) open(cmd *cobra.Command, o *cpu.Options, products, collectives string) (device.Device, error) {
	if len(d.numbers) > 1 {
		return nil, usagef("--device %s: a worker is on one GPU; ringside up starts several", d.text)
	}
	h := thisHost()
	api, numbers, err := d.find(cmd.ErrOrStderr(), h)
	switch {
	case err != nil:
		return nil, err
	case len(numbers) == 0 && collectives != "":
		return nil, usagef("--collectives %s is about GPUs, and this worker uses the cores: say --device cuda", collectives)
	case len(numbers) == 0:
		return cpu.New(o)
	case o.MaxBytes > 0:
		return nil, usagef("--memory-mib is about the cores: the memory of a GPU bounds its tensors; --session-mib bounds those of a session")
	}
	library, missing := h.library(api, products)
	if missing != nil && products != "" {
		return nil, fmt.Errorf("--cublas %s: %w", products, missing)
	}
	ranks, err := h.collectivesLibrary(collectives)
	if err != nil {
		return nil, fmt.Errorf("--collectives %s: %w", collectives, err)
	}
	dev, err := cuda.Open(api, numbers[0], &cuda.Options{Host: *o, Products: library, Collectives: ranks})
	if err != nil {
		return nil, fmt.Errorf("--device %s: GPU %d can't be used: %w", d.text, numbers[0], err)
	}
	if _, _, err := dev.Products(); err != nil {
		if products != "" {
			return nil, errors.Join(fmt.Errorf("--cublas %s: %w", products, err), dev.Close())
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "kernels of its own compute matrix products: %s can't be used: %v\n", library.Info().Path, err)
	}
	return dev, nil
}
