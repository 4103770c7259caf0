// Package optim changes parameters by their gradients.
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
// An update is one fused operation a parameter and state tensor, recorded outside of any graph, and binds the parameter to
// its new value (Assign); an engine writes that over the old one. What changes from step to step, as the learning rate
// and Adam's bias corrections do, are scalars, so that every step is the same program. Nothing here waits for a value.
//
// Optimizers are used by one goroutine at a time, as the session is.
package optim
