// Package nn has the layers, losses and files of neural networks.
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
// A module is a struct of layers and parameters; there is no registry and no reflection. Params lists the parameters in a
// fixed order under dotted names, and layouts and names are PyTorch's, so that its files can be read. A layer that others
// share (a tied embedding) is listed once, by whoever contains it.
//
// Parameters are leaves that require gradients. They are initialised as PyTorch does by default, from the session's random
// numbers, so that a seed makes the same model on every engine. They belong to the Scope that is open when they are made;
// make models outside of one.
//
// Forward passes record operations and do nothing else. Modules are used by one goroutine at a time, as their session is.
//
//	module.go      Module, Layer, names, training mode
//	linear.go ...  layers
//	attention.go   attention with rotary positions
//	loss.go        losses
//	recompute.go   layers whose inside is computed again instead of kept
//	file.go        parameters in safetensors files
package nn
