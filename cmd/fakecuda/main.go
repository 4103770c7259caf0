// Command fakecuda builds the stand-in for libcuda.so.1 into a folder:
//
//	go run ./cmd/fakecuda FOLDER
package main

import (
	"fmt"
	"os"

	"github.com/ringside-go/ringside/tensor/cuda/fakecuda"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: fakecuda FOLDER")
		os.Exit(2)
	}
	lib, err := fakecuda.Build(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(lib)
}
