package safetensors

// Place says where Write would put tensors, for whoever writes their bytes in another way, or has several others
// write them at once: the head of the file, offs[i], counted from the file's first byte, where the bytes of tensors[i]
// belong, and the file's size. Data and From are not looked at. Errors are those of Write.
func Place(tensors []Tensor, opts *WriteOptions) (head []byte, offs []int64, size int64, err error) {
	order, sizes, head, err := layout(tensors, opts)
	if err != nil {
		return nil, nil, 0, err
	}
	offs = make([]int64, len(tensors))
	size = int64(len(head))
	for k, i := range order {
		offs[i] = size
		size += sizes[k]
	}
	return head, offs, size, nil
}
