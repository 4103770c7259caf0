// Package safetensors reads and writes the safetensors file format, in which model
// weights are published.
//
//	| 8 bytes  | header length N, little endian                          |
//	| N bytes  | JSON: name → {"dtype", "shape", "data_offsets"},        |
//	|          | and "__metadata__" → {string: string}; spaces at its end |
//	| the rest | data; offsets count from its first byte                 |
//
// The tensors cover the data exactly: no hole, no overlap, nothing after the last. All
// numbers are little endian and row-major. A file that breaks a rule is refused when it
// is opened, before any of its data is read, with an error that names the file, the
// tensor, the value and the expected one. An invalid file costs at most the memory of its
// header.
//
// Source: https://github.com/huggingface/safetensors, section "Format".
package safetensors
