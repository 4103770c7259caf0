// Package optim updates parameters with their gradients.
//
//	opt := optim.NewAdamW(params, optim.AdamWOptions{Decay: 0.01})
//	schedule := optim.Cosine(3e-4, 3e-5, 100, steps)
//	for step := range steps {
//		opt.LR = schedule(step)
//		sess.Scope(func(*tensor.Scope) {
//			loss := model.Loss(batch(step))
//			var grads []*tensor.Tensor
//			if grads, err = autograd.Grad(loss, leaves...); err == nil {
//				err = opt.Step(optim.ClipGradNorm(grads, 1))
//			}
//		})
//		if err != nil {
//			return err
//		}
//	}
//
// An update is one fused operation for each parameter and state tensor, recorded outside
// any graph. It binds the parameter to its new value (Assign), which an engine writes
// over the old one. Values that change from step to step, such as the learning rate and
// Adam's bias corrections, are scalars, so every step is the same program. Nothing here
// waits for a value.
//
// Optimizers must be used by one goroutine at a time, as the session.
package optim
