"""Tensors in safetensors files, and checkpoints."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from typing import Any

from ringside import _functions, _native, _ops  # noqa: F401 the first has the methods of tensors
from ringside._session import Session, current_session, whole
from ringside._tensor import Tensor, made, one_session

__all__ = ["load", "load_checkpoint", "load_notes", "save", "save_checkpoint"]


def __dir__() -> list[str]:
    return __all__


def save(path: str | os.PathLike, tensors: Mapping[str, Tensor] | Any, notes: Mapping[str, str] | None = None) -> None:
    """Writes tensors by name, or a module's parameters, to a safetensors file. The file is
    replaced as a whole or not at all. notes are texts that files.load_notes returns."""
    named = dict(tensors) if isinstance(tensors, Mapping) else tensors.state_dict()
    for name, t in named.items():
        _native.text(name, "the name of a tensor")
        if t.__class__ is not Tensor:
            raise TypeError(f"save of {name}, which is {t!r}, expected a tensor")
    for note in (notes or {}).values():
        _native.text(note, "a note")
    s = one_session(named.values()) if named else current_session()
    s._hand()
    options = json.dumps({"names": list(named), "notes": dict(notes or {})}).encode()
    _native.number(s._lib.ringside_save(s._id, _native.path(path), options, _ops.pack([t._h for t in named.values()]), len(named)))


def load(path: str | os.PathLike, names: Iterable[str] | None = None, *, session: Session | None = None) -> dict[str, Tensor]:
    """Reads a safetensors file: all tensors by name, or those of names. load_notes of
    ringside.files returns its notes."""
    s = session or current_session()
    file = _native.number(_native.library().ringside_file(_native.path(path)))
    try:
        wanted = _native.about(file)["names"] if names is None else list(names)
        return {name: made(s, (), s._lib.ringside_load, s._id, file, _native.text(name, "the name of a tensor")) for name in wanted}
    finally:
        _native.check(s._lib.ringside_close(file))


def load_notes(path: str | os.PathLike) -> dict[str, str]:
    """Returns the notes of a safetensors file."""
    _ops.load()
    file = _native.number(_native.library().ringside_file(_native.path(path)))
    try:
        return _native.about(file)["notes"] or {}
    finally:
        _native.check(_native.library().ringside_close(file))


def _packed(tensors: Mapping[str, Tensor], **options: Any) -> tuple[Session, bytes, bytes, int]:
    """Returns the session and the arguments of a call, before which all is handed over."""
    if not tensors:
        raise ValueError("a checkpoint of no tensors")
    s = one_session(tensors.values())
    for name in tensors:
        _native.text(name, "the name of a tensor")
    s._hand()
    text = json.dumps({"names": list(tensors), **options}).encode()
    return s, text, _ops.pack([t._h for t in tensors.values()]), len(tensors)


def save_checkpoint(folder: str | os.PathLike, tensors: Mapping[str, Tensor], step: int = 0, notes: Mapping[str, str] | None = None) -> None:
    """Writes tensors by name, and the state of the session's random numbers, to a folder,
    and replaces the checkpoint there, as a whole or not at all. The workers that hold the
    tensors write them. `ringside checkpoint` looks into the folder."""
    step = whole("step", step)
    if step < 0:
        raise ValueError(f"a checkpoint after {step} steps, expected 0 or more")
    for note in (notes or {}).values():
        _native.text(note, "a note")
    _save_checkpoint(folder, tensors, step, notes or {}, None)


def _save_checkpoint(folder: str | os.PathLike, tensors: Mapping[str, Tensor], step: int, notes: Mapping[str, str], random: list[int] | None) -> None:
    """Is save_checkpoint of a state of the random numbers that stats told of, or None."""
    s, options, ids, n = _packed(tensors, step=step, notes=dict(notes), random=random)
    _native.number(s._library.ringside_checkpoint(s._id, _native.path(folder), options, ids, n))


def load_checkpoint(folder: str | os.PathLike, tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """Gives the tensors, which are all that the checkpoint has and of the same shapes, and
    the session's random numbers the values of a checkpoint. It returns {"step": .., "notes": ..}.
    The tensors are parameters or have no graph."""
    s, options, ids, n = _packed(tensors)
    return _native.described("ringside_resume", s._id, _native.path(folder), options, ids, n)
