"""A panic in the library is an error, and the process goes on."""

import numpy as np
import pytest

import ringside as rs
from ringside import _native as native

# null has a function write where nothing is, as no caller of ringside.h may.
null = None


def test_of_a_number():
    with pytest.raises(rs.RingsideError, match="panic in the library.*(?s:.*)goTable") as e:
        native.number(native.library().ringside_table(null))
    assert "nil pointer" in str(e.value)
    with pytest.raises(rs.RingsideError, match="panic in the library"):
        native.number(native.library().ringside_drop(0, b"12345678", 1 << 62))


def test_of_a_text():
    with pytest.raises(rs.RingsideError, match="panic in the library.*(?s:.*)goOpen"):
        native.check(native.library().ringside_open(0, 1, 1000, b"panic", b"a secret of this test", 21, null))


def test_goes_on():
    with rs.session(in_process=True) as s:
        x = rs.asarray(np.ones(3, np.float32))
        with pytest.raises(rs.RingsideError, match="panic in the library"):
            native.number(native.library().ringside_describe(s._id, x._h, null))
        assert (x + x).sum().item() == 6
