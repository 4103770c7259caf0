// Package compile turns a tensor.Program into a Plan: a list of steps over buffers whose places are settled, which an
// engine replays with nothing left to decide. It knows no engine and does no arithmetic.
//
// What it does, in order: drop what nobody needs; fold views (reshape, permute, expand, slice) into the strides of those
// who read them; give every kept result a buffer of its own and every other one a place in one arena, by lifetime; let an
// elementwise step write over an operand that dies there; let a kept result take the memory of a donated input.
package compile
