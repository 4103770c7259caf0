// Package launch starts the ranks of a program, as processes on this host and on others
// by a remote shell, and looks after them until all have ended: it is what ringside run
// is made of.
//
// Each rank finds in its environment, in torchrun's names,
//
//	RANK WORLD_SIZE             its number, of how many
//	LOCAL_RANK LOCAL_WORLD_SIZE the same among the ranks of its host
//	GROUP_RANK GROUP_WORLD_SIZE the number of its host, of how many
//	MASTER_ADDR MASTER_PORT     where rank 0 listens for the others
//	TORCHELASTIC_RUN_ID         a name of this run
//	TORCHELASTIC_RESTART_COUNT  how often the program was started again
//	RINGSIDE_SECRET             a secret of this run's ranks
//	RINGSIDE_RENDEZVOUS         on one host a socket in a folder of this run's own, which
//	                            ringside's programs prefer to MASTER_PORT: no other
//	                            program can have taken it
//	RINGSIDE_VERDICT            a file in the same folder, in which a rank names the rank
//	                            because of which it fails
//
// so that collective.Init, and any program that torchrun starts, needs nothing else.
//
// # Ends
//
// Every rank is the leader of a process group. A failure ends all: they get SIGTERM and,
// after Options.Grace, SIGKILL. So does the end of the context. However a rank ends, what
// it leaves behind in its group is ended in the same way; a process that is to stay needs
// a group of its own (setsid). With Options.Restarts all ranks are then started again.
// Should the launcher itself be killed, the kernel kills the local ranks, and a shell
// that the launcher keeps for this, which sees its own standard input end, what they
// started in their groups; the ranks of other hosts see their remote shell's standard
// input end, which terminates them like a failure; the folder of its socket is taken away
// by the next launcher.
//
// # Output
//
// Lines of ranks are passed on as they come. When a group has failed, all of its ranks
// tend to write the same news and end: the last line that a rank of this host writes to
// its standard error after it has left its RINGSIDE_VERDICT, if it has the error of a
// group in it, is held back for up to a second. Run's error has one such line for all
// ranks with the same verdict.
//
// # Other hosts
//
// A rank on another host is a process of the remote shell, ssh by default, that runs a
// small script with /bin/sh there. The script comes by standard input and not as an
// argument, because it has the secret in it and arguments are for all to see. The program
// must be there under the same path, and so must be the working directory.
package launch
