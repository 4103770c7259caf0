// Package rendezvous tells a process its place among the ranks of a program, and connects
// the ranks before they know each other's addresses.
//
// [Resolve] reads the environment that launchers set: this rank, the number of ranks, the
// address of rank 0. [Open] then connects this rank to the store, a small key-value
// server that rank 0 runs, through which the ranks publish their addresses:
//
//	world, err := rendezvous.Resolve(os.LookupEnv, nil)
//	if err != nil { ... }
//	store, err := rendezvous.Open(ctx, world, nil)
//	if err != nil { ... }
//	defer store.Close()
//	addrs, err := store.AllGather(ctx, []byte(myAddress)) // addrs[r] is rank r's value
//
// # The rank
//
// The first of these that is set wins, and [World.Source] names it:
//
//	explicit options    Overrides.Size above 0
//	torchrun            RANK WORLD_SIZE, and LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR
//	                    MASTER_PORT, TORCHELASTIC_RUN_ID, TORCHELASTIC_RESTART_COUNT,
//	                    TORCHELASTIC_USE_AGENT_STORE; ringside run uses these names too
//	Open MPI            OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE; the job's
//	                    name from PMIX_NAMESPACE or OMPI_MCA_ess_base_jobid
//	Hydra (MPICH)       PMI_RANK PMI_SIZE, and MPI_LOCALRANKID MPI_LOCALNRANKS;
//	                    PMI_JOBID or PMI_KVSNAME
//	Slurm               under srun: SLURM_PROCID with SLURM_STEP_ID, SLURM_STEP_NUM_TASKS
//	                    or SLURM_NTASKS, SLURM_LOCALID SLURM_NODEID,
//	                    SLURM_STEP_TASKS_PER_NODE or SLURM_TASKS_PER_NODE,
//	                    SLURM_STEP_NODELIST or SLURM_JOB_NODELIST, SLURM_JOB_ID; some
//	                    older names of these too
//	Kubernetes          JOB_COMPLETION_INDEX WORLD_SIZE; the address from MASTER_ADDR, or
//	                    from HOSTNAME and RINGSIDE_SERVICE, the headless service
//	single process      none of these
//
// These are read besides:
//
//	RINGSIDE_SECRET       a secret that only the ranks know, of 16 to 4,096 bytes
//	RINGSIDE_SECRET_FILE  a file with it, of mode 0600
//	RINGSIDE_TLS          1: what crosses hosts is encrypted, on all ranks or on none
//	RINGSIDE_TLS_CERT     with RINGSIDE_TLS_KEY and RINGSIDE_TLS_CA: PEM files, if the
//	                      key is not to be derived from the secret
//	RINGSIDE_RENDEZVOUS   the store's address, "unix:/path" or "tcp:host:port", if not
//	                      the launcher's; the folder of a path must be this user's alone
//	RINGSIDE_EPOCH        the number of the attempt
//	RINGSIDE_VERDICT      a file in which the launcher looks for a [Verdict]
//	RINGSIDE_FLIGHT       a folder for ranks' last calls when one fails; off: none
//	RINGSIDE_EVENTS       a folder for each call of the ranks; none if it is not set
//
// # The address of rank 0
//
// It is MASTER_ADDR:MASTER_PORT if they are given, under Slurm the first host of the node
// list. Otherwise all ranks must be on one host, as the launcher's counts of local ranks
// say, and the store is a socket in the runtime folder, named after the job: mpirun on
// one host needs no configuration. Across hosts mpirun's ranks need MASTER_ADDR (mpirun
// -x MASTER_ADDR=host).
//
// # Admission
//
// The ranks reach the store by an ipc.Conn: ipc/local at the socket, net/tcp at the
// address. Both ends prove that they know the secret. Over TCP that is net/tcp's
// handshake; without a secret any process that reaches the port may join. Without TLS
// nothing is encrypted. The socket lies in a folder that only this user can enter, and a
// rank with another secret is refused there by the store itself.
//
// A refused rank learns the reason at once. The ranks that wait for it learn it when no
// process is left that could come in its place; callers at a port without the secret can
// be any process, so these end nothing, and the waiting ranks learn of them when their
// time is up. A conn whose rank does not join is closed after 10 s, and earlier where
// more than 256 beside the number of ranks have not joined: then a new one takes the
// place of the oldest.
//
// [Store.Key] is a secret of this run for what the ranks do next.
package rendezvous
