package shm

import "testing"

func BenchmarkAlloc(b *testing.B) {
	a, err := NewArena(nil)
	if err != nil {
		b.Fatal(err)
	}
	defer a.Close()
	for _, size := range []struct {
		name string
		n    int
	}{{"256", 256}, {"4K", 4 << 10}, {"64K", 64 << 10}, {"1M", 1 << 20}} {
		b.Run(size.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				x, err := a.Alloc(size.n)
				if err != nil {
					b.Fatal(err)
				}
				x.Release()
			}
		})
	}
}
