// Package train holds training loops: an image classifier and a byte-level language model, from their data to an
// evaluation on what was held out.
//
// A loop records one program a step and hands it over with one Submit. It waits for an answer only where it reads
// a loss (Options.LossEvery); in between it records the next step while the last one runs. All that changes from step to
// step are the batch and a few scalars, so every step is the same program. Given a seed, the losses are the same bits on
// an engine in this process and through a cluster.
package train
