package element

import (
	"fmt"
	"testing"
)

// TestDTypeClasses: the class of every type. One that is new needs its line here.
func TestDTypeClasses(t *testing.T) {
	want := map[DType]string{
		F32: "4 bytes, float true, storage false, wide f32", F64: "8 bytes, float true, storage false, wide f64",
		I32: "4 bytes, float false, storage false, wide i32", I64: "8 bytes, float false, storage false, wide i64",
		U8: "1 bytes, float false, storage false, wide u8", Bool: "1 bytes, float false, storage false, wide bool",
		F16: "2 bytes, float true, storage true, wide f32", BF16: "2 bytes, float true, storage true, wide f32",
	}
	for _, d := range DTypes() {
		got := fmt.Sprintf("%d bytes, float %v, storage %v, wide %v", d.Size(), d.IsFloat(), d.IsStorage(), d.Wide())
		if got != want[d] {
			t.Errorf("%v: %s; expected %s", d, got, want[d])
		}
		if half := d == F16 || d == BF16; d.IsHalf() != half {
			t.Errorf("%v: IsHalf is %v", d, d.IsHalf())
		}
	}
}
