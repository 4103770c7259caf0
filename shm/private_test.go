package shm

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"testing"
)

// residentPages returns how many pages of b are in memory.
func residentPages(t *testing.T, b []byte) (n int) {
	t.Helper()
	page := os.Getpagesize()
	pagemap, err := os.Open("/proc/self/pagemap")
	if err != nil {
		t.Fatal(err)
	}
	defer pagemap.Close()
	entries := make([]byte, 8*len(b)/page)
	if _, err := pagemap.ReadAt(entries, 8*int64(address(b))/int64(page)); err != nil {
		t.Fatal(err)
	}
	for ; len(entries) > 0; entries = entries[8:] {
		if entries[7]&0x80 != 0 { // bit 63: the page is present
			n++
		}
	}
	return n
}

// address returns where b begins.
func address(b []byte) (a uint64) {
	_, _ = fmt.Sscanf(fmt.Sprintf("%p", b), "0x%x", &a)
	return a
}

// TestPrivate checks memory of this process alone: zeros that take no memory until they
// are touched, without a file, and gone after Close.
func TestPrivate(t *testing.T) {
	before := openFiles(t)
	const pages = 768
	s, err := Create(pages*int64(os.Getpagesize())-1, &Options{Backing: Private})
	if err != nil {
		t.Fatal(err)
	}
	mem := s.Bytes()
	if len(mem) != pages*os.Getpagesize() || s.File() != nil || s.Backing() != Private || openFiles(t) != before {
		t.Errorf("%d bytes, file %v, backing %v, %d descriptors, %d before", len(mem), s.File(), s.Backing(), openFiles(t), before)
	}
	if n := residentPages(t, mem); n != 0 {
		t.Errorf("%d pages are in memory before the first touch", n)
	}
	mem[0], mem[len(mem)-1] = 1, 2
	if n := residentPages(t, mem); n != 2 {
		t.Errorf("%d pages are in memory after touching two", n)
	}
	if !bytes.Equal(mem[1:len(mem)-1], make([]byte, len(mem)-2)) {
		t.Error("new memory is not zero")
	}
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Error(err)
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(maps, fmt.Appendf(nil, "\n%x-", address(mem))) {
		t.Errorf("it is mapped after Close")
	}
}
