package rendezvous_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"sync"

	"github.com/ringside-go/ringside/collective/rendezvous"
)

// Three ranks tell each other where they are. Each would be a process, and its world what
// Resolve says.
func ExampleOpen() {
	dir, err := os.MkdirTemp("", "rs")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	var ranks sync.WaitGroup
	for rank := range 3 {
		ranks.Go(func() {
			ctx := context.Background()
			world := rendezvous.World{Rank: rank, Size: 3, Socket: filepath.Join(dir, "rank0")}
			store, err := rendezvous.Open(ctx, world, nil)
			if err != nil {
				log.Fatal(err)
			}
			defer store.Close()
			all, err := store.AllGather(ctx, fmt.Appendf(nil, "host%d", rank))
			if err != nil {
				log.Fatal(err)
			}
			if rank == 1 {
				fmt.Printf("%s\n", all)
			}
		})
	}
	ranks.Wait()
	// Output: [host0 host1 host2]
}

func ExampleResolve() {
	env := map[string]string{
		"SLURM_PROCID": "5", "SLURM_NTASKS": "8", "SLURM_LOCALID": "1", "SLURM_NODEID": "1", "SLURM_STEP_ID": "0",
		"SLURM_JOB_ID": "17", "SLURM_JOB_NODELIST": "gpu[07-08]", "SLURM_TASKS_PER_NODE": "4(x2)", "MASTER_PORT": "29500",
	}
	world, err := rendezvous.Resolve(func(name string) (string, bool) { v, ok := env[name]; return v, ok }, nil)
	fmt.Println(world, err)
	// Output: rank 5 of 8 (Slurm's variables), rank 0 at gpu07:29500 <nil>
}
