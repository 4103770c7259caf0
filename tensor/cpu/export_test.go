package cpu

// NewEager is New, but threads share every step that can be, however small.
func NewEager(o *Options) (*Device, error) {
	d, err := New(o)
	if err == nil {
		d.eager = true
	}
	return d, err
}
