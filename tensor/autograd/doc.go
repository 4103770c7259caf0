// Package autograd computes gradients in reverse mode.
//
//	loss := model.Loss(x, y)
//	grads, err := autograd.Grad(loss, w, b)  // gradients as values
//	err = autograd.Backward(loss)            // or added to Grad of every leaf
//
// The graph consists of tensor.Nodes. It is held by the tensors that were computed from a
// leaf (RequireGrad), and it is immutable. So a loss can be differentiated twice, two
// losses can share a part, a forward pass without a backward pass costs nothing later,
// and sessions in different goroutines share no state.
//
// Gradients are recorded like all operations: the backward pass of a step is in the same
// program as its forward pass, and no value is read. The intermediates that the backward
// pass needs must not have been released: differentiate inside the Scope that computed
// the loss.
//
// # Implementation
//
// The walk is iterative and visits only nodes between the loss and the requested tensors.
// A table has an entry for each operation that returns the gradient of one input (a
// vector-Jacobian product). The walk sums that gradient over broadcast dims and casts it
// to the dtype of the input. It adds gradients that arrive on several paths in the order
// of the graph, so that equal steps record equal programs.
//
//	grad.go        Grad, Backward, options
//	accumulate.go  gradients of a step in several batches
//	recompute.go   parts of a graph that are computed again instead of kept
//	               (activation checkpointing)
//	walk.go        the walk over the graph
//	table.go       the table
//	vjp_*.go       its entries
//	call.go        the arguments of an entry
//	fit.go         fits a gradient to the shape and dtype of its input
//
// # Conventions
//
// The conventions are PyTorch's. At the bounds of Clamp the gradient passes. Equal
// operands of Maximum and Minimum get half each, and equal extremes of Max and Min share
// evenly. |x| and ReLU have gradient 0 at 0; x^0 has 0 everywhere.
package autograd
