package main

/*
#include "ringside.h"
int ringside_interrupted(void);
*/
import "C"

import (
	"fmt"
	"os"
	"time"
	"unsafe"

	"github.com/ringside-go/ringside/collective"
)

// interrupted asks the caller's language on this thread.
func interrupted() bool { return C.ringside_interrupted() != 0 }

// text returns err for the caller to free, nil for nil.
func text(err error) *C.char {
	if err == nil {
		return nil
	}
	return C.CString(err.Error())
}

// caught makes a panic of an exported function its error, which the caller's language
// raises; else the process would end. Every exported function defers this or one of the
// next two.
func caught(fault **C.char) {
	if r := recover(); r != nil {
		*fault = text(panicked(r))
	}
}

// caughtAs is caught of a function that returns a number.
func caughtAs(number *C.int64_t) {
	if r := recover(); r != nil {
		*number = result(0, panicked(r))
	}
}

// printed is caught of a function that returns nothing.
func printed() {
	if r := recover(); r != nil {
		fmt.Fprintln(os.Stderr, panicked(r))
	}
}

// bytesAt returns n bytes of the caller's.
func bytesAt(p unsafe.Pointer, n C.int64_t) ([]byte, error) {
	if n < 0 || p == nil && n > 0 {
		return nil, fmt.Errorf("%w: a buffer of %d bytes at %p", errArgument, n, p)
	}
	if p == nil {
		return nil, nil
	}
	return unsafe.Slice((*byte)(p), int(n)), nil
}

// intsAt returns n numbers of the caller's; nil for NULL.
func intsAt(p *C.int64_t, n int) []int {
	if p == nil {
		return nil
	}
	out := make([]int, n)
	for i, v := range unsafe.Slice(p, n) {
		out[i] = int(v)
	}
	return out
}

// milliseconds returns a duration of the caller's.
func milliseconds(ms C.int64_t) time.Duration { return time.Duration(ms) * time.Millisecond }

//export goOpen
func goOpen(rank, size C.int32_t, timeout C.int64_t, name *C.char, secret unsafe.Pointer, n C.int64_t, out *C.ringside_handle) (fault *C.char) {
	defer caught(&fault)
	key, err := bytesAt(secret, n)
	if err != nil {
		return text(err)
	}
	o, err := begin(int(rank), int(size), milliseconds(timeout), C.GoString(name), key, interrupted)
	if err == nil {
		*out = C.ringside_handle(all.put(o))
	}
	return text(err)
}

//export goOpenStep
func goOpenStep(h C.ringside_handle, limit C.int64_t, st *C.int32_t, value unsafe.Pointer, n *C.int64_t, out *C.ringside_handle) (fault *C.char) {
	defer caught(&fault)
	o, err := get[*opening](&all, uint64(h))
	if err != nil {
		return text(err)
	}
	s, v, g, err := o.step(milliseconds(limit))
	if s == exchange && len(v) > C.RINGSIDE_VALUE {
		err = fmt.Errorf("%w: a value of %d bytes, expected at most %d", errArgument, len(v), C.RINGSIDE_VALUE)
	}
	if err != nil {
		all.drop(uint64(h))
		return text(err)
	}
	switch *st = C.int32_t(s); s {
	case exchange:
		*n = C.int64_t(copy(unsafe.Slice((*byte)(value), C.RINGSIDE_VALUE), v))
	case done:
		all.drop(uint64(h))
		*out = C.ringside_handle(all.put(g))
	}
	return nil
}

//export goOpenGive
func goOpenGive(h C.ringside_handle, values unsafe.Pointer, lengths *C.int64_t, ranks C.int32_t) (fault *C.char) {
	defer caught(&fault)
	o, err := get[*opening](&all, uint64(h))
	if err != nil {
		return text(err)
	}
	sizes, total := intsAt(lengths, max(0, int(ranks))), C.int64_t(0)
	for _, n := range sizes {
		total += C.int64_t(max(0, n))
	}
	b, err := bytesAt(values, total)
	if err != nil {
		return text(err)
	}
	return text(o.give(b, sizes))
}

//export goClose
func goClose(h C.ringside_handle) (fault *C.char) {
	defer caught(&fault)
	x, err := get[any](&all, uint64(h))
	if err != nil {
		return text(err)
	}
	if c, ok := x.(interface{ close() error }); all.drop(uint64(h)) && ok {
		return text(c.close())
	}
	return nil
}

//export goMemory
func goMemory(h C.ringside_handle, n C.int64_t, out *unsafe.Pointer) (fault *C.char) {
	defer caught(&fault)
	g, err := get[*group](&all, uint64(h))
	if err != nil {
		return text(err)
	}
	first, err := g.lend(int(n))
	if err == nil {
		*out = unsafe.Pointer(first)
	}
	return text(err)
}

//export goForget
func goForget(h C.ringside_handle, memory unsafe.Pointer) (fault *C.char) {
	defer caught(&fault)
	g, err := get[*group](&all, uint64(h))
	if err != nil {
		return text(err)
	}
	return text(g.takeBack((*byte)(memory)))
}

// callOf returns a group and a call of it as the caller gives them.
func callOf(r *C.ringside_request) (*group, *collective.Raw, error) {
	g, err := get[*group](&all, uint64(r.group))
	if err != nil {
		return nil, nil, err
	}
	dst, err := bytesAt(r.dst, r.dst_bytes)
	if err != nil {
		return nil, nil, err
	}
	src, err := bytesAt(r.src, r.src_bytes)
	if err != nil {
		return nil, nil, err
	}
	call, err := g.request(int(r.kind), int(r.op), int(r.dtype), int(r.peer), dst, src, intsAt(r.send, g.Size()), intsAt(r.recv, g.Size()))
	return g, call, err
}

//export goCall
func goCall(request *C.ringside_request) (fault *C.char) {
	defer caught(&fault)
	g, r, err := callOf(request)
	if err == nil {
		err = g.call(r)
	}
	return text(err)
}

//export goStart
func goStart(request *C.ringside_request, out *C.ringside_handle) (fault *C.char) {
	defer caught(&fault)
	g, r, err := callOf(request)
	if err == nil {
		*out = C.ringside_handle(all.put(g.start(r)))
	}
	return text(err)
}

//export goWait
func goWait(h C.ringside_handle, limit C.int64_t, st, from *C.int32_t) (fault *C.char) {
	defer caught(&fault)
	w, err := get[*collective.Work](&all, uint64(h))
	if err != nil {
		return text(err)
	}
	s, err := wait(w, milliseconds(limit))
	if s == done {
		all.drop(uint64(h))
	}
	if err == nil {
		*st = C.int32_t(s)
	}
	if err == nil && s == done && from != nil {
		*from = C.int32_t(w.From())
	}
	return text(err)
}
