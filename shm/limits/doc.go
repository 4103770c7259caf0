// Package limits tells how much memory and how many cores, descriptors and threads this
// process may still use. Memory and cores are the least of three: what the machine has,
// what control groups allow, and what the process's own resource limits allow.
//
// A control group (cgroup) bounds a container or a service. Version 2 is one tree of
// groups; version 1 has a tree for each controller. A process is in one group of each
// tree, and every ancestor's bound holds as well:
//
//	/proc/self/cgroup      0::/app/worker     the group, from the tree's root
//	/proc/self/mountinfo   / /sys/fs/cgroup   which part of the tree is mounted where
//	/sys/fs/cgroup/app/worker/memory.max            the group's own bound
//	/sys/fs/cgroup/app/memory.max                   its ancestor's
//
// Threads are bounded by control groups and by the limit of the user, whose processes all
// count. Written and Started say what bounded a write or a start of a process that
// failed, Mappings what bounded a mapping. Space tells whether a process has room to
// begin.
//
// Nothing is kept: every call reads the files again, because bounds and use change. All
// functions may be called concurrently.
package limits
