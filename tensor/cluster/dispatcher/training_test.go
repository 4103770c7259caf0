package dispatcher_test

import (
	"math"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/tensor/cluster/dispatcher"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

// trainings asks for the runs that the dispatcher knows.
func (p *peer) trainings() (all []wire.Training) {
	p.f.Helper()
	p.send(wire.KindStatus, wire.Append(nil, &wire.Status{Trainings: true}))
	for {
		m, err := p.Recv(p.f.ctx)
		if err != nil {
			p.f.Fatal(err)
		}
		var t wire.Training
		if m.Kind == wire.KindTraining {
			err = wire.Parse(m.Body, &t)
		}
		last := m.Kind == wire.KindStatusReply
		p.Release()
		if err != nil {
			p.f.Fatal(err)
		}
		if last {
			return all
		}
		all = append(all, t)
	}
}

// TestTrainings: the last Training of each control is told until its connection ends, and
// for some runs longer.
func TestTrainings(t *testing.T) {
	f := start(t, dispatcher.Options{})
	asks := f.dial(ipc.RoleControl, "top")
	if got := asks.trainings(); len(got) != 0 {
		t.Errorf("at first %+v", got)
	}
	tell := func(p *peer, step uint64) {
		p.send(wire.KindTraining, wire.Append(nil, &wire.Training{Name: "m", Step: step, Points: []wire.TrainingPoint{{Step: step, Loss: 2}}}))
		p.trainings() // it was handled before this
	}
	a, b := f.dial(ipc.RoleControl, "a"), f.dial(ipc.RoleControl, "b")
	tell(a, 1)
	tell(b, 7)
	tell(a, 2)
	got := asks.trainings()
	if len(got) != 2 || got[0].Session != 1 || got[0].Step != 2 || got[0].Over || len(got[0].Points) != 1 || got[1].Session != 2 || got[1].Step != 7 {
		t.Errorf("of two runs: %+v", got)
	}
	a.Close()
	for len(got) != 2 || !got[0].Over {
		if got = asks.trainings(); f.ctx.Err() != nil {
			t.Fatalf("after the end of one: %+v", got)
		}
	}
	const kept = 8
	for range kept + 2 {
		p := f.dial(ipc.RoleControl, "c")
		tell(p, 3)
		p.Close()
	}
	for last := uint64(kept + 4); ; {
		got = asks.trainings()
		over := 0
		for _, x := range got {
			if x.Over {
				over++
			}
		}
		if len(got) == kept+1 && over == kept && got[0].Session == 2 && got[kept].Session == last {
			break
		}
		if f.ctx.Err() != nil {
			t.Fatalf("%d runs, %d over: %+v", len(got), over, got)
		}
	}
}

// TestTrainingOfOthers: only a control tells of runs, and only of such that can be told.
func TestTrainingOfOthers(t *testing.T) {
	for _, c := range []struct {
		role ipc.Role
		t    wire.Training
	}{{ipc.RoleClient, wire.Training{}}, {ipc.RoleWorker, wire.Training{}}, {ipc.RoleControl, wire.Training{Loss: math.NaN()}}} {
		f := start(t, dispatcher.Options{})
		p := f.dial(c.role, "x")
		p.send(wire.KindTraining, wire.Append(nil, &c.t))
		body, _ := p.recv(wire.KindFail)
		var fail wire.Fail
		if err := wire.Parse(body, &fail); err != nil || fail.Code != wire.CodeProtocol || !strings.Contains(fail.Text, "Training") {
			t.Errorf("%v: %+v, %v", c.role, fail, err)
		}
		if got := f.dial(ipc.RoleControl, "top").trainings(); len(got) != 0 {
			t.Errorf("%v: %+v is kept", c.role, got)
		}
	}
}
