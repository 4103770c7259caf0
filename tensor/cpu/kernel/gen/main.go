// Command gen writes the assembly of package kernel with avo, into the folder given as its argument:
//
//	go run -C gen . ..
//
// It starts itself once for every file, because avo builds one file a process.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/mmcloughlin/avo/build"
)

// sets are the files to write: what is in them, by name.
var sets = map[string]func(){
	"gemm_avx512":  func() { gemm(avx512) },
	"gemm_avx2":    func() { gemm(avx2) },
	"vec_avx512":   func() { vectors(avx512) },
	"vec_avx2":     func() { vectors(avx2) },
	"taps_avx512":  func() { taps(avx512) },
	"taps_avx2":    func() { taps(avx2) },
	"chain_avx512": func() { chain(avx512) },
	"chain_avx2":   func() { chain(avx2) },
	"row_avx512":   func() { rowSet(avx512) },
	"row_avx2":     func() { rowSet(avx2) },
	"half_avx512":  func() { halves(avx512) },
	"half_avx2":    func() { halves(avx2) },
}

func main() {
	set := flag.String("set", "", "write this set with avo's flags; internal")
	flag.Parse()
	if *set != "" {
		sets[*set]()
		build.Generate()
		return
	}
	if flag.NArg() != 1 {
		log.Fatal("usage: gen FOLDER")
	}
	self, err := os.Executable()
	if err != nil {
		log.Fatal(err)
	}
	for name := range sets {
		file := filepath.Join(flag.Arg(0), name+"_amd64")
		cmd := exec.Command(self, "-set", name, "-pkg", "kernel", "-out", file+".s", "-stubs", file+".go")
		cmd.Stderr = os.Stderr
		if err := cmd.Run(); err != nil {
			log.Fatal(fmt.Errorf("%s: %w", name, err))
		}
	}
}
