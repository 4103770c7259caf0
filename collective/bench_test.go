package collective

import (
	"context"
	"testing"
)

// BenchmarkCall is what a group adds to its comm: one rank, one element.
func BenchmarkCall(b *testing.B) {
	groups, err := Local(1, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer groups[0].Close()
	ctx, x := context.Background(), []float32{1}
	b.ReportAllocs()
	for b.Loop() {
		if err := AllReduce(ctx, groups[0], x, x, Sum); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkStarted is a call that is started and waited for.
func BenchmarkStarted(b *testing.B) {
	groups, err := Local(1, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer groups[0].Close()
	ctx, x := context.Background(), []float32{1}
	b.ReportAllocs()
	for b.Loop() {
		if err := AllReduceAsync(ctx, groups[0], x, x, Sum).Wait(ctx); err != nil {
			b.Fatal(err)
		}
	}
}
