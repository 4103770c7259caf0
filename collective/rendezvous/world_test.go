package rendezvous

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// env makes a lookup from "A=1 B=2".
func env(vars string) Lookup {
	m := map[string]string{}
	for v := range strings.FieldsSeq(vars) {
		k, val, _ := strings.Cut(v, "=")
		m[k] = val
	}
	return func(name string) (string, bool) { v, ok := m[name]; return v, ok }
}

func TestResolve(t *testing.T) {
	cases := []struct {
		name, env string
		over      *Overrides
		want      string // String and what else matters
		local     [2]int
		job       string
		epoch     uint64
	}{
		{"nothing", "", nil, "rank 0 of 1 (no launcher)", [2]int{0, 1}, "", 0},
		{"a world of one by torchrun's size alone", "WORLD_SIZE=1", nil, "rank 0 of 1 (no launcher)", [2]int{0, 1}, "", 0},
		{
			"torchrun", "RANK=3 WORLD_SIZE=8 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 MASTER_ADDR=10.0.0.1 MASTER_PORT=1234 TORCHELASTIC_RUN_ID=x TORCHELASTIC_RESTART_COUNT=2",
			nil, "rank 3 of 8 (torchrun's variables), rank 0 at 10.0.0.1:1234", [2]int{1, 2}, "torch-x", 2,
		},
		{"torchrun, IPv6", "RANK=0 WORLD_SIZE=2 MASTER_ADDR=::1 MASTER_PORT=1", nil, "rank 0 of 2 (torchrun's variables), rank 0 at [::1]:1", [2]int{-1, 0}, "", 0},
		{"torchrun, IPv6 in brackets", "RANK=0 WORLD_SIZE=2 MASTER_ADDR=[fe80::1%eth0] MASTER_PORT=1", nil, "rank 0 of 2 (torchrun's variables), rank 0 at [fe80::1%eth0]:1", [2]int{-1, 0}, "", 0},
		{"torchrun without a port", "RANK=0 WORLD_SIZE=2 MASTER_ADDR=h", nil, "rank 0 of 2 (torchrun's variables), rank 0 at h:29500", [2]int{-1, 0}, "", 0},
		{
			"torchrun whose agent listens, one host", "RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=2 MASTER_ADDR=h MASTER_PORT=7 TORCHELASTIC_RUN_ID=none TORCHELASTIC_USE_AGENT_STORE=True",
			nil, "rank 0 of 2 (torchrun's variables)", [2]int{0, 2}, "torch-none-h-7", 0,
		},
		{
			"torchrun whose agent listens, two hosts", "RANK=0 WORLD_SIZE=4 LOCAL_RANK=0 LOCAL_WORLD_SIZE=2 MASTER_ADDR=h MASTER_PORT=7 TORCHELASTIC_RUN_ID=none TORCHELASTIC_USE_AGENT_STORE=True",
			nil, "rank 0 of 4 (torchrun's variables), rank 0 at h:8", [2]int{0, 2}, "torch-none", 0,
		},
		{
			"Open MPI on one host", "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=4 PMIX_NAMESPACE=77",
			nil, "rank 1 of 4 (Open MPI's variables)", [2]int{1, 4}, "ompi-77", 0,
		},
		{
			"Open MPI on two hosts", "OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=2 OMPI_MCA_ess_base_jobid=5 MASTER_ADDR=n1 MASTER_PORT=9",
			nil, "rank 3 of 4 (Open MPI's variables), rank 0 at n1:9", [2]int{1, 2}, "ompi-5", 0,
		},
		{
			"Open MPI within Slurm", "OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=2 SLURM_JOB_NODELIST=n[08-09] MASTER_PORT=9 SLURM_PROCID=0 SLURM_NTASKS=4",
			nil, "rank 3 of 4 (Open MPI's variables), rank 0 at n08:9", [2]int{1, 2}, "", 0,
		},
		{"Hydra", "PMI_RANK=1 PMI_SIZE=2 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2", nil, "rank 1 of 2 (Hydra's variables)", [2]int{1, 2}, "", 0},
		{
			"Slurm", "SLURM_PROCID=5 SLURM_NTASKS=7 SLURM_LOCALID=1 SLURM_NODEID=2 SLURM_STEP_ID=0 SLURM_JOB_ID=42 SLURM_JOB_NODELIST=gpu[1-3],x SLURM_TASKS_PER_NODE=2(x3),1 MASTER_PORT=3",
			nil, "rank 5 of 7 (Slurm's variables), rank 0 at gpu1:3", [2]int{1, 2}, "slurm-42.0", 0,
		},
		{
			"Slurm, a step smaller than the job", "SLURM_PROCID=1 SLURM_NTASKS=8 SLURM_STEP_NUM_TASKS=2 SLURM_LOCALID=1 SLURM_NODEID=0 SLURM_STEPID=3 SLURM_JOBID=42 SLURM_STEP_TASKS_PER_NODE=2 SLURM_JOB_NODELIST=a,b",
			nil, "rank 1 of 2 (Slurm's variables)", [2]int{1, 2}, "slurm-42.3", 0,
		},
		{"a batch script of Slurm's is no rank", "SLURM_PROCID=0 SLURM_NTASKS=8 SLURM_JOB_ID=1", nil, "rank 0 of 1 (no launcher)", [2]int{0, 1}, "", 0},
		{
			"Kubernetes", "JOB_COMPLETION_INDEX=2 WORLD_SIZE=4 HOSTNAME=train-2 RINGSIDE_SERVICE=ranks",
			nil, "rank 2 of 4 (Kubernetes' variables), rank 0 at train-0.ranks:29500", [2]int{0, 1}, "", 0,
		},
		{
			"Kubernetes with an address", "JOB_COMPLETION_INDEX=0 WORLD_SIZE=4 MASTER_ADDR=train-0.ranks MASTER_PORT=99",
			nil, "rank 0 of 4 (Kubernetes' variables), rank 0 at train-0.ranks:99", [2]int{0, 1}, "", 0,
		},
		{"options", "RANK=1 WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=5", &Overrides{Size: 3, Rank: 2, MasterAddr: "b", Epoch: 9}, "rank 2 of 3 (explicit options), rank 0 at b:5", [2]int{-1, 0}, "", 9},
		{"an option for the address alone", "RANK=1 WORLD_SIZE=2", &Overrides{MasterAddr: "b", MasterPort: 6}, "rank 1 of 2 (torchrun's variables), rank 0 at b:6", [2]int{-1, 0}, "", 0},
		{"an option for the socket", "RANK=1 WORLD_SIZE=2 MASTER_ADDR=a", &Overrides{Socket: "/run/x"}, "rank 1 of 2 (torchrun's variables), rank 0 at unix:/run/x", [2]int{-1, 0}, "", 0},
		{"our own address", "RANK=1 WORLD_SIZE=2 MASTER_ADDR=a RINGSIDE_RENDEZVOUS=unix:/run/x RINGSIDE_EPOCH=4", nil, "rank 1 of 2 (torchrun's variables), rank 0 at unix:/run/x", [2]int{-1, 0}, "", 4},
		{"our own address over TCP", "PMI_RANK=1 PMI_SIZE=2 RINGSIDE_RENDEZVOUS=tcp:[::1]:7", nil, "rank 1 of 2 (Hydra's variables), rank 0 at [::1]:7", [2]int{-1, 0}, "", 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w, err := Resolve(env(c.env), c.over)
			if err != nil {
				t.Fatal(err)
			}
			if w.String() != c.want || [2]int{w.LocalRank, w.LocalSize} != c.local || w.Job != c.job || w.Epoch != c.epoch {
				t.Fatalf("%v, local %d of %d, job %q, epoch %d\nexpected %s, local %v, job %q, epoch %d",
					w, w.LocalRank, w.LocalSize, w.Job, w.Epoch, c.want, c.local, c.job, c.epoch)
			}
		})
	}
}

// TestResolveOrder: where several launchers' variables are there, the order of the
// documentation decides.
func TestResolveOrder(t *testing.T) {
	vars := []string{
		"RANK=0 WORLD_SIZE=2 MASTER_ADDR=h", "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=3", "PMI_RANK=0 PMI_SIZE=4",
		"SLURM_PROCID=0 SLURM_NTASKS=5 SLURM_STEP_ID=0", "JOB_COMPLETION_INDEX=0", "WORLD_SIZE=1 MASTER_ADDR=h",
	}
	want := []string{"torchrun's", "Open MPI's", "Hydra's", "Slurm's", "Kubernetes'", "no launcher"}
	for i := range vars {
		all := strings.Join(vars[i:], " ")
		w, err := Resolve(env(all), nil)
		if err != nil || !strings.HasPrefix(w.Source, want[i]) {
			t.Errorf("%s: %v, %v; expected %s", all, w, err, want[i])
		}
	}
}

func TestResolveErrors(t *testing.T) {
	cases := []struct {
		env  string
		over *Overrides
		want []string
	}{
		{"RANK=1", nil, []string{"WORLD_SIZE is not set", `RANK="1"`}},
		{"RANK=2 WORLD_SIZE=2", nil, []string{`RANK="2"`, "from 0 to 1", "WORLD_SIZE=2"}},
		{"RANK=-1 WORLD_SIZE=2", nil, []string{`RANK="-1"`}},
		{"RANK=one WORLD_SIZE=2", nil, []string{`RANK="one"`, "whole number"}},
		{"RANK=0 WORLD_SIZE=0", nil, []string{`WORLD_SIZE="0"`}},
		{"RANK=0 WORLD_SIZE=2", nil, []string{"MASTER_ADDR", "all 2 ranks"}},
		{"RANK=0 WORLD_SIZE=2 LOCAL_WORLD_SIZE=3", nil, []string{`LOCAL_WORLD_SIZE="3"`, "from 1 to 2"}},
		{"RANK=0 WORLD_SIZE=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=1", nil, []string{`LOCAL_RANK="1"`}},
		{"RANK=0 WORLD_SIZE=2 MASTER_ADDR=h MASTER_PORT=70000", nil, []string{`MASTER_PORT="70000"`}},
		{"RANK=0 WORLD_SIZE=2 MASTER_ADDR=h:29500", nil, []string{`MASTER_ADDR="h:29500"`, "without a port"}},
		{"RANK=0 WORLD_SIZE=2 MASTER_ADDR=[::1]:29500", nil, []string{`MASTER_ADDR="[::1]:29500"`}},
		{"RANK=0 WORLD_SIZE=2 MASTER_ADDR=[h]", nil, []string{`MASTER_ADDR="[h]"`}},
		{"RANK=0 WORLD_SIZE=2 MASTER_ADDR=http://h/", nil, []string{`MASTER_ADDR="http://h/"`}},
		{"WORLD_SIZE=4", nil, []string{"WORLD_SIZE=4", "expected RANK"}},
		{"OMPI_COMM_WORLD_SIZE=4", nil, []string{"OMPI_COMM_WORLD_RANK is not set"}},
		{"OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_SIZE=2", nil, []string{"mpirun -x MASTER_ADDR"}},
		{"PMI_RANK=0", nil, []string{"PMI_SIZE is not set"}},
		{"SLURM_PROCID=0 SLURM_STEP_ID=0", nil, []string{"SLURM_STEP_NUM_TASKS is not set"}},
		{"SLURM_PROCID=0 SLURM_NTASKS=2 SLURM_STEP_ID=0 SLURM_JOB_NODELIST=a[1-", nil, []string{`SLURM_JOB_NODELIST="a[1-"`, "no end"}},
		{"SLURM_PROCID=0 SLURM_NTASKS=2 SLURM_STEP_ID=0 SLURM_TASKS_PER_NODE=2(y", nil, []string{`SLURM_TASKS_PER_NODE="2(y"`, "2(x3),1"}},
		{"JOB_COMPLETION_INDEX=0", nil, []string{"WORLD_SIZE is not set"}},
		{"JOB_COMPLETION_INDEX=0 WORLD_SIZE=2 HOSTNAME=x", nil, []string{"MASTER_ADDR", `HOSTNAME="x"`}},
		{"RINGSIDE_RENDEZVOUS=udp:x", nil, []string{`"udp:x"`, "unix:/path or tcp:host:port"}},
		{"RINGSIDE_RENDEZVOUS=tcp:x", nil, []string{`"tcp:x"`}},
		{"RINGSIDE_RENDEZVOUS=unix:x", nil, []string{`"unix:x"`, "absolute"}},
		{"RINGSIDE_EPOCH=x", nil, []string{`RINGSIDE_EPOCH="x"`}},
		{"RINGSIDE_SECRET_FILE=/does/not/exist", nil, []string{"RINGSIDE_SECRET_FILE", "/does/not/exist"}},
		{"RINGSIDE_SECRET_FILE=/dev/zero", nil, []string{"/dev/zero", "mode 0666, expected 0600"}},
		{"RINGSIDE_TLS=yes", nil, []string{"RINGSIDE_TLS=\"yes\", expected 1 or 0"}},
		{"RINGSIDE_TLS=1", nil, []string{"TLS without RINGSIDE_SECRET"}},
		{"RINGSIDE_SECRET=0123456789abcdef RINGSIDE_TLS_CERT=/no/cert", nil, []string{"RINGSIDE_TLS_KEY", "/no/cert", "expected three files"}},
		{"RINGSIDE_SECRET=short", nil, []string{"RINGSIDE_SECRET: ", "5 bytes, expected 16 to 4096"}},
		{"", &Overrides{Size: 2, Rank: 2}, []string{"Rank 2, Size 2"}},
		{"", &Overrides{Size: -1}, []string{"Size -1"}},
		{"RANK=0 WORLD_SIZE=2 LOCAL_WORLD_SIZE=2", &Overrides{MasterPort: 5}, []string{"MasterPort 5 without an address"}},
		{"", &Overrides{Secret: make([]byte, 4097)}, []string{"4097 bytes"}},
	}
	for _, c := range cases {
		w, err := Resolve(env(c.env), c.over)
		if !errors.Is(err, ErrEnvironment) {
			t.Errorf("%s %+v: %v, %v; expected ErrEnvironment", c.env, c.over, w, err)
			continue
		}
		for _, part := range c.want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %v\nexpected it to have %q", c.env, err, part)
			}
		}
	}
}

func TestSecret(t *testing.T) {
	name := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(name, []byte(" a secret from a file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		env  string
		over *Overrides
		want string
	}{
		{"", nil, ""},
		{"RINGSIDE_SECRET_FILE=" + name, nil, "a secret from a file"},
		{"RINGSIDE_SECRET=0123456789abcdef RINGSIDE_SECRET_FILE=" + name, nil, "0123456789abcdef"},
		{"RINGSIDE_SECRET=0123456789abcdef", &Overrides{Secret: []byte("fedcba9876543210")}, "fedcba9876543210"},
	} {
		w, err := Resolve(env(c.env), c.over)
		if err != nil || string(w.Secret) != c.want {
			t.Errorf("%s: %q, %v; expected %q", c.env, w.Secret, err, c.want)
		}
	}
}

func TestExpandNodeList(t *testing.T) {
	for list, want := range map[string]string{
		"a":                   "a",
		"a,b":                 "a b",
		"a[1-3]":              "a1 a2 a3",
		"a[01-03,7],b2":       "a01 a02 a03 a7 b2",
		"a[8-11]":             "a8 a9 a10 a11",
		"c[1-2]-x[3-4]":       "c1-x3 c1-x4 c2-x3 c2-x4",
		"n[001].cluster":      "n001.cluster",
		"gpu-1,gpu-[2,4-5].d": "gpu-1 gpu-2.d gpu-4.d gpu-5.d",
	} {
		got, err := ExpandNodeList(list)
		if err != nil || !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%s: %v, %v; expected %s", list, got, err, want)
		}
	}
	for _, bad := range []string{"", ",", "a,", "a[", "a]", "a[1", "a[]", "a[x]", "a[2-1]", "a[1-]", "a[[1]]", "a[0-70000]", "a[0-999]b[0-999]", "a[0-99999999999]"} {
		if got, err := ExpandNodeList(bad); !errors.Is(err, errNodeList) {
			t.Errorf("%q: %d names, %v; expected an error", bad, len(got), err)
		}
	}
}

func FuzzExpandNodeList(f *testing.F) {
	for _, s := range []string{"a[01-03,7],b", "c[1-2]-x[3-4]", "2(x3),1", "[", "a[0-65535]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		hosts, err := ExpandNodeList(s)
		if err == nil && (len(hosts) == 0 || len(hosts) > maxHosts) {
			t.Errorf("%q is %d hosts", s, len(hosts))
		}
		counts, err := expandCounts(s)
		if err == nil && (len(counts) == 0 || len(counts) > maxHosts) {
			t.Errorf("%q is %d counts", s, len(counts))
		}
	})
}
