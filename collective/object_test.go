package collective

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
)

type record struct {
	Name  string
	Sizes map[string]int
	Next  *record
}

func TestObjects(t *testing.T) {
	onEach(t, &Options{MaxObject: 11 << 20}, func(t *testing.T, groups []*Group) {
		ctx := hangGuard(t)
		all(t, groups, func(g *Group) error {
			v := record{Name: "none"}
			if g.Rank() == 2 {
				v = record{Name: "two", Sizes: map[string]int{"a": 1}, Next: &record{Name: "next"}}
			}
			if err := BroadcastObject(ctx, g, &v, 2); err != nil {
				return err
			}
			if v.Name != "two" || !maps.Equal(v.Sizes, map[string]int{"a": 1}) || v.Next == nil || v.Next.Name != "next" {
				return fmt.Errorf("broadcast %+v", v)
			}
			names, err := AllGatherObject(ctx, g, strings.Repeat("x", g.Rank()))
			if err != nil || fmt.Sprint(names) != "[ x xx xxx]" {
				return fmt.Errorf("all-gather %v, %w", names, err)
			}
			ints, err := GatherObject(ctx, g, g.Rank()*g.Rank(), 3)
			if err != nil || g.Rank() == 3 && fmt.Sprint(ints) != "[0 1 4 9]" || g.Rank() != 3 && ints != nil {
				return fmt.Errorf("gather %v, %w", ints, err)
			}
			var vs []*record
			if g.Rank() == 1 {
				vs = []*record{nil, {Name: "b"}, {}, {Name: "d"}}
			}
			mine, err := ScatterObject(ctx, g, vs, 1)
			if err != nil || g.Rank() == 0 && mine != nil || g.Rank() == 3 && mine.Name != "d" {
				return fmt.Errorf("scatter %+v, %w", mine, err)
			}
			minus := func(a, b string) (string, error) { return "(" + a + "-" + b + ")", nil }
			s, err := AllReduceObject(ctx, g, fmt.Sprint(g.Rank()), minus)
			if err != nil || s != "(((0-1)-2)-3)" {
				return fmt.Errorf("all-reduce %s, %w", s, err)
			}
			s, err = ReduceObject(ctx, g, fmt.Sprint(g.Rank()), 1, minus)
			if err != nil || g.Rank() == 1 && s != "(((0-1)-2)-3)" || g.Rank() != 1 && s != "" {
				return fmt.Errorf("reduce %s, %w", s, err)
			}
			big := make([]byte, 10<<20)
			if g.Rank() == 0 {
				big = bytes.Repeat([]byte{7}, len(big))
			}
			if err := BroadcastObject(ctx, g, &big, 0); err != nil {
				return err
			}
			if n := bytes.Count(big, []byte{7}); n != len(big) {
				return fmt.Errorf("%d of %d bytes arrived", n, len(big))
			}
			return nil
		})
	})
}

// TestObjectsRefused: what one rank cannot send is an error on all, and the group works
// on.
func TestObjectsRefused(t *testing.T) {
	groups, err := openWorld("hosts", []int{0, 1, 1}, &Options{MaxObject: 1000})
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll(t, groups)
	ctx := hangGuard(t)
	all(t, groups, func(g *Group) error {
		size := 10
		if g.Rank() == 1 {
			size = 1000
		}
		if _, err := AllGatherObject(ctx, g, make([]byte, size)); !errors.Is(err, ErrObject) || !strings.Contains(err.Error(), "of rank 1") {
			return fmt.Errorf("too large: %v", err)
		}
		var v any
		if g.Rank() == 2 {
			v = func() {}
		}
		if err := BroadcastObject(ctx, g, &v, 2); !errors.Is(err, ErrObject) {
			return fmt.Errorf("a function: %v", err)
		}
		_, err := AllReduceObject(ctx, g, g.Rank(), func(a, b int) (int, error) { return 0, errors.ErrUnsupported })
		if !errors.Is(err, errors.ErrUnsupported) {
			return fmt.Errorf("f's error: %v", err)
		}
		return g.Barrier(ctx)
	})
}
