package compile

// rewrite runs the passes. Each leaves a correct plan.
func (c *compiler) rewrite() {
	c.commonSteps()
	c.constants()
	c.reluGrads()
	c.joinPads()
	c.attention()
	c.dropDead()
	c.sink()
	c.normGrads()
	c.lossGrads()
	c.adamWProducts()
	c.adamW()
	c.halves()
	c.tileFolds()
	c.tiles()
	c.epilogues()
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
