"""What is used here in place of names of PyTorch, for errors about names that don't exist, and of
functions of NumPy that have other names."""

FUNCTIONS = {
    "absolute": "ringside.abs(x)", "amax": "ringside.max(x, axis=...)", "amin": "ringside.min(x, axis=...)",
    "as_tensor": "ringside.asarray(data)", "bmm": "ringside.matmul(a, b)", "cat": "ringside.concat(tensors, axis=...)",
    "clamp": "ringside.clip(x, low, high)", "cumsum": "ringside.cumulative_sum(x, axis=...)", "div": "ringside.divide(a, b)",
    "dot": "ringside.vecdot(a, b)", "double": "ringside.float64", "eq": "ringside.equal(a, b)", "float": "ringside.float32",
    "from_numpy": "ringside.asarray(array)", "gather": "ringside.take_along_axis(x, indices, axis=...)",
    "ge": "ringside.greater_equal(a, b)", "half": "ringside.float16",
    "index_select": "ringside.take(x, index, axis=...)", "inference_mode": "ringside.no_grad()", "int": "ringside.int32",
    "le": "ringside.less_equal(a, b)", "long": "ringside.int64", "lt": "ringside.less(a, b)", "manual_seed": "ringside.random.seed(n)",
    "masked_fill": "ringside.where(mask, value, x)", "mm": "ringside.matmul(a, b)", "movedim": "ringside.moveaxis(x, i, j)",
    "mul": "ringside.multiply(a, b)", "mv": "ringside.matmul(a, b)", "ne": "ringside.not_equal(a, b)", "neg": "ringside.negative(x)",
    "permute": "ringside.permute_dims(x, axes)", "rand": "ringside.random.uniform(shape)", "randn": "ringside.random.normal(shape)",
    "ravel": "ringside.flatten(x)", "sub": "ringside.subtract(a, b)", "swapaxes": "ringside.transpose(x, i, j)",
    "tensor": "ringside.asarray(data)", "unsqueeze": "ringside.expand_dims(x, axis=...)",
}
METHODS = {
    "add": "x + y", "add_": "x += y", "bmm": "x @ y", "bool": "x.astype(ringside.bool)", "clamp": "x.clip(low, high)",
    "clone": "x.copy()", "copy_": "x.assign(y)",
    "cpu": "x.numpy()", "cumsum": "x.cumulative_sum(axis=...)", "dim": "x.ndim", "div": "x / y", "div_": "x /= y",
    "double": "x.astype(ringside.float64)", "eq": "x == y", "expand": "x.broadcast_to(shape)", "expand_as": "x.broadcast_to(y.shape)",
    "fill_": "x.assign(value)", "float": "x.astype(ringside.float32)", "gather": "ringside.take_along_axis(x, indices, axis=...)",
    "ge": "x >= y", "gt": "x > y", "half": "x.astype(ringside.float16)", "index_select": "x.take(index, axis=...)",
    "int": "x.astype(ringside.int32)", "le": "x <= y", "long": "x.astype(ringside.int64)", "lt": "x < y",
    "masked_fill": "ringside.where(mask, value, x)", "mm": "x @ y", "mul": "x * y", "mul_": "x *= y", "ne": "x != y", "neg": "-x",
    "numel": "x.size", "sub": "x - y", "sub_": "x -= y", "t": "x.T", "to": "x.astype(dtype)", "type_as": "x.astype(y.dtype)",
    "view": "x.reshape(shape)", "view_as": "x.reshape(y.shape)",
}
NUMPY = {
    "absolute": "ringside.abs(x)", "power": "ringside.pow(a, b)", "add.reduce": "ringside.sum(x)", "multiply.reduce": "ringside.prod(x)",
    "maximum.reduce": "ringside.max(x)", "minimum.reduce": "ringside.min(x)",
}


def said(hints: dict[str, str], name: str) -> str:
    """Returns the end of an error about a name, empty where nothing is known."""
    hint = hints.get(name)
    return f": use {hint}" if hint else ""
