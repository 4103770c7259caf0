package rendezvous

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
)

// environment reads variables and keeps the first mistake.
type environment struct {
	lookup Lookup
	err    error
}

func (e *environment) fail(format string, a ...any) {
	if e.err == nil {
		e.err = fmt.Errorf("%w: %s", ErrEnvironment, fmt.Sprintf(format, a...))
	}
}

// text returns a variable, "" when it isn't set.
func (e *environment) text(name string) string {
	v, _ := e.lookup(name)
	return v
}

func (e *environment) has(name string) bool { return e.text(name) != "" }

// integer returns a variable from lo to hi, or absent when it isn't set or empty.
func (e *environment) integer(name string, lo, hi, absent int) int {
	v := e.text(name)
	if v == "" {
		return absent
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < lo || n > hi {
		e.fail("%s=%q, expected a whole number from %d to %d", name, v, lo, hi)
		return absent
	}
	return n
}

// first returns the first of the variables that is set, with its name.
func (e *environment) first(names ...string) (name, value string) {
	for _, n := range names {
		if v := e.text(n); v != "" {
			return n, v
		}
	}
	return names[0], ""
}

// place reads rank and size from variables that must both be there, and the local ones,
// which need not be.
func (e *environment) place(w *World, rank, size, localRank, localSize string) {
	for _, missing := range [][2]string{{size, rank}, {rank, size}} {
		if !e.has(missing[0]) {
			e.fail("%s is not set although %s=%q is: expected the launcher to set both", missing[0], missing[1], e.text(missing[1]))
			return
		}
	}
	w.rankName = rank
	w.Size = e.integer(size, 1, MaxSize, 1)
	if e.err != nil {
		return
	}
	w.Rank = e.integer(rank, 0, w.Size-1, 0)
	if e.err != nil {
		e.err = fmt.Errorf("%w (%s=%d)", e.err, size, w.Size)
	}
	w.LocalSize = e.integer(localSize, 1, w.Size, 0)
	top := w.Size - 1
	if w.LocalSize > 0 {
		top = w.LocalSize - 1
	}
	w.LocalRank = e.integer(localRank, 0, top, -1)
}

// master reads MASTER_ADDR and MASTER_PORT; the port has a default.
func (e *environment) master(w *World) {
	w.MasterAddr = e.text("MASTER_ADDR")
	w.MasterPort = e.integer("MASTER_PORT", 1, 65535, 0)
	if w.MasterAddr == "" {
		w.MasterPort = 0
	} else if w.MasterPort == 0 {
		w.MasterPort = jobPort(w.Job)
	}
}

// jobPort returns a port for a job, so that two jobs on a host rarely want the same:
// below the ephemeral ones of Linux.
func jobPort(job string) int {
	if job == "" {
		return DefaultPort
	}
	h := fnv.New32a()
	h.Write([]byte(job))
	return 20000 + int(h.Sum32()%10000)
}

// launcher is one way in which ranks are started: its sign, and the reader of its
// variables.
type launcher struct {
	name    string
	present func(*environment, Overrides) bool
	read    func(*environment, Overrides, *World)
}

var launchers = [...]launcher{
	{"explicit options", func(_ *environment, o Overrides) bool { return o.Size != 0 }, readOptions},
	{"torchrun's variables", func(e *environment, _ Overrides) bool { return e.has("RANK") }, readTorchrun},
	{"Open MPI's variables", func(e *environment, _ Overrides) bool {
		return e.has("OMPI_COMM_WORLD_RANK") || e.has("OMPI_COMM_WORLD_SIZE")
	}, readOpenMPI},
	{"Hydra's variables", func(e *environment, _ Overrides) bool { return e.has("PMI_RANK") || e.has("PMI_SIZE") }, readHydra},
	// A batch script has SLURM_PROCID=0 and the whole job's SLURM_NTASKS without being
	// one of so many ranks: only what srun starts has a step.
	{"Slurm's variables", func(e *environment, _ Overrides) bool {
		return e.has("SLURM_PROCID") && (e.has("SLURM_STEP_ID") || e.has("SLURM_STEPID"))
	}, readSlurm},
	{"Kubernetes' variables", func(e *environment, _ Overrides) bool { return e.has("JOB_COMPLETION_INDEX") }, readKubernetes},
}

func readOptions(e *environment, o Overrides, w *World) {
	if o.Size < 0 || o.Size > MaxSize || o.Rank < 0 || o.Rank >= o.Size {
		e.fail("options Rank %d, Size %d: expected a size from 1 to %d and a rank below it", o.Rank, o.Size, MaxSize)
		return
	}
	w.Rank, w.Size = o.Rank, o.Size
	e.master(w)
}

// readTorchrun: torch.distributed.run's "Environment Variables". With
// TORCHELASTIC_USE_AGENT_STORE the agent itself listens on MASTER_PORT, so that rank 0
// has to go elsewhere: to a socket on one host, else to the next port.
func readTorchrun(e *environment, _ Overrides, w *World) {
	e.place(w, "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
	w.Epoch = uint64(e.integer("TORCHELASTIC_RESTART_COUNT", 0, 1<<31, 0))
	e.master(w)
	if id := e.text("TORCHELASTIC_RUN_ID"); id != "" {
		w.Job = "torch-" + id
	}
	if e.text("TORCHELASTIC_USE_AGENT_STORE") != "True" || w.MasterAddr == "" {
		return
	}
	if w.OneHost() {
		// run ids are chosen by users
		w.Job += fmt.Sprintf("-%s-%d", w.MasterAddr, w.MasterPort)
		w.MasterAddr, w.MasterPort = "", 0
		return
	}
	w.MasterPort = w.MasterPort%65535 + 1
}

// job names the job after the first of the variables that is set, and finds rank 0's
// address.
func (e *environment) job(w *World, prefix string, names ...string) {
	if _, id := e.first(names...); id != "" {
		w.Job = prefix + id
	}
	e.master(w)
	e.masterFromSlurm(w)
}

func readOpenMPI(e *environment, _ Overrides, w *World) {
	e.place(w, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE")
	e.job(w, "ompi-", "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid")
}

func readHydra(e *environment, _ Overrides, w *World) {
	e.place(w, "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS")
	e.job(w, "pmi-", "PMI_JOBID", "PMI_KVSNAME")
}

// readSlurm: srun(1), "OUTPUT ENVIRONMENT VARIABLES".
func readSlurm(e *environment, _ Overrides, w *World) {
	size, _ := e.first("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS")
	e.place(w, "SLURM_PROCID", size, "SLURM_LOCALID", "")
	_, step := e.first("SLURM_STEP_ID", "SLURM_STEPID")
	_, id := e.first("SLURM_JOB_ID", "SLURM_JOBID")
	w.Job = "slurm-" + id + "." + step
	node := e.integer("SLURM_NODEID", 0, MaxSize, 0)
	if name, v := e.first("SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"); v != "" {
		counts, err := expandCounts(v)
		switch {
		case err != nil:
			e.fail("%s=%q: %v", name, v, err)
		case node < len(counts):
			w.LocalSize = min(counts[node], w.Size)
		}
	}
	e.master(w)
	e.masterFromSlurm(w)
}

// masterFromSlurm takes the first host of Slurm's list if the ranks are on several and no
// host is named.
func (e *environment) masterFromSlurm(w *World) {
	if w.MasterAddr != "" || w.OneHost() || e.err != nil {
		return
	}
	name, list := e.first("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST")
	if list == "" {
		return
	}
	hosts, err := ExpandNodeList(list)
	if err != nil {
		e.fail("%s=%q: %v", name, list, err)
		return
	}
	w.MasterAddr = hosts[0]
	w.MasterPort = e.integer("MASTER_PORT", 1, 65535, jobPort(w.Job))
}

// readKubernetes: "Indexed Job for Parallel Processing with Static Work Assignment" and
// "Job with Pod-to-Pod Communication" of the Kubernetes documentation: pod i of a job has
// the host name <job>-i, and with the Service that the pods' subdomain names the address
// <job>-i.<service>.
func readKubernetes(e *environment, _ Overrides, w *World) {
	e.place(w, "JOB_COMPLETION_INDEX", "WORLD_SIZE", "", "")
	w.LocalRank, w.LocalSize = 0, 1
	e.master(w)
	if w.MasterAddr != "" || w.Size == 1 || e.err != nil {
		return
	}
	host, service := e.text("HOSTNAME"), e.text("RINGSIDE_SERVICE")
	job, ok := strings.CutSuffix(host, "-"+e.text("JOB_COMPLETION_INDEX"))
	if service == "" || !ok || job == "" {
		e.fail("MASTER_ADDR is not set, and HOSTNAME=%q with RINGSIDE_SERVICE=%q do not give rank 0's address: expected "+
			"MASTER_ADDR=<job>-0.<headless service>, or RINGSIDE_SERVICE and the host name that an indexed job gives", host, service)
		return
	}
	w.MasterAddr = job + "-0." + service
	w.MasterPort = e.integer("MASTER_PORT", 1, 65535, DefaultPort)
}
