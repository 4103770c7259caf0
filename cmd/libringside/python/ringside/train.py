"""A trainer: steps over batches, with checkpoints from which a run goes on bit by bit.

    trainer = rs.train.Trainer(model, loss, rs.optim.AdamW(model), checkpoint="run1", every=100)
    trainer.fit(batches, epochs=3, resume=True)

loss(model, *batch) returns the loss, a tensor of one element; a batch that is no tuple or list
is one argument."""

from __future__ import annotations

import os
from typing import Any, Callable, Iterable, NamedTuple

from ringside import files
from ringside._session import no_grad
from ringside._tensor import Tensor, handle_of
from ringside.nn import Module
from ringside.optim import Optimizer

__all__ = ["Progress", "Trainer"]


def __dir__() -> list[str]:
    return __all__


class Progress(NamedTuple):
    """What a callback is told after a step: how many steps were taken, the epoch, counted from
    0, the loss, a tensor of shape () whose item() waits for the step, and the learning rate."""

    step: int
    epoch: int
    loss: Tensor
    lr: float


def _arguments(batch: Any) -> tuple[Any, ...]:
    return tuple(batch) if isinstance(batch, (tuple, list)) else (batch,)


class Trainer:
    """Trains a model: a Module, or an object with parameters that the optimizer was made of,
    or a function, which loss calls.

    schedule(step) is the learning rate of a step, counted from 0; rs.optim.cosine makes one.
    clip bounds the norm of all gradients together. Of accumulate batches one step is taken,
    with the mean of their gradients. checkpoint is a folder that the run is saved to, after
    every so many steps, when Ctrl-C ends it, and at its end. Callbacks are called with a
    Progress after each step; the run ends after one that returns True. The attribute step says
    how many steps were taken."""

    def __init__(self, model: Any, loss: Callable[..., Tensor], optimizer: Optimizer, *, schedule: Callable[[int], float] | None = None,
                 clip: float = 0.0, accumulate: int = 1, checkpoint: str | os.PathLike | None = None, every: int = 0,
                 callbacks: Iterable[Callable[[Progress], Any]] = ()):
        if accumulate < 1 or every < 0:
            raise ValueError(f"a step of {accumulate} batches, a checkpoint every {every} steps: expected at least 1 and 0")
        self.model, self.loss, self.optimizer = model, loss, optimizer
        self.schedule, self.clip, self.accumulate = schedule, clip, accumulate
        self.checkpoint, self.every, self.callbacks = checkpoint, every, list(callbacks)
        self.step = optimizer.steps  # how many were taken
        self._skip = 0  # batches of a run that goes on
        self._before = 0  # steps that the optimizer took before those of this trainer
        self._marked, self._random = 0, None  # the last step of fit, and the random numbers after it

    def __repr__(self) -> str:
        return f"Trainer({type(self.model).__name__}, {self.optimizer!r}, step={self.step})"

    def fit(self, data: Iterable[Any] | Callable[[int], Iterable[Any]], *, epochs: int = 1, steps: int | None = None,
            resume: bool = False) -> Trainer:
        """Trains on the batches of data, epochs times, or until so many steps were taken
        (also before, by the run that it goes on with). A function of the epoch returns the
        batches of that epoch. With resume it goes on with the run in the checkpoint's
        folder, if there is one: batches that were taken are left out, so data must be the
        same. It returns the trainer."""
        if resume and self.checkpoint is not None and os.path.exists(os.path.join(self.checkpoint, "manifest.json")):
            self.resume()
        skip, self._skip = self._skip, 0
        self._before = self.optimizer.steps - self.step
        self._mark()
        train = isinstance(self.model, Module) and self.model.train
        if train:
            train()
        try:
            self._epochs(data, epochs, steps, skip)
        except KeyboardInterrupt:
            self._end()
            raise
        self._end()
        return self

    def _mark(self) -> None:
        """Notes that all batches so far had their step: a run that goes on takes those after
        this again."""
        if self.checkpoint is not None:
            self._marked, self._random = self.step, next(iter(self.optimizer.params.values())).session.stats["random"]

    def _end(self) -> None:
        """Saves the run as it was after its last step."""
        self.optimizer.zero_grad()  # of batches without a step
        self.step = self.optimizer.steps - self._before  # Ctrl-C may come right after a step
        if self.checkpoint is not None:
            self._save(self._random if self.step == self._marked else None)

    def _epochs(self, data: Any, epochs: int, steps: int | None, skip: int) -> None:
        waiting = 0  # batches whose step was not taken
        for epoch in range(epochs):
            for batch in data(epoch) if callable(data) else data:
                if steps is not None and self.step >= steps:
                    return
                if skip:
                    skip -= 1
                    continue
                loss = self.loss(self.model, *_arguments(batch))
                handle_of(loss, "what the loss function returned")
                (loss if self.accumulate == 1 else loss / self.accumulate).backward()
                waiting += 1
                if waiting == self.accumulate:
                    waiting = 0
                    if self._update(epoch, loss.detach()):
                        return

    def _update(self, epoch: int, loss: Tensor) -> bool:
        """Takes a step with the gradients of the parameters, and reports whether it is the last."""
        optimizer = self.optimizer
        if self.schedule is not None:
            optimizer.lr = self.schedule(self.step)
        optimizer.step(clip=self.clip)
        optimizer.zero_grad()
        self.step += 1
        loss.session.flush()
        progress = Progress(self.step, epoch, loss, optimizer.lr)
        ends = [callback(progress) is True for callback in self.callbacks]
        self._mark()
        if self.checkpoint is not None and self.every and self.step % self.every == 0:
            self.save()
        return any(ends)

    def evaluate(self, data: Iterable[Any], metric: Callable[..., Any]) -> float:
        """Returns the mean over batches of metric(model, *batch), a number or a tensor of one
        element, without gradients and without dropout."""
        train = getattr(self.model, "training", False)
        if isinstance(self.model, Module):
            self.model.eval()
        try:
            with no_grad():
                values = [metric(self.model, *_arguments(batch)) for batch in data]
            if not values:
                raise ValueError("evaluate of no batches")
            return sum(map(float, values)) / len(values)
        finally:
            if isinstance(self.model, Module):
                self.model.train(train)

    def _tensors(self, state: dict[str, Any]) -> dict[str, Tensor]:
        return {**self.optimizer.params, **state["state"]}

    def save(self) -> None:
        """Saves the parameters, the optimizer's state and the state of the random numbers to
        the checkpoint's folder."""
        if self.checkpoint is None:
            raise ValueError("a trainer without a checkpoint's folder")
        self._save(None)

    def _save(self, random: list[int] | None) -> None:
        tensors = self._tensors(self.optimizer.state_dict())
        files._save_checkpoint(self.checkpoint, tensors, self.step, {"accumulate": str(self.accumulate)}, random)

    def resume(self) -> None:
        """Goes on with the run in the checkpoint's folder: the next fit leaves out the
        batches that it has taken."""
        if self.checkpoint is None:
            raise ValueError("a trainer without a checkpoint's folder")
        state = self.optimizer.state_dict()
        found = files.load_checkpoint(self.checkpoint, self._tensors(state))
        if found["notes"].get("accumulate") != str(self.accumulate):
            raise ValueError(f"{self.checkpoint}: a step was of {found['notes'].get('accumulate')} batches, not {self.accumulate}")
        self.step = found["step"]
        self.optimizer.load_state_dict({**state, "steps": self.step})
        self._skip = self.step * self.accumulate
