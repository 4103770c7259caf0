package collective

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/ringside-go/ringside/collective/rendezvous"
	"github.com/ringside-go/ringside/net/route"
)

// variables is an environment. Where it doesn't say, no calls are written down.
func variables(env map[string]string) rendezvous.Lookup {
	return func(name string) (string, bool) {
		v, ok := env[name]
		if name == "RINGSIDE_FLIGHT" && !ok {
			return "off", true
		}
		return v, ok
	}
}

// TestInitFlight: Init takes the folder of the environment, and an option wins.
func TestInitFlight(t *testing.T) {
	for option, want := range map[string]string{"": "/said", "/own": "/own", "off": ""} {
		g, err := Init(hangGuard(t), &Options{Flight: option, Lookup: variables(map[string]string{"RINGSIDE_FLIGHT": "/said"})})
		if err != nil {
			t.Fatal(err)
		}
		if g.options.Flight != want {
			t.Errorf("option %q: the folder is %q, expected %q", option, g.options.Flight, want)
		}
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestInitAlone(t *testing.T) {
	g, err := Init(hangGuard(t), &Options{Lookup: variables(nil)})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	x := []float32{2}
	if err := AllReduce(t.Context(), g, x, x, Mean); err != nil || x[0] != 2 || g.Size() != 1 {
		t.Errorf("%v: %v, %v", g, x, err)
	}
	s, err := g.Sub(t.Context(), 0)
	if err != nil || s.Size() != 1 {
		t.Fatalf("%v, %v", s, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestInitByLauncher(t *testing.T) {
	for name, env := range map[string]func(rank int) map[string]string{
		"torchrun": func(rank int) map[string]string {
			return map[string]string{"RANK": strconv.Itoa(rank), "WORLD_SIZE": "3", "LOCAL_RANK": strconv.Itoa(rank), "LOCAL_WORLD_SIZE": "3"}
		},
		"mpirun": func(rank int) map[string]string {
			return map[string]string{"OMPI_COMM_WORLD_RANK": strconv.Itoa(rank), "OMPI_COMM_WORLD_SIZE": "3",
				"OMPI_COMM_WORLD_LOCAL_RANK": strconv.Itoa(rank), "OMPI_COMM_WORLD_LOCAL_SIZE": "3", "PMIX_NAMESPACE": "job"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := hangGuard(t)
			socket := filepath.Join(t.TempDir(), "store")
			errs := make([]error, 3)
			var wg sync.WaitGroup
			start := func(rank int) error {
				g, err := Init(ctx, &Options{Lookup: variables(env(rank)), World: &rendezvous.Overrides{Socket: socket, Secret: []byte("the secret of a test")}})
				if err != nil {
					return err
				}
				defer g.Close()
				x := []int32{int32(g.Rank())}
				if err := AllReduce(ctx, g, x, x, Sum); err != nil || x[0] != 3 || g.Rank() != rank {
					return fmt.Errorf("%v: sum %d, %w", g, x[0], err)
				}
				s, err := g.Split(ctx, 0, -rank)
				if err != nil {
					return err
				}
				defer s.Close()
				return s.Barrier(ctx)
			}
			for rank := range errs {
				wg.Go(func() { errs[rank] = start(rank) })
			}
			wg.Wait()
			for r, err := range errs {
				if err != nil {
					t.Errorf("rank %d: %v", r, err)
				}
			}
		})
	}
}

// TestVerdictLeft: a rank that fails because of another says so to the launcher, in the
// ranks of the world; a rank that only left says nothing.
func TestVerdictLeft(t *testing.T) {
	for name, split := range map[string]bool{"world": false, "sub-group": true} {
		t.Run(name, func(t *testing.T) {
			ctx, dir := hangGuard(t), t.TempDir()
			path := func(rank int) string { return filepath.Join(dir, "verdict"+strconv.Itoa(rank)) }
			errs := make([]error, 3)
			var ended, called sync.WaitGroup
			called.Add(len(errs))
			start := func(rank int) error {
				var once sync.Once
				done := func() { once.Do(called.Done) }
				defer done()
				g, err := Init(ctx, &Options{
					Lookup: variables(map[string]string{"RANK": strconv.Itoa(rank), "WORLD_SIZE": "3", "RINGSIDE_VERDICT": path(rank)}),
					World:  &rendezvous.Overrides{Socket: filepath.Join(dir, "store")},
				})
				if err != nil {
					return err
				}
				defer g.Close()
				in := g
				if split {
					if in, err = g.Split(ctx, min(rank, 1), -rank); err != nil {
						return err
					}
					defer in.Close()
				}
				if rank == 2 {
					// the world lasts until the others have their errors
					err := in.Close()
					done()
					called.Wait()
					return err
				}
				err = in.Barrier(ctx)
				if alone := in.Size() == 1; alone != (err == nil) || !alone && !errors.Is(err, ErrPeerLost) {
					return fmt.Errorf("a barrier without rank 2 of the group's %d ranks: %w", in.Size(), err)
				}
				done()
				called.Wait()
				return nil
			}
			for rank := range errs {
				ended.Go(func() { errs[rank] = start(rank) })
			}
			ended.Wait()
			for r, err := range errs {
				if err != nil {
					t.Errorf("rank %d: %v", r, err)
				}
				v, err := rendezvous.ReadVerdict(path(r), 3)
				if silent := r == 2 || split && r == 0; silent && !errors.Is(err, fs.ErrNotExist) ||
					!silent && (err != nil || v.Rank != 2 || v.Stuck || !strings.Contains(v.Text, "it closed its group")) {
					t.Errorf("rank %d: %+v, %v", r, v, err)
				}
			}
		})
	}
}

// TestVerdictOfJoining: a rank that can't join because another ended says so to the
// launcher, as one that fails later does. The first names the rank that is gone; one that
// comes when that one has left as well may name it instead.
func TestVerdictOfJoining(t *testing.T) {
	for name, tcp := range map[string]bool{"one host": false, "four hosts": true} {
		t.Run(name, func(t *testing.T) {
			const n, lost = 4, 1
			ctx, dir, board := hangGuard(t), t.TempDir(), newForum(n)
			path := func(rank int) string { return filepath.Join(dir, "verdict"+strconv.Itoa(rank)) }
			join := func(rank int) error {
				m := &route.MeshOptions{Secret: []byte("the secret of a test"), Bind: "127.0.0.1"}
				if tcp {
					m.Order = route.Apart()
				}
				if tcp {
					m.Host = strconv.Itoa(rank)
				}
				opened := &Options{mesh: m, verdict: &verdict{path: path(rank)}}
				members, err := opened.open(ctx, rank, n, board.exchange(rank))
				if err != nil {
					return err
				}
				if rank == lost {
					for _, m := range members {
						if m.Conn != nil {
							m.Conn.Close()
						}
					}
					return nil
				}
				o, err := opened.withDefaults()
				if err != nil {
					return err
				}
				g, err := New(ctx, rank, members, &o)
				if err == nil {
					return errors.Join(errors.New("it joined"), g.Close())
				}
				if !errors.Is(err, ErrPeerLost) {
					return err
				}
				return nil
			}
			errs := make([]error, n)
			var wg sync.WaitGroup
			for rank := range errs {
				wg.Go(func() { errs[rank] = join(rank) })
			}
			wg.Wait()
			named := false
			for r, err := range errs {
				if err != nil {
					t.Errorf("rank %d: %v", r, err)
				}
				if r == lost {
					continue
				}
				v, err := rendezvous.ReadVerdict(path(r), n)
				if err != nil || v.Rank == r || v.Stuck || !strings.Contains(v.Text, ErrPeerLost.Error()) {
					t.Errorf("rank %d: %+v, %v, expected one on another rank that is lost", r, v, err)
				}
				named = named || v.Rank == lost
			}
			if !named {
				t.Errorf("nobody names rank %d", lost)
			}
		})
	}
}

func TestInitRefuses(t *testing.T) {
	for want, env := range map[string]map[string]string{
		"WORLD_SIZE": {"RANK": "1"},
		"RANK":       {"RANK": "4", "WORLD_SIZE": "4", "MASTER_ADDR": "localhost", "MASTER_PORT": "29500"},
	} {
		if _, err := Init(t.Context(), &Options{Lookup: variables(env)}); !errors.Is(err, rendezvous.ErrEnvironment) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", env, err)
		}
	}
}
