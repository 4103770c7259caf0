package safetensors

import (
	"bytes"
	"encoding/binary"
)

// Place returns the layout that Write would use, for callers that write the bytes
// themselves. order is the indices of tensors in the order of their bytes, which follow
// the head without gaps. The head is the start of the file, padded with spaces to at
// least atLeast bytes. Place ignores Data and From. Errors are those of Write.
//
// The head for some of the tensors, or for parts of them, is not longer than that for
// all.
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
