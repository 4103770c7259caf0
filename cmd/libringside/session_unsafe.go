package main

/*
#include "ringside.h"
int ringside_site(char *text, int n);
*/
import "C"

import (
	"fmt"
	"runtime"
	"unsafe"

	"github.com/ringside-go/ringside/tensor"
)

// result returns n, or the negative handle of a failure.
func result(n int64, err error) C.int64_t {
	if err != nil {
		return -C.int64_t(all.put(failureOf(err)))
	}
	return C.int64_t(n)
}

// site returns the line of the caller's language that makes the call under way.
func site() string {
	var text [512]byte
	n := C.ringside_site((*C.char)(unsafe.Pointer(&text[0])), C.int(len(text)))
	return string(text[:n])
}

// words returns n numbers of the caller's.
func words(p *C.int64_t, n C.int64_t) ([]int64, error) {
	if n < 0 || p == nil && n > 0 {
		return nil, fmt.Errorf("%w: %d numbers at %p", errArgument, n, p)
	}
	if p == nil {
		return nil, nil
	}
	return unsafe.Slice((*int64)(p), int(n)), nil
}

// within calls f with a session, one thread at a time.
func within(h C.ringside_handle, f func(s *session) (int64, error)) C.int64_t {
	s, err := get[*session](&all, uint64(h))
	if err == nil {
		err = s.enter()
	}
	if err != nil {
		return result(0, err)
	}
	defer s.leave()
	return result(f(s))
}

// store puts an object, unless err is set.
func store(x any, err error) C.int64_t {
	if err != nil {
		return result(0, err)
	}
	return C.int64_t(all.put(x))
}

//export goFailure
func goFailure(h C.int64_t) (fault *C.char) {
	defer caught(&fault)
	f, err := get[failure](&all, uint64(h))
	if err != nil {
		return text(err)
	}
	all.drop(uint64(h))
	return C.CString(string(f))
}

//export goTable
func goTable(out **C.char) (number C.int64_t) {
	defer caughtAs(&number)
	t, err := tableJSON()
	if err == nil {
		*out = C.CString(t)
	}
	return result(0, err)
}

//export goAbout
func goAbout(h C.ringside_handle, out **C.char) (number C.int64_t) {
	defer caughtAs(&number)
	x, err := get[interface{ about() (string, error) }](&all, uint64(h))
	if err != nil {
		return result(0, err)
	}
	t, err := x.about()
	if err == nil {
		*out = C.CString(t)
	}
	return result(0, err)
}

//export goTape
func goTape(h C.ringside_handle, out **C.char) (number C.int64_t) {
	defer caughtAs(&number)
	return within(h, func(s *session) (int64, error) {
		t, err := s.tape()
		if err == nil {
			*out = C.CString(t)
		}
		return 0, err
	})
}

//export goConfig
func goConfig(file, text *C.char, out **C.char) (number C.int64_t) {
	defer caughtAs(&number)
	t, err := configJSON(C.GoString(file), C.GoString(text))
	if err == nil {
		*out = C.CString(t)
	}
	return result(0, err)
}

//export goSession
func goSession(options *C.char) (number C.int64_t) {
	defer caughtAs(&number)
	s, err := openSession(C.GoString(options), interrupted, site)
	return store(s, err)
}

//export goCluster
func goCluster(options *C.char) (number C.int64_t) {
	defer caughtAs(&number)
	c, err := startCluster(C.GoString(options))
	return store(c, err)
}

//export goSignal
func goSignal(name *C.char) (number C.int64_t) {
	defer caughtAs(&number)
	n, err := signals.number(C.GoString(name))
	return result(int64(n), err)
}

//export goLine
func goLine(text *C.char) (number C.int64_t) {
	defer caughtAs(&number)
	n, err := lines.number(C.GoString(text))
	return result(int64(n), err)
}

//export goApply
func goApply(call *C.int64_t) (number C.int64_t) {
	defer caughtAs(&number)
	start := unsafe.Slice((*int64)(call), 2)
	s, err := get[*session](&all, uint64(start[0]))
	if err == nil {
		err = s.enter()
	}
	if err != nil {
		return result(0, err)
	}
	defer s.leave()
	h := parseHead(uint64(start[1]))
	return result(s.apply(h, unsafe.Slice((*int64)(call), 2+h.args+h.ints)[2:]))
}

//export goRecord
func goRecord(h C.ringside_handle, calls *C.int64_t, n C.int64_t, dead *C.int64_t, gone, item C.int64_t, element unsafe.Pointer) (number C.int64_t) {
	defer caughtAs(&number)
	recorded, err := words(calls, n)
	if err != nil {
		return result(0, err)
	}
	ids, err := words(dead, gone)
	if err != nil {
		return result(0, err)
	}
	s, err := get[*session](&all, uint64(h))
	if err != nil {
		return result(0, err)
	}
	if s.enter() != nil {
		return C.RINGSIDE_NOT_BEGUN
	}
	defer s.leave()
	if err := s.batch.record(s, recorded, ids); err != nil || item == 0 {
		return result(0, err)
	}
	return result(s.item(int64(item), unsafe.Slice((*byte)(element), 8)))
}

//export goUpload
func goUpload(h C.ringside_handle, head C.int64_t, dtype C.int32_t, data unsafe.Pointer, bytes C.int64_t, shape *C.int64_t, rank C.int64_t) (number C.int64_t) {
	defer caughtAs(&number)
	b, err := bytesAt(data, bytes)
	if err != nil {
		return result(0, err)
	}
	dims, err := words(shape, rank)
	if err != nil {
		return result(0, err)
	}
	return within(h, func(s *session) (int64, error) { return s.upload(uint64(head), int(dtype), b, toInts(dims)) })
}

//export goDrop
func goDrop(h C.ringside_handle, tensors *C.int64_t, n C.int64_t) (number C.int64_t) {
	defer caughtAs(&number)
	ids, err := words(tensors, n)
	if err != nil {
		return result(0, err)
	}
	s, err := get[*session](&all, uint64(h))
	if err != nil || !s.tryEnter() {
		return result(1, err)
	}
	defer s.leave()
	s.drop(ids)
	return 0
}

//export goScope
func goScope(h C.ringside_handle, mark C.int64_t, keep *C.int64_t, n C.int64_t) (number C.int64_t) {
	defer caughtAs(&number)
	ids, err := words(keep, n)
	if err != nil {
		return result(0, err)
	}
	return within(h, func(s *session) (int64, error) { return s.scope(int64(mark), ids), nil })
}

//export goItem
func goItem(h C.ringside_handle, t C.int64_t, dst unsafe.Pointer) (number C.int64_t) {
	defer caughtAs(&number)
	return within(h, func(s *session) (int64, error) { return s.item(int64(t), unsafe.Slice((*byte)(dst), 8)) })
}

//export goDescribe
func goDescribe(h C.ringside_handle, t C.int64_t, out *C.int64_t) (number C.int64_t) {
	defer caughtAs(&number)
	return within(h, func(s *session) (int64, error) {
		d, err := s.describe(int64(t))
		copy(unsafe.Slice((*int64)(out), len(d)), d[:])
		return 0, err
	})
}

//export goRead
func goRead(h C.ringside_handle, t C.int64_t, dst unsafe.Pointer, bytes C.int64_t) (number C.int64_t) {
	defer caughtAs(&number)
	b, err := bytesAt(dst, bytes)
	if err != nil {
		return result(0, err)
	}
	return within(h, func(s *session) (int64, error) { return 0, s.read(int64(t), b) })
}

// pinned is a tensor's memory image that the caller reads. Small ones lie on Go's heap;
// mapped memory is not touched by the pinning.
type pinned struct {
	pin     runtime.Pinner
	release func()
}

// close gives the memory back.
func (p *pinned) close() error {
	p.pin.Unpin()
	p.release()
	return nil
}

//export goView
func goView(h C.ringside_handle, t C.int64_t, data *unsafe.Pointer, bytes *C.int64_t) (number C.int64_t) {
	defer caughtAs(&number)
	return within(h, func(s *session) (int64, error) {
		b, release, err := s.view(int64(t))
		if err != nil {
			return 0, err
		}
		p := &pinned{release: release}
		*bytes, *data = C.int64_t(len(b)), nil
		if len(b) > 0 {
			p.pin.Pin(&b[0])
			*data = unsafe.Pointer(&b[0])
		}
		return int64(all.put(p)), nil
	})
}

//export goUnview
func goUnview(h C.int64_t) {
	defer printed()
	if p, err := get[*pinned](&all, uint64(h)); err == nil && all.drop(uint64(h)) {
		_ = p.close()
	}
}

//export goFlush
func goFlush(h C.ringside_handle, wait C.int32_t) (number C.int64_t) {
	defer caughtAs(&number)
	return within(h, func(s *session) (int64, error) { return 0, s.flush(wait != 0) })
}

//export goSeed
func goSeed(h C.ringside_handle, seed C.int64_t) (number C.int64_t) {
	defer caughtAs(&number)
	return within(h, func(s *session) (int64, error) { s.s.Seed(uint64(seed)); return 0, nil })
}

//export goBackward
func goBackward(h C.ringside_handle, loss, output C.int64_t, flags C.int32_t) (number C.int64_t) {
	defer caughtAs(&number)
	return within(h, func(s *session) (int64, error) { return 0, s.backward(int64(loss), int64(output), int(flags)) })
}

//export goTensor
func goTensor(h C.ringside_handle, what C.int32_t, t, other C.int64_t) (number C.int64_t) {
	defer caughtAs(&number)
	return within(h, func(s *session) (int64, error) {
		switch what {
		case C.RINGSIDE_GRADIENT:
			return s.gradient(int64(t))
		case C.RINGSIDE_SET_GRADIENT:
			return 0, s.setGradient(int64(t), int64(other))
		case C.RINGSIDE_DETACH:
			return s.detach(int64(t))
		case C.RINGSIDE_REQUIRE_GRAD:
			return 0, s.requireGrad(int64(t))
		case C.RINGSIDE_ASSIGN, C.RINGSIDE_ASSIGN_VALUE:
			return 0, s.assign(int64(t), int64(other), what == C.RINGSIDE_ASSIGN_VALUE)
		case C.RINGSIDE_SET_SIGNAL:
			return 0, s.setSignal(int64(t), int(other))
		}
		return 0, fmt.Errorf("%w: %d is nothing to be done with a tensor", errArgument, what)
	})
}

//export goOptimizer
func goOptimizer(h C.ringside_handle, options *C.char, params *C.int64_t, n C.int64_t) (number C.int64_t) {
	defer caughtAs(&number)
	ids, err := words(params, n)
	if err != nil {
		return result(0, err)
	}
	return within(h, func(s *session) (int64, error) {
		o, err := s.newOptimizer(C.GoString(options), ids)
		return int64(store(o, err)), nil
	})
}

// ofOptimizer calls f with an optimizer, within its session.
func ofOptimizer(h C.ringside_handle, f func(o *optimizer) error) C.int64_t {
	o, err := get[*optimizer](&all, uint64(h))
	if err == nil {
		err = o.s.enter()
	}
	if err != nil {
		return result(0, err)
	}
	defer o.s.leave()
	return result(0, f(o))
}

//export goState
func goState(h C.ringside_handle, out *C.int64_t, n C.int64_t) (number C.int64_t) {
	defer caughtAs(&number)
	dst, err := words(out, n)
	if err != nil {
		return result(0, err)
	}
	return ofOptimizer(h, func(o *optimizer) error {
		ids, err := o.state()
		if err == nil && copy(dst, ids) != len(ids) {
			o.s.drop(ids)
			err = fmt.Errorf("%w: room for %d tensors, expected %d", errArgument, n, len(ids))
		}
		return err
	})
}

//export goRestore
func goRestore(h C.ringside_handle, steps C.int64_t, state *C.int64_t, n C.int64_t) (number C.int64_t) {
	defer caughtAs(&number)
	ids, err := words(state, n)
	if err != nil {
		return result(0, err)
	}
	return ofOptimizer(h, func(o *optimizer) error { return o.restore(int(steps), ids) })
}

//export goSave
func goSave(h C.ringside_handle, path, options *C.char, tensors *C.int64_t, n C.int64_t) (number C.int64_t) {
	defer caughtAs(&number)
	ids, err := words(tensors, n)
	if err != nil {
		return result(0, err)
	}
	return within(h, func(s *session) (int64, error) { return 0, s.save(C.GoString(path), C.GoString(options), ids) })
}

//export goCheckpoint
func goCheckpoint(h C.ringside_handle, dir, options *C.char, tensors *C.int64_t, n C.int64_t) (number C.int64_t) {
	defer caughtAs(&number)
	ids, err := words(tensors, n)
	if err != nil {
		return result(0, err)
	}
	return within(h, func(s *session) (int64, error) {
		return 0, saveCheckpoint(s, C.GoString(dir), C.GoString(options), ids)
	})
}

//export goResume
func goResume(h C.ringside_handle, dir, options *C.char, tensors *C.int64_t, n C.int64_t, out **C.char) (number C.int64_t) {
	defer caughtAs(&number)
	ids, err := words(tensors, n)
	if err != nil {
		return result(0, err)
	}
	return within(h, func(s *session) (int64, error) {
		t, err := restoreCheckpoint(s, C.GoString(dir), C.GoString(options), ids)
		if err == nil {
			*out = C.CString(t)
		}
		return 0, err
	})
}

//export goFile
func goFile(path *C.char) (number C.int64_t) {
	defer caughtAs(&number)
	f, err := openFile(C.GoString(path))
	return store(f, err)
}

//export goLoad
func goLoad(h, f C.ringside_handle, name *C.char) (number C.int64_t) {
	defer caughtAs(&number)
	x, err := get[*file](&all, uint64(f))
	if err != nil {
		return result(0, err)
	}
	return within(h, func(s *session) (int64, error) { return s.load(x, C.GoString(name)) })
}

// The layouts of ringside.h.
var _ = [1]struct{}{}[C.RINGSIDE_DESCRIPTION-len(description{})]
var _ = [1]struct{}{}[C.RINGSIDE_MAX_RANK-tensor.MaxRank]
