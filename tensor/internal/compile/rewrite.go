package compile

// rewrite runs the passes, except those that make kinds of steps that the engine lacks.
// Each pass leaves a correct plan, whether or not the passes before it ran.
func (rw *rewriter) rewrite() {
	rw.commonSteps()
	rw.constants()
	rw.reluGrads()
	rw.pass(JoinPads, rw.joinPads)
	rw.pass(Attention, rw.attention)
	rw.dropDead()
	rw.sink()
	rw.pass(NormGrad, rw.normGrads)
	rw.pass(LossGrad, rw.lossGrads)
	rw.pass(AdamWProduct, rw.adamWProducts)
	rw.pass(AdamW, rw.adamW)
	rw.halves()
	rw.pass(TilesFold, rw.tileFolds)
	rw.pass(Tiles, rw.tiles)
	rw.pass(Epilogue, rw.epilogues)
}

// pass runs a pass that makes steps of kind f.
func (rw *rewriter) pass(f Fused, run func()) {
	if !rw.opt.leaves(f) {
		run()
	}
}
