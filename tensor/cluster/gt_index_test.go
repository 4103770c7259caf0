package cluster_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// covered is something that must hold and the tests that would find it if it did not:
// each "package Test", or "package 'subtest'" of a suite. Packages are folders from the
// root.
type covered struct {
	what  string
	tests []string
}

// GT is the system that this one learns from. These are the behaviours that its users'
// programs rely on, by number.
var acceptance = []covered{
	{"1 tensors of lists read back, zeros, ones, shapes, random numbers of a seed on any number of workers", []string{
		"tensor/cluster TestBehaviours", "tensor/enginetest 'making tensors'", "tensor/enginetest 'random numbers'", "tensor/shard TestRandomNumbers"}},
	{"2 binary operations, scalars on either side, broadcasting, softmax by hand", []string{
		"tensor/cluster TestBehaviours", "tensor/enginetest 'two operands'", "tensor/cluster TestPrograms"}},
	{"3 chains, reads in between, a thousand operations, results of names that were dropped", []string{
		"tensor/cluster TestBehaviours", "tensor/enginetest 'chains'", "tensor/enginetest 'reads between operations'",
		"tensor/enginetest 'a thousand operations are one program'"}},
	{"4 sums and means over any dims, of tensors cut in these or others, unevenly", []string{
		"tensor/cluster TestBehaviours", "tensor/cluster TestPrograms", "tensor/shard TestIntegersAreExact"}},
	{"5 products by rows, by columns, by both, by the inner dim, chained, in 3 dims", []string{
		"tensor/cluster TestTogetherProducts", "tensor/cluster TestBehaviours", "tensor/shard TestColumnThenRow", "cmd/ringside/command TestProductsByHand"}},
	{"6 slices, transposes, reshapes, concatenations, splits of tensors that are cut", []string{
		"tensor/cluster TestBehaviours", "tensor/cluster TestPrograms"}},
	{"7 gradients of these, broadcast dims summed back, accumulation over batches of different size", []string{
		"tensor/cluster TestBehaviours", "tensor/autograd TestNumeric", "tensor/autograd TestGradientsAccumulate", "tensor/shard TestUnevenBatch",
		"tensor/cluster TestAccumulatedGradients", "tensor/optim TestStepTakesWhatBackwardLeft"}},
	{"8 updates in place change later reads alone; least squares; XOR", []string{
		"tensor/cluster TestUpdates", "tensor/enginetest 'updates in place'", "tensor/enginetest 'least squares by gradient descent'", "tensor/enginetest 'XOR'"}},
	{"9 signals: the inner scope, scopes without a config, layers by columns then rows, stages with workers for backward, few rows", []string{
		"tensor/cluster TestScopesOfSignals", "tensor/shard TestSignalsChangeNothing", "tensor/shard TestNestedSignals", "tensor/cluster TestTogetherProducts",
		"tensor/shard TestBackwardWorkers", "tensor/cluster TestBackwardWorkersOfACluster", "tensor/cluster TestPipeline"}},
	{"10 auto-shard is off unless asked for, splits unevenly, leaves small tensors alone, mixes", []string{
		"tensor/cluster TestAutoShardOfACluster", "tensor/shard TestAutoFindsTheBatch", "tensor/shard TestAutoLeavesAlone", "tensor/shard TestAutoFollowsSignals"}},
	{"11 many clients of the same names; one fails or is killed, and the others never notice", []string{
		"tensor/cluster TestManyClients", "tensor/cluster TestTogetherCrowd", "tensor/cluster TestFailingClients", "tensor/cluster TestKilledBesideOthers",
		"tensor/cluster TestChaos"}},
	{"12 a freed tensor, another session's, shapes that don't fit: errors that name both, and the session goes on", []string{
		"tensor/enginetest 'mistakes'", "tensor/cluster TestMistakesTogether", "tensor/cluster TestTogetherConformance", "tensor/cluster TestTogetherFails"}},
	{"13 compiled batches give the bits of uncompiled ones", []string{
		"tensor/enginetest 'programs that look alike'", "tensor/enginetest 'one program or many'", "tensor/cpu TestFusionKeepsBits", "tensor/cluster TestBehaviours",
		"tensor/cluster TestOneBatchOrMany"}},
}

// And these are the things that go wrong in GT.
var defects = []covered{
	{"a dead worker leaves its clients waiting", []string{"tensor/cluster TestKill", "tensor/cluster TestTogetherWorkerDies",
		"tensor/cluster TestPipelineWorkerDies", "cmd/ringside/command TestKillWhileTraining"}},
	{"a dead client's tensors are never freed", []string{"tensor/cluster TestKilledClientIsForgotten", "tensor/cluster TestWorkerForgets",
		"tensor/cluster TestKilledBesideOthers"}},
	{"two workers of one name corrupt each other", []string{"tensor/cluster TestSameName"}},
	{"answers of several clients get crossed", []string{"tensor/cluster TestManyClients", "tensor/cluster TestTogetherCrowd", "tensor/cluster/dispatcher TestForward",
		"tensor/cluster/dispatcher TestWatch"}},
	{"one client's scope shards another's tensors", []string{"tensor/cluster TestSignalsAreASessions"}},
	{"ids of different clients collide", []string{"tensor/cluster TestManyClients", "tensor/cluster TestSignalsAreASessions"}},
	{"threads of a client share a tape", []string{"tensor/autograd TestThreads", "tensor TestTwoGoroutinesAreFoundOut"}},
	{"a failure inside a batch is answered as success", []string{"tensor/cluster TestLateError", "tensor/cpu TestFailureChangesNothing",
		"tensor/cluster TestTogetherFails", "tensor/cluster TestPipelineFails"}},
	{"a shape error is accepted with an invented shape", []string{"tensor/enginetest 'mistakes'", "tensor TestErrorsAreStickyAndLocated"}},
	{"scalars become f32, declared dtypes are guesses", []string{"tensor TestPromotion", "tensor/enginetest 'two operands'", "tensor/enginetest 'making tensors'"}},
	{"no 0-d tensors, no seed", []string{"tensor/enginetest 'making tensors'", "tensor/enginetest 'random numbers'"}},
	{"slices, splits and indexing have no gradient", []string{"tensor/autograd TestCutsHaveGradients", "tensor/cluster TestBehaviours"}},
	{"gradients of products of 1-d by 2-d and 2-d by 3-d have the wrong shape", []string{
		"tensor/autograd TestProductGradientsHaveTheOperandsShapes", "tensor/cluster TestBehaviours"}},
	{"gradients are overwritten", []string{"tensor/autograd TestGradientsAccumulate"}},
	{"a second loss gets nothing", []string{"tensor/autograd TestSecondLoss"}},
	{"a forward pass without backward grows the tape", []string{"tensor/autograd TestForwardAloneLeavesNothing"}},
	{"the update is recorded and replayed", []string{"tensor/autograd TestUpdateIsNotRecorded"}},
	{"in-place updates leak the old tensor", []string{"tensor/cluster TestNothingGrows", "tensor/cluster TestQuotaCounts",
		"tensor/enginetest 'least squares by gradient descent'"}},
	{"the dispatcher leaks with every message", []string{"tensor/cluster TestNothingGrows"}},
	{"uneven sizes are not sharded", []string{"tensor/cluster TestPrograms", "tensor/cluster TestTogether", "tensor/shard TestChunk"}},
	{"the sum over one axis returns the full sum", []string{"tensor/cluster TestPrograms", "tensor/cluster TestBehaviours"}},
	{"products of tensors cut by columns fail", []string{"tensor/cluster TestTogetherProducts", "tensor/cluster TestBehaviours"}},
	{"nested scopes lose the outer one", []string{"tensor/shard TestNestedSignals", "tensor TestSignalEnds", "tensor/cluster TestScopesOfSignals"}},
	{"the backward signal is stored and never read", []string{"tensor/shard TestBackwardWorkers", "tensor/cluster TestBackwardWorkersOfACluster", "tensor/autograd TestBackwardSignals"}},
	{"workers: null means none", []string{"tensor/shard/config TestWorkers", "tensor/shard/config TestParse"}},
	{"every other operation gathers to the dispatcher and uploads again", []string{"tensor/cluster TestPrograms", "tensor/cluster TestBehaviours"}},
	{"automatic sharding gathers everything to one worker", []string{"tensor/cluster TestAutoShardOfACluster", "tensor/shard TestAutoFindsTheBatch"}},
	{"reshape and permute of a sharded tensor hang", []string{"tensor/cluster TestPrograms", "tensor/cluster TestBehaviours"}},
	{"the compiled program of another wiring is run", []string{"tensor/enginetest 'programs that look alike'", "tensor/cpu TestPlanOfAnotherHash",
		"tensor TestHashSeparates", "tensor/cluster TestWiredOtherwise"}},
	{"trace sees nothing", []string{"cmd/ringside/command TestTrace"}},
	{"the timeline pairs the wrong events, a log line stands before its question", []string{"cmd/ringside/command TestTrace", "tensor/cluster/worker TestWatch"}},
	{"tests whose mechanism never runs", []string{"tensor/cluster TestPrograms", "tensor/cluster TestBehaviours", "tensor/cluster TestOneMessageAStep",
		"tensor/enginetest TestRunFindsMutants"}},
}

// TestIndex: the tests that are named are there, under these names. That they pass is for
// themselves to say.
func TestIndex(t *testing.T) {
	const root = "../.."
	sources := map[string]string{} // of the folders, all files joined
	read := func(dir string) string {
		if s, ok := sources[dir]; ok {
			return s
		}
		files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Errorf("%s: no files, %v", dir, err)
		}
		var all strings.Builder
		for _, f := range files {
			if strings.HasSuffix(f, "gt_index_test.go") {
				continue
			}
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			all.Write(b)
		}
		sources[dir] = all.String()
		return sources[dir]
	}
	for _, c := range append(append([]covered{}, acceptance...), defects...) {
		if len(c.tests) == 0 {
			t.Errorf("%s: no tests", c.what)
		}
		for _, name := range c.tests {
			dir, test, _ := strings.Cut(name, " ")
			find := `func ` + regexp.QuoteMeta(test) + `\(t \*testing\.T\)`
			if sub := strings.Trim(test, "'"); sub != test {
				find = `t\.Run\("` + regexp.QuoteMeta(sub) + `"`
			}
			if !regexp.MustCompile(find).MatchString(read(dir)) {
				t.Errorf("%s: no test %s in %s", c.what, test, dir)
			}
		}
	}
}
