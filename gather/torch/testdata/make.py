"""Writes known.pt: an update as torch.save writes it, by the standard library alone.

The pickle is made by pickle itself, of objects that stand for tensors, so that its opcodes
are those of torch.save. The update has a parameter "weight" of 64 x 128 (2 rows of 64
values) and "bias" of 64 (1 row, sent whole). Run it in this folder: python3 make.py
"""
import io
import pickle
import struct
import sys
import types
import zipfile

# torch.save pickles names of these modules.
for name in ("torch", "torch._utils"):
    sys.modules[name] = types.ModuleType(name)
torch, utils = sys.modules["torch"], sys.modules["torch._utils"]


def named(module, name, obj):
    obj.__module__, obj.__qualname__, obj.__name__ = module, name, name
    setattr(sys.modules[module], name, obj)
    return obj


rebuild = named("torch._utils", "_rebuild_tensor_v2", lambda *a: None)
ByteStorage = named("torch", "ByteStorage", type("ByteStorage", (), {}))
FloatStorage = named("torch", "FloatStorage", type("FloatStorage", (), {}))


class DType:
    def __reduce__(self):
        return "float32"


DType.__module__ = "torch"
torch.float32 = DType()
torch.float32.__class__.__module__ = "torch"


class Storage:
    def __init__(self, kind, data, count):
        self.kind, self.data, self.count = kind, data, count


class Tensor:
    def __init__(self, kind, data, shape):
        self.count = 1
        for d in shape:
            self.count *= d
        self.storage, self.shape = Storage(kind, data, self.count), tuple(shape)

    def __reduce_ex__(self, _):
        from collections import OrderedDict
        stride, n = [], 1
        for d in reversed(self.shape):
            stride.insert(0, n)
            n *= d
        return rebuild, (self.storage, 0, self.shape, tuple(stride), False, OrderedDict())


class Pickler(pickle._Pickler):
    def __init__(self, out, files):
        super().__init__(out, 2)
        self.files = files

    def persistent_id(self, obj):
        if not isinstance(obj, Storage):
            return None
        key = str(len(self.files))
        self.files.append(obj.data)
        return "storage", obj.kind, key, "cpu", obj.count

    def save_global(self, obj, name=None):
        if isinstance(obj, DType):
            self.write(b"ctorch\nfloat32\n")
            self.memoize(obj)
        else:
            super().save_global(obj, name)


def pack(indices):
    out = bytearray()
    for a, b in zip(indices[::2], indices[1::2]):
        out += bytes((a & 255, a >> 8 | (b & 15) << 4, b >> 4))
    return bytes(out)


def bytes_of(data, shape):
    return Tensor(ByteStorage, bytes(data), shape)


def floats(values, shape):
    return Tensor(FloatStorage, struct.pack("<%df" % len(values), *values), shape)


lookup = [b / 64 - 2 for b in range(256)]
rows = [[(37 * j + r) % 4096 for j in range(64)] for r in range(2)]  # not in order
codes = [[(5 * j + 100 * r) % 256 for j in range(64)] for r in range(2)]
quant = (floats([0.5], []), floats([0.25], []), 128, floats(lookup, [256]), torch.float32)
state = {
    "weightidxs": bytes_of(pack(rows[0] + rows[1]), [1, 2, 96]),
    "weightvals": bytes_of(codes[0] + codes[1], [1, 2, 64]),
    "weightquant_params": quant,
    "biasidxs": bytes_of(pack(list(reversed(range(64)))), [1, 96]),
    "biasvals": bytes_of([j for j in range(64)], [1, 64]),
    "biasquant_params": (0.0, 1.0, 128, floats(lookup, [256]), torch.float32),
    "metadata": {"window": 7, "sample_digest": "ab"},
}
files = []
out = io.BytesIO()
Pickler(out, files).dump({"state_dict": state, "global_step": 300})
with zipfile.ZipFile("known.pt", "w", zipfile.ZIP_STORED) as z:
    def put(name, data):
        z.writestr(zipfile.ZipInfo("known/" + name, (1980, 1, 1, 0, 0, 0)), data)
    put("data.pkl", out.getvalue())
    put("byteorder", b"little")
    for i, data in enumerate(files):
        put("data/%d" % i, data)
    put("version", b"3\n")
