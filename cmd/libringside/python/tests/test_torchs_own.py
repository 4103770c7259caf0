"""A part of torch's own tests over ringside beside gloo; make python-torch runs all."""

import json

import torchs_own

SOME = ["test_all_reduce_sum", "test_all_gather_object_default_pg", "test_all_to_all_single_unequal_split",
        "test_barrier_full_group", "test_batch_isend_irecv_gloo_tags", "test_isend", "test_monitored_barrier_gloo",
        "test_send_recv_any_source", "test_send_recv_with_tag"]


def test_some(tmp_path):
    """Each ends over ringside as over gloo."""
    sides = []
    for backend in ("gloo", "ringside"):
        path = tmp_path / f"{backend}.json"
        torchs_own.apart(backend, 2, path, SOME)
        sides.append(json.loads(path.read_text()))
    assert sides[0].keys() == set(SOME)
    assert [s["outcome"] for s in sides[0].values()].count("passed") >= 8, sides[0]
    assert torchs_own.compare(*sides)
