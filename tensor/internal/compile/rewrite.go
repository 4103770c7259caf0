package compile

// rewrite runs the passes, except those that make kinds of steps that the engine lacks.
// Each pass leaves a correct plan, whether or not the passes before it ran.
func (rw *rewriter) rewrite() {
	for _, pass := range []struct {
		makes Fused // the kind of its steps; Single: no other kind
		run   func(g *graph, e *edit)
	}{
		{Single, rw.commonSteps},
		{Single, rw.constants},
		{Single, rw.reluGrads},
		{JoinPads, rw.joinPads},
		{Attention, rw.attention},
		{Single, rw.dropDead},
		{Single, rw.sink},
		{NormGrad, rw.normGrads},
		{LossGrad, rw.lossGrads},
		{AdamWProduct, rw.adamWProducts},
		{AdamW, rw.adamW},
		{Single, rw.halves},
		{HalfRows, rw.halfRows},
		{Single, rw.dropDead},
		{TilesFold, rw.tileFolds},
		{Tiles, rw.tiles},
		{Epilogue, rw.epilogues},
	} {
		if pass.makes == Single || !rw.opt.leaves(pass.makes) {
			e := newEdit()
			pass.run(rw.graph(), e)
			rw.apply(e)
		}
	}
}
