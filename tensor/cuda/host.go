package cuda

// onHost runs step i on the host.
func (r *running) onHost(i int) error {
	s := &r.c.plan.Steps[i]
	waits := false
	for _, o := range s.In {
		if o.Scalar < 0 {
			copied, err := r.download(o.Buf, true)
			if err != nil {
				return err
			}
			waits = waits || copied
		}
	}
	for _, o := range s.Outs() {
		whole := o.Dense && o.Shape.Elems()*o.DType.Size() == r.c.plan.Buffers[o.Buf].Size
		copied, err := r.download(o.Buf, !whole)
		if err != nil {
			return err
		}
		waits = waits || copied || r.buffers[o.Buf].uploading
	}
	if waits {
		if err := r.settle(); err != nil {
			return err
		}
		for k := range r.buffers {
			r.buffers[k].uploading = false
		}
	}
	if r.did.HostSteps == nil {
		r.did.HostSteps = map[string]uint64{}
	}
	r.did.HostSteps[nameOf(s)]++
	if err := r.c.host.Run(i, r.bytes, r.scalars, r.stop); err != nil {
		return err
	}
	for _, o := range s.Outs() {
		b := &r.buffers[o.Buf]
		b.here, b.there = true, false
	}
	return nil
}

// download makes a copy of a buffer on the host if there is none. If its content is
// needed and not here it begins to copy that, and reports it.
func (r *running) download(buf int, content bool) (copied bool, err error) {
	b, n := &r.buffers[buf], r.c.plan.Buffers[buf].Size
	if n == 0 {
		return false, nil
	}
	if b.copy == nil {
		if b.copy, err = r.dev.hostBlock(n); err != nil {
			return false, err
		}
		r.bytes[buf] = b.copy.Bytes()[:n:n]
	}
	if b.here || !b.there || !content {
		return false, nil
	}
	b.here = true
	r.did.Down += uint64(n)
	return true, r.stream.Download(b.copy, b.at, n)
}

// upload copies a buffer to the device if its content is on the host alone.
func (r *running) upload(buf int) error {
	b, n := &r.buffers[buf], r.c.plan.Buffers[buf].Size
	if n == 0 || b.there || !b.here {
		return nil
	}
	b.there, b.uploading = true, true
	r.did.Up += uint64(n)
	b.copy.Retain()
	return r.stream.Upload(b.at, b.copy, n)
}

// uploadResults copies the results that are on the host alone to the device.
func (r *running) uploadResults() error {
	for _, o := range r.c.plan.Outputs {
		if err := r.upload(o.Buf); err != nil {
			return err
		}
	}
	return nil
}

// drop gives up a buffer's copy on the host.
func (r *running) drop(b *buffer) {
	if b.copy != nil {
		r.release(b.copy)
		b.copy = nil
	}
}
