// Package train holds training loops for image classifiers, byte-level language models
// and models that predict a column of a table, from their data to an evaluation on
// held-out data. A program may train a Model of its own.
//
// A loop records one program a step and sends it with one Submit. It waits for an answer
// only where it reads a loss (Options.LossEvery). In between it records the next step
// while the last one runs. Only the batch and a few scalars change from step to step, so
// every step is the same program. With the same seed, the losses are the same bits on an
// engine in this process and through a cluster.
//
// Several runs can be peers that train one model apart (Options.Outer): each takes Inner
// steps on batches of its own, then all go on from the same weights.
package train
