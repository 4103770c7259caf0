// Package ipctest has what tests of conns need: the conformance suite that every
// ipc.Transport passes ([Run]), and a transport within one process ([Network]).
package ipctest
