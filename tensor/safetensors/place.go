package safetensors

import (
	"bytes"
	"encoding/binary"
)

// Place says how Write would put tensors into a file, for whoever writes their bytes in another way: order is the indices of
// tensors in the order of their bytes, which follow the head without gaps. The head, with which the file begins, is made
// atLeast so long by spaces. Data and From are not looked at. Errors are those of Write.
//
// The head of some of the tensors, or of parts of them, is not longer than that of all.
func Place(tensors []Tensor, opts *WriteOptions, atLeast int) (head []byte, order []int, err error) {
	order, _, head, err = layout(tensors, opts)
	if err != nil {
		return nil, nil, err
	}
	if n := (atLeast + 7) / 8 * 8; n > len(head) {
		head = append(head, bytes.Repeat([]byte{' '}, n-len(head))...)
		binary.LittleEndian.PutUint64(head, uint64(len(head)-prefix))
	}
	return head, order, nil
}
