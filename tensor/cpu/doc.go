// Package cpu is the engine on the cores of this machine. A Device has the memory, the kernels and the plans; a Space
// is one session's values on it; Open wraps a Space as a tensor.Engine for a session in the same process. Workers use
// Device and Space for the sessions of others.
package cpu
