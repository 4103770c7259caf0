// Package rendezvous is how the ranks of a program find each other: who am I, of how many, and where is rank 0?
//
// [Resolve] answers from the environment that launchers set. [Open] then connects this rank to the store, a small
// key-value server that rank 0 runs, in which ranks publish where they can be reached:
//
//	world, err := rendezvous.Resolve(os.LookupEnv, nil)
//	if err != nil { ... }
//	store, err := rendezvous.Open(ctx, world, nil)
//	if err != nil { ... }
//	defer store.Close()
//	addrs, err := store.AllGather(ctx, []byte(myAddress)) // addrs[r] is what rank r gave
//
// # Who am I
//
// The first of these that has something to say wins, and [World.Source] tells which it was:
//
//	explicit options    Overrides.Size above 0
//	torchrun            RANK WORLD_SIZE, and LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT,
//	                    TORCHELASTIC_RUN_ID, TORCHELASTIC_RESTART_COUNT, TORCHELASTIC_USE_AGENT_STORE;
//	                    ringside run uses these names too
//	Open MPI            OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE; the job's name from PMIX_NAMESPACE or
//	                    OMPI_MCA_ess_base_jobid
//	Hydra (MPICH)       PMI_RANK PMI_SIZE, and MPI_LOCALRANKID MPI_LOCALNRANKS; PMI_JOBID or PMI_KVSNAME
//	Slurm               under srun: SLURM_PROCID with SLURM_STEP_ID, SLURM_STEP_NUM_TASKS or SLURM_NTASKS, SLURM_LOCALID
//	                    SLURM_NODEID, SLURM_STEP_TASKS_PER_NODE or SLURM_TASKS_PER_NODE, SLURM_STEP_NODELIST or
//	                    SLURM_JOB_NODELIST, SLURM_JOB_ID; some older names of these too
//	Kubernetes          JOB_COMPLETION_INDEX WORLD_SIZE; the address from MASTER_ADDR, or from HOSTNAME and
//	                    RINGSIDE_SERVICE, the headless service
//	single process      none of these
//
// RINGSIDE_SECRET, or RINGSIDE_SECRET_FILE that names a file with it, is what all ranks know and nobody else;
// RINGSIDE_RENDEZVOUS is where the store listens ("unix:/path", "tcp:host:port") if it is to be elsewhere than the
// launcher says; RINGSIDE_EPOCH the number of the attempt; RINGSIDE_VERDICT a file in which the launcher looks for a [Verdict].
//
// # Where is rank 0
//
// At MASTER_ADDR:MASTER_PORT if they are given, under Slurm on the first host of the node list. Otherwise all ranks must
// be on one host, as the launcher's counts of local ranks say, and then the store is a Unix socket in the runtime folder,
// named after the job: mpirun on one host needs no configuration. Across hosts mpirun's ranks need MASTER_ADDR
// (mpirun -x MASTER_ADDR=host).
//
// # Who may join
//
// Whoever knows the secret: both sides prove it by challenge and response (HMAC-SHA256 over fresh nonces of both), and
// every frame after that carries a MAC under a key of this connection. There is no encryption. Without a secret whoever
// reaches the port may join. The Unix socket lies in a folder that only this user can enter. Who is refused learns why at
// once; those that wait learn it when nobody is left who could come, or, of callers at a port that don't know the secret,
// who may be anybody, when their time is up. Callers that say nothing are hung up on after 10 s, and earlier where they are more than
// 256 beside the number of ranks: then who comes takes the place of the oldest.
// [Store.Key] is a secret of this run for what the ranks do next.
//
// # Why plain net
//
// The store moves a few kilobytes once and then idles, so it is written with package net and a goroutine a rank: the
// transports that data travels over (ipc/local, net/tcp) need the addresses that it hands out.
package rendezvous
