"""Writes formula.json, examples of formula.py for the Go twin's test.

Run: python3 formula_examples.py   (needs numpy)
"""
import json
import formula as f

NAMES = ["", "a", "balance", "fc1.weight", "blocks.0.a.q.weight", "x.3", "naïve"]
lines = []
for name in NAMES:
    k = f.key(name)
    for i, n, offset, scale in [(0, 10, 0.0, 1.0), (1, 256, 1.0, 0.125), (783, 1000, 0.0, 0.03125),
                                (2**32 + 5, 7, None, None), (2**64 - 1, 2**31 - 1, None, None)]:
        c = {"name": name, "key": str(k), "i": str(i), "hash": str(f.hash64(k, i)),
             "unit": float(f.unit(k, i)), "n": n, "index": f.index(k, i, n)}
        if offset is not None:
            c.update(offset=offset, scale=scale, uniform=float(f.uniform(name, [i + 1], offset, scale)[i]))
        lines.append(json.dumps(c, ensure_ascii=False))
with open("formula.json", "w") as out:
    out.write('{"cases":[\n' + ",\n".join(lines) + "\n]}\n")
