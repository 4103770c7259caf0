"""Writes show.json: arrays and how NumPy prints them. python3 show.py, with NumPy 1.24"""
import json, os
import numpy as np

cases = []
def case(dtype, dims, values):
    a = np.array(values, dtype).reshape(dims)
    cases.append({"dtype": dtype, "dims": list(a.shape), "values": [str(v) for v in np.array(values, dtype).astype("O").ravel()], "text": str(a)})

for dtype in ["float32", "float64", "float16"]:
    case(dtype, (), [1.5]); case(dtype, (), [100]); case(dtype, (), [1e-5])
    case(dtype, (3,), [1, 2.5, -3]); case(dtype, (2, 2), [0.1, 0.2, 1 / 3, 0])
    case(dtype, (4,), [1e-5, 1, 2, 300]); case(dtype, (2,), [1e-4, 0.1]); case(dtype, (3,), [0, 0, 0])
    case(dtype, (2, 3), [np.nan, 1, np.inf, 2, -np.inf, 0.5]); case(dtype, (2,), [np.nan, np.nan]); case(dtype, (2,), [-np.inf, 3])
    case(dtype, (0, 3), []); case(dtype, (30,), np.arange(30) / 7); case(dtype, (2, 2, 3), np.arange(12) * 0.25)
    case(dtype, (40, 50), np.arange(2000) % 97); case(dtype, (1001,), np.arange(1001) / 8 % 3); case(dtype, (3, 1, 400), np.arange(1200) % 2)
for dtype in ["float32", "float64"]:
    case(dtype, (3,), [1e8, 1, 2]); case(dtype, (2,), [3.14159265358979, 1e10]); case(dtype, (2,), [1e-30, 1.25e30]); case(dtype, (3,), [999.5, 1.123456789, -12.3456])
case("float64", (2,), [1e-300, 1]); case("float64", (), [1e300]); case("float64", (2,), [123456.789012345678, 1000])
for dtype in ["int32", "int64"]:
    case(dtype, (), [7]); case(dtype, (2, 3), [1, -20, 300, 4, 5, 6]); case(dtype, (1002,), np.arange(1002) - 9); case(dtype, (60,), np.arange(60))
case("int64", (2,), [2 ** 62 + 1, -1]); case("uint8", (3,), [0, 255, 10]); case("bool", (2, 2), [1, 0, 0, 1]); case("bool", (), [1])
case("float32", (2, 2, 2, 2), np.arange(16))
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "show.json"), "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
print(len(cases), "cases")
