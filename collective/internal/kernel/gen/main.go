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
	"fold_avx512":     func() { folds(avx512) },
	"fold_avx512bf16": func() { folds(avx512BF16) },
	"fold_avx2":       func() { folds(avx2) },
	"copy":            copies,
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
	dispatch := filepath.Join(flag.Arg(0), "dispatch_amd64.go")
	if err := os.WriteFile(dispatch, []byte(dispatcher()), 0o644); err != nil {
		log.Fatal(err)
	}
}
