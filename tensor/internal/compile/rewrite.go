package compile

// rewrite runs the passes but for those whose steps the engine has not. Each leaves a
// correct plan, whether or not the passes before it ran.
func (c *compiler) rewrite() {
	c.commonSteps()
	c.constants()
	c.reluGrads()
	c.pass(JoinPads, c.joinPads)
	c.pass(Attention, c.attention)
	c.dropDead()
	c.sink()
	c.pass(NormGrad, c.normGrads)
	c.pass(LossGrad, c.lossGrads)
	c.pass(AdamWProduct, c.adamWProducts)
	c.pass(AdamW, c.adamW)
	c.halves()
	c.pass(TilesFold, c.tileFolds)
	c.pass(Tiles, c.tiles)
	c.pass(Epilogue, c.epilogues)
}

// pass runs a pass that makes steps of kind f.
func (c *compiler) pass(f Fused, run func()) {
	if !c.opt.leaves(f) {
		run()
	}
}

// dropDead removes steps that cannot fail and whose results no step reads.
func (c *compiler) dropDead() {
	g := c.graph()
	e := newEdit()
	for k := len(c.plan.Steps) - 1; k >= 0; k-- {
		s := &c.plan.Steps[k]
		if s.Op.Info().Fallible {
			continue
		}
		dead := true
		for _, o := range s.Outs() {
			dead = dead && c.plan.Buffers[o.Buf].Place == Temp && len(g.readers[o.Buf]) == 0
		}
		if !dead {
			continue
		}
		e.gone[k] = true
		for i, o := range s.In {
			if o.Scalar < 0 {
				r := &g.readers[o.Buf]
				for j, u := range *r {
					if u == (use{k, i}) {
						*r = append((*r)[:j:j], (*r)[j+1:]...)
						break
					}
				}
			}
		}
	}
	c.apply(e)
}
