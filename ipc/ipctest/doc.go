// Package ipctest has what tests of conns need: the conformance suite that every
// ipc.Transport passes ([Run]), a transport within one process ([Network]) and one that
// fails on purpose ([Faulty]).
package ipctest
