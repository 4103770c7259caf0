// Package gpucheck is the bundle that tries the CUDA packages on a machine with a GPU,
// which needs neither Go nor a network: run.sh and the test of it. `make gpu-check` puts
// it together in bin/gpu-check; docs/gpu.md says how to use it and holds its last report.
package gpucheck
