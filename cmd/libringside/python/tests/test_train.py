"""The trainer: steps as written by hand, runs that go on bit by bit, callbacks."""

import itertools
import os
import signal
import threading

import numpy as np
import pytest

import ringside as rs

rng = np.random.default_rng(5)
X = rng.standard_normal((64, 8)).astype(np.float32)
Y = (X @ rng.standard_normal((8, 3)).astype(np.float32)).argmax(1)
BATCHES = [(X[i:i + 16], Y[i:i + 16]) for i in range(0, 64, 16)]


def loss(model, x, y):
    return rs.nn.cross_entropy(model(x), y)


def made(seed=1, **options):
    rs.random.seed(seed)
    model = rs.nn.Sequential(rs.nn.Linear(8, 16), rs.nn.Dropout(0.1), rs.nn.Linear(16, 3))
    return rs.train.Trainer(model, loss, rs.optim.AdamW(model, lr=1e-2), **options)


def weights(trainer):
    return {name: t.numpy().tobytes() for name, t in trainer.model.state_dict().items()}


@pytest.fixture(params=[1, 2])
def session(request):
    with rs.cluster(workers=request.param, processes=False) as c:
        yield c.session


def test_steps_are_those_by_hand(session):
    seen = []
    trainer = made(callbacks=[seen.append], schedule=lambda step: 0.01 / (step + 1), clip=0.5)
    trainer.fit(BATCHES, epochs=2)
    assert [p.step for p in seen] == list(range(1, 9)) and [p.epoch for p in seen] == [0] * 4 + [1] * 4
    assert [p.lr for p in seen] == [0.01 / n for n in range(1, 9)] and seen[-1].loss.item() < seen[0].loss.item()
    by_hand = made()
    by_hand.model.train()
    for step, (x, y) in enumerate(BATCHES * 2):
        by_hand.optimizer.lr = 0.01 / (step + 1)
        by_hand.optimizer.step(rs.grad(loss(by_hand.model, x, y), by_hand.model.parameters()), clip=0.5)
    assert weights(trainer) == weights(by_hand)
    assert 0 <= trainer.evaluate(BATCHES, lambda m, x, y: (m(x).argmax(axis=1) == y).astype(rs.float32).mean()) <= 1
    assert trainer.model.training is True


def test_accumulate():
    with rs.session(in_process=True):
        model = rs.nn.Linear(8, 3)
        start = {k: v.numpy(copy=True) for k, v in model.state_dict().items()}
        rs.train.Trainer(model, loss, rs.optim.SGD(model, lr=0.1), accumulate=4).fit(BATCHES)
        accumulated = {k: v.numpy(copy=True) for k, v in model.state_dict().items()}
        model.load_state_dict(start)
        rs.train.Trainer(model, loss, rs.optim.SGD(model, lr=0.1)).fit([(X, Y)])
        for name, t in model.state_dict().items():
            np.testing.assert_allclose(t.numpy(), accumulated[name], rtol=1e-4, atol=1e-6)


def test_goes_on(session, tmp_path):
    """A run that is stopped and goes on, in another trainer, ends as one without a stop."""
    whole = made().fit(lambda epoch: BATCHES[::-1] if epoch else BATCHES, epochs=3)
    options = {"checkpoint": tmp_path / "run", "every": 2}
    first = made(**options, callbacks=[lambda p: p.step == 6])
    first.fit(lambda epoch: BATCHES[::-1] if epoch else BATCHES, epochs=3)
    assert first.step == 6 and (tmp_path / "run" / "manifest.json").exists()
    second = made(seed=99, **options).fit(lambda epoch: BATCHES[::-1] if epoch else BATCHES, epochs=3, resume=True)
    assert second.step == second.optimizer.steps == whole.step == 12
    assert weights(second) == weights(whole)
    again = made(seed=98, **options).fit(BATCHES, epochs=1, resume=True)  # nothing is left to do
    assert again.step == 12 and weights(again) == weights(whole)
    assert again.fit(BATCHES, steps=14).step == 14
    with pytest.raises(ValueError, match="batches"):
        made(**options, accumulate=2).resume()
    other = rs.nn.Linear(8, 3)
    with pytest.raises(rs.RingsideError):
        rs.train.Trainer(other, loss, rs.optim.AdamW(other), checkpoint=tmp_path / "run").resume()


def test_checkpoint_of_tensors(tmp_path):
    with rs.session(in_process=True):
        a, b = rs.arange(4, dtype=rs.float32), rs.ones((2, 2), rs.bfloat16)
        rs.save_checkpoint(tmp_path, {"a": a, "b": b}, 5, {"of": "me"})
        draw = rs.random.normal(3).tolist()
        c, d = rs.zeros(4), rs.zeros((2, 2), rs.bfloat16)
        assert rs.load_checkpoint(tmp_path, {"a": c, "b": d})["step"] == 5
        assert c.tolist() == [0, 1, 2, 3] and d.tolist() == [[1, 1], [1, 1]] and rs.random.normal(3).tolist() == draw
        with pytest.raises(rs.RingsideError):
            rs.load_checkpoint(tmp_path, {"a": c})


def test_interrupt_saves(tmp_path):
    with rs.session(in_process=True):
        trainer = made(checkpoint=tmp_path / "run", callbacks=[lambda p: p.step == 3 and os.kill(os.getpid(), signal.SIGINT)])
        with pytest.raises(KeyboardInterrupt):
            trainer.fit(BATCHES * 100)
        again = made(seed=7, checkpoint=tmp_path / "run")
        again.resume()
        assert again.step == trainer.step >= 3 and weights(again) == weights(trainer)


@pytest.mark.parametrize("rows, reads, seconds", [(512, True, 0.2), (8, False, 1)])
def test_interrupt_saves_on_workers(tmp_path, rows, reads, seconds):
    """Ctrl-C in a wait for workers ends the wait, and loses nothing that they compute: the wait
    for a loss, and that of a trainer which reads none and is far ahead of the workers."""
    def slow(model, x, y):
        for _ in range(20):
            x = rs.tanh(model(x))
        return rs.nn.cross_entropy(x, y)

    def trainer(**options):
        model = rs.nn.Linear(1024, 1024)
        return rs.train.Trainer(model, slow, rs.optim.SGD(model, lr=1e-2), checkpoint=tmp_path / "run", **options)

    def step(p):
        if reads:
            p.loss.item()
        if p.step == 2:  # within the next steps
            threading.Timer(seconds, lambda: os.kill(os.getpid(), signal.SIGINT)).start()

    with rs.cluster(workers=2, processes=True):
        first = trainer(callbacks=[step])
        with pytest.raises(KeyboardInterrupt):
            first.fit(itertools.repeat((np.ones((rows, 1024), np.float32), np.zeros(rows, np.int64))))
        second = trainer()
        second.resume()
        assert second.step == first.step >= 2 and weights(second) == weights(first)


class Stop:
    """Calls a function, and in place of its n-th return comes Ctrl-C."""

    def __init__(self, f, n):
        self.f, self.left = f, n

    def __call__(self, *args, **options):
        result = self.f(*args, **options)
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt
        return result


@pytest.mark.parametrize("accumulate", [1, 3])
@pytest.mark.parametrize("where", ["batch", "step", "end"])
def test_goes_on_after_half_a_step(tmp_path, accumulate, where):
    """What was drawn for batches without a step is drawn again, and a step that was taken
    counts: after Ctrl-C in a batch or right after a step, and at an end within a step."""
    with rs.session(in_process=True):
        options = {"accumulate": accumulate, "checkpoint": tmp_path / "run"}
        whole = made(accumulate=accumulate).fit(BATCHES, epochs=3)
        first = made(**options)
        if where == "batch":
            first.loss = Stop(loss, 7)
        elif where == "step":
            first.optimizer.step = Stop(first.optimizer.step, 2)
        if where == "end":
            first.fit(BATCHES, epochs=2)
        else:
            with pytest.raises(KeyboardInterrupt):
                first.fit(BATCHES, epochs=3)
        second = made(seed=9, **options).fit(BATCHES, epochs=3, resume=True)
        assert second.step == second.optimizer.steps == whole.step and weights(second) == weights(whole)


def test_checkpoint_after_what_is_recorded(tmp_path):
    """What was recorded before a checkpoint is loaded has the values from before."""
    with rs.session(in_process=True):
        w = rs.ones(4)
        (w + 1.0).numpy()
        rs.save_checkpoint(tmp_path, {"w": w})
        w += 4.0
        y, target = w + 1.0, w + 1.0
        rs.load_checkpoint(tmp_path, {"w": w})
        assert y.tolist() == [6] * 4 and w.tolist() == [1] * 4
        rs.load_checkpoint(tmp_path, {"w": target + 1.0})  # which the library does not know yet
        with pytest.raises(ValueError, match="no tensors"):
            rs.save_checkpoint(tmp_path, {})


def test_bad_options():
    with rs.session(in_process=True):
        with pytest.raises(ValueError, match="expected at least 1"):
            made(accumulate=0)
        for f in ("save", "resume"):
            with pytest.raises(ValueError, match="checkpoint"):
                getattr(made(), f)()
        with pytest.raises(ValueError, match="no batches"):
            made().evaluate([], loss)
