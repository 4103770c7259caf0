// Package nn has layers, losses and parameter files of neural networks.
//
//	net := nn.Sequential{
//		nn.NewLinear(s, 784, 128, true), nn.ReLU(),
//		nn.NewLinear(s, 128, 10, true),
//	}
//	loss := nn.CrossEntropy(net.Forward(x), y)
//	grads, err := autograd.Grad(loss, nn.Tensors(net.Params())...)
//
// # Modules
//
// A module is a struct of layers and parameters; there is no registry and no reflection.
// Params returns the parameters in a fixed order under dotted names. Layouts and names
// are PyTorch's, so that its files can be read. A layer that several others share (a tied
// embedding) is listed once, by the module that contains it.
//
// Parameters are leaves that require gradients. They are initialised as PyTorch does by
// default, from the session's random numbers, so a seed gives the same model on every
// engine. They belong to the open Scope; make models outside a scope.
//
// Forward passes only record operations. Modules must be used by one goroutine at a time,
// as their session.
//
//	module.go      Module, Layer, names, training mode
//	linear.go      Linear, Embedding
//	conv.go        Conv2D
//	norm.go        LayerNorm, RMSNorm, Dropout
//	attention.go   attention with rotary positions
//	loss.go        losses
//	parts.go       consecutive parts of a model, for the stages of a pipeline
//	recompute.go   layers whose intermediates are computed again instead of kept
//	parallel.go    ranks with the same parameters, whose gradients are averaged
//	file.go        parameters in safetensors files
package nn
