package nccl

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/ringside-go/ringside/shm/testneeds"
	"github.com/ringside-go/ringside/tensor/cuda/comm"
	"github.com/ringside-go/ringside/tensor/cuda/driver/drivertest"
	"github.com/ringside-go/ringside/tensor/cuda/fakecuda"
)

// standIns returns a folder with the stand-ins, which have state of their own.
func standIns(t *testing.T) string {
	t.Helper()
	testneeds.GCC.Program(t, os.Getenv, fakecuda.Compiler())
	dir := t.TempDir()
	if _, err := fakecuda.Copy(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestABI compares the numbers and the arguments of all calls with NVIDIA's header.
func TestABI(t *testing.T) {
	b, err := os.ReadFile(drivertest.NVIDIA(t, os.Getenv, "include/nccl.h"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for name, value := range map[string]int{
		"ncclUint8": typeU8, "ncclInt32": typeI32, "ncclInt64": typeI64, "ncclFloat16": typeF16, "ncclFloat32": typeF32, "ncclFloat64": typeF64, "ncclBfloat16": typeBF16,
		"ncclSum": opSum, "ncclProd": opProd, "ncclMax": opMax, "ncclMin": opMin,
		"ncclSuccess": int(Success), "ncclUnhandledCudaError": int(UnhandledCUDAError), "ncclSystemError": int(SystemError), "ncclInternalError": int(InternalError),
		"ncclInvalidArgument": int(InvalidArgument), "ncclInvalidUsage": int(InvalidUsage), "ncclRemoteError": int(RemoteError), "ncclInProgress": int(InProgress),
	} {
		m := regexp.MustCompile(`\b` + name + `\s*=\s*(\d+)`).FindStringSubmatch(text)
		if m == nil || m[1] != strconv.Itoa(value) {
			t.Errorf("%s is %q in NVIDIA's header, %d here", name, m, value)
		}
	}
	for name, value := range map[string]string{"NCCL_UNIQUE_ID_BYTES": strconv.Itoa(comm.IDSize), "NCCL_CONFIG_UNDEF_INT": "INT_MIN"} {
		if !regexp.MustCompile(`#define\s+` + name + `\s+` + value + `\b`).MatchString(text) {
			t.Errorf("%s is not %s in NVIDIA's header", name, value)
		}
	}
	first := regexp.MustCompile(`size_t size;[^}]*?unsigned int magic;[^}]*?unsigned int version;[^}]*?int blocking;`)
	if !first.MatchString(text) || unsafe.Sizeof(config{}) != 24 || unsafe.Offsetof(config{}.blocking) != 16 {
		t.Error("ncclConfig_t begins with other fields in NVIDIA's header")
	}
	if !regexp.MustCompile(`(?i)` + strconv.FormatUint(configMagic, 16)).MatchString(text) {
		t.Errorf("NCCL_API_MAGIC is not %x in NVIDIA's header", configMagic)
	}
	for f, kinds := range arguments {
		if got := prototype(text, symbols[f]); !slices.Equal(got, kinds) {
			t.Errorf("%s takes %q in NVIDIA's header, expected %q", symbols[f], got, kinds)
		}
	}
}

// arguments are the types that each call is given.
var arguments = map[symbol][]string{
	getVersion:    {"int*"},
	getUniqueID:   {"ncclUniqueId*"},
	commInit:      {"ncclComm_t*", "int", "ncclUniqueId", "int", "ncclConfig_t*"},
	commFinalize:  {"ncclComm_t"},
	commDestroy:   {"ncclComm_t"},
	commAbort:     {"ncclComm_t"},
	commState:     {"ncclComm_t", "ncclResult_t*"},
	lastError:     {"ncclComm_t"},
	groupStart:    {},
	groupEnd:      {},
	allReduce:     {"void*", "void*", "size_t", "ncclDataType_t", "ncclRedOp_t", "ncclComm_t", "cudaStream_t"},
	allGather:     {"void*", "void*", "size_t", "ncclDataType_t", "ncclComm_t", "cudaStream_t"},
	reduceScatter: {"void*", "void*", "size_t", "ncclDataType_t", "ncclRedOp_t", "ncclComm_t", "cudaStream_t"},
	broadcast:     {"void*", "void*", "size_t", "ncclDataType_t", "int", "ncclComm_t", "cudaStream_t"},
	reduce:        {"void*", "void*", "size_t", "ncclDataType_t", "ncclRedOp_t", "int", "ncclComm_t", "cudaStream_t"},
	send:          {"void*", "size_t", "ncclDataType_t", "int", "ncclComm_t", "cudaStream_t"},
	receive:       {"void*", "size_t", "ncclDataType_t", "int", "ncclComm_t", "cudaStream_t"},
}

// prototype returns the types of a function's parameters in a header, without names.
func prototype(text, name string) []string {
	m := regexp.MustCompile(`(?s)\b` + name + `\(([^)]*)\);`).FindStringSubmatch(text)
	if m == nil {
		return nil
	}
	out := []string{}
	for p := range strings.SplitSeq(m[1], ",") {
		words := strings.Fields(strings.NewReplacer("const ", "", "*", "* ").Replace(p))
		if len(words) == 0 || words[0] == "void" && len(words) == 1 {
			continue
		}
		typ := strings.Join(words[:max(len(words)-1, 1)], "")
		if words[len(words)-1] == "*" {
			typ = strings.Join(words, "")
		}
		out = append(out, strings.ReplaceAll(typ, "unsignedint", "unsigned int"))
	}
	return out
}

// TestPrototype reads prototypes as NVIDIA's header has them.
func TestPrototype(t *testing.T) {
	const text = "ncclResult_t  ncclGroupEnd();\nncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank, ncclConfig_t* config);\n" +
		"ncclResult_t  ncclSend(const void* sendbuff, size_t count, ncclDataType_t datatype, int peer,\n    ncclComm_t comm, cudaStream_t stream);\n" +
		"ncclResult_t  ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *asyncError);\n"
	for _, f := range []symbol{groupEnd, commInit, send, commState} {
		if got := prototype(text, symbols[f]); !slices.Equal(got, arguments[f]) {
			t.Errorf("%s takes %q, expected %q", symbols[f], got, arguments[f])
		}
	}
	if got := prototype(text, symbols[allReduce]); got != nil {
		t.Errorf("a function that is not there takes %q", got)
	}
}

// alone is the variable of the process that TestFound starts.
const alone = "NCCL_TEST_FOUND"

// TestFound finds the stand-in in a folder of Python's packages, and says what is wrong
// with other files. It does so in a process of its own: the loader takes a library of
// that name which is loaded already.
func TestFound(t *testing.T) {
	if os.Getenv(alone) == "" {
		testneeds.GCC.Program(t, os.Getenv, "gcc")
		c := exec.Command(os.Args[0], "-test.run=^TestFound$", "-test.v")
		c.Env = append(os.Environ(), alone+"=1")
		out, err := c.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "--- PASS: TestFound") {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	dir, site := standIns(t), t.TempDir()
	in := filepath.Join(site, "nvidia", "nccl", "lib")
	if err := errors.Join(os.MkdirAll(in, 0o700), os.Rename(filepath.Join(dir, fakecuda.Collectives), filepath.Join(in, fakecuda.Collectives)),
		os.Rename(filepath.Join(dir, fakecuda.Driver), filepath.Join(in, fakecuda.Driver))); err != nil {
		t.Fatal(err)
	}
	l, err := Open("", &Search{Sites: []string{site}})
	if err != nil {
		t.Fatal(err)
	}
	if want := (comm.Info{Name: "NCCL 2.21.5", Path: filepath.Join(in, fakecuda.Collectives), Version: 22105}); l.Info() != want {
		t.Errorf("found %+v, expected %+v", l.Info(), want)
	}
	if _, err := Open(filepath.Join(in, fakecuda.Driver), nil); !errors.Is(err, ErrIncomplete) || !strings.Contains(err.Error(), "has no nccl") {
		t.Errorf("the driver as the library: %v, expected %v", err, ErrIncomplete)
	}
	if _, err := Open(filepath.Join(dir, "none.so"), nil); !errors.Is(err, ErrNoLibrary) || !errors.Is(err, comm.ErrNoLibrary) || !strings.Contains(err.Error(), "none.so") {
		t.Errorf("no file: %v, expected %v", err, ErrNoLibrary)
	}
	for version, name := range map[string]string{"2408": "NCCL 2.4.8", "21700": "NCCL 2.17.0"} {
		t.Setenv("FAKENCCL_VERSION", version)
		if _, err := Open(l.Info().Path, nil); !errors.Is(err, ErrTooOld) || !strings.Contains(err.Error(), name) {
			t.Errorf("an old library: %v, expected %v of %s", err, ErrTooOld, name)
		}
	}
}

// TestErrors checks what an error says: the call, the code, the library's words and what
// to do.
func TestErrors(t *testing.T) {
	l, err := Open(filepath.Join(standIns(t), fakecuda.Collectives), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = l.Join(comm.ID{}, 3, 2)
	const want = "ncclCommInitRankConfig: ncclInvalidArgument (4): Invalid rank requested : 3/2"
	if !errors.Is(err, InvalidArgument) || err.Error() != want {
		t.Errorf("%v, expected %s", err, want)
	}
	_, err = l.Join(comm.ID{}, 0, 2)
	if !errors.Is(err, UnhandledCUDAError) || !strings.Contains(err.Error(), "NCCL_DEBUG") {
		t.Errorf("without a context: %v, expected %v with advice", err, UnhandledCUDAError)
	}
	h := &handle{Library: l}
	if err := errors.Join(h.Close(), h.Abort()); !errors.Is(err, errOver) {
		t.Errorf("a communicator that is over: %v, expected %v", err, errOver)
	}
	if text := Status(77).String(); text != "ncclResult_t 77" {
		t.Errorf("a code without a name is %q", text)
	}
}
