// Package autograd computes gradients in reverse mode.
//
//	loss := model.Loss(x, y)
//	grads, err := autograd.Grad(loss, w, b)    // gradients as values
//	err = autograd.Backward(loss)              // or added to w.Grad() of every leaf w that loss depends on
//
// The graph is what tensor.Node makes it: it hangs on the tensors that were computed from a leaf (RequireGrad), is
// immutable, and belongs to no list. So a loss can be differentiated twice, two losses may share a part, a forward pass
// without a backward one costs nothing later, and sessions in different goroutines know nothing of each other.
//
// Gradients are recorded like everything else: the backward pass of a step is in the same program as its forward pass,
// and no value is read. What it needs of the forward pass must not have been released: differentiate inside of the
// Scope that computed the loss.
//
// # How it goes
//
// The walk is iterative and enters only what lies between the loss and what is asked for. Each operation has an entry in
// one table, by tensor.Op, that says what flows into one input (a vector-Jacobian product); the walk sums it back over
// broadcast dims, casts it to the input's dtype, and adds up what comes over several ways in the order of the graph, so
// that the same step records the same program.
//
//	grad.go     Grad, Backward, options
//	walk.go     order, accumulation
//	recompute.go   parts of a graph that are computed again instead of kept (activation checkpointing)
//	accumulate.go  gradients of a step in several batches
//	table.go    the table
//	vjp_*.go    its entries
//	fit.go      a gradient in the shape and dtype of its input
//
// # Conventions
//
// They are PyTorch's: at the bounds of Clamp the gradient passes; equal operands of Maximum and Minimum get half each; equal
// extremes of Max and Min share evenly; |x| and ReLU have 0 at 0; x^0 has 0 everywhere.
package autograd
