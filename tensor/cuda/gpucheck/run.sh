#!/usr/bin/env bash
# Tries the CUDA packages on this machine, without Go, gcc and network:
#
#	run.sh [facts] [right] [fast]
#
# facts describes the machine, right runs the tests, fast measures. facts and right run
# where none is named. SCALE=N divides the work of fast, 1; over the stand-in 100000.
# NCU=FILE is NVIDIA's profiler, which is looked for but over the stand-in.
# Each step has a timeout, and a step that fails doesn't end the run. The reports are
# written as it goes, into $OUT or this folder: report.txt and report.json have a row a
# step, log.txt has what the steps printed. It changes no setting of the machine.
#
# Without a GPU the steps run over the stand-in, so that the bundle can be tried anywhere;
# LIBRARY=/path/to/libcuda.so.1 chooses another library. The first line of report.txt says
# which one it was.
set -u
here=$(cd "$(dirname "$0")" && pwd)
out=${OUT:-$here}
mkdir -p "$out" && out=$(cd "$out" && pwd) || exit 2
: >"$out/log.txt"
rows=() failed=0
TORCH_DEVICE=cuda
standin=$here/standin/libcuda.so.1
library=${LIBRARY:-$standin}
case $library in
/*) ;;
*/*) library=$PWD/$library ;;
esac
cd "$here" || exit 2

# The tests are packed. They are unpacked here or, where nothing can be written, elsewhere.
# Those of an older bundle that was here before are unpacked again.
tests=$here
if [ ! -w "$here" ]; then
	tests=$(mktemp -d) || exit 2
	trap 'rm -rf "$tests"' EXIT
fi
for packed in *.test.gz; do
	name=$tests/${packed%.gz}
	[ -x "$name" ] && [ "$name" -nt "$packed" ] || { gunzip -c "$packed" >"$name" && chmod +x "$name"; } || exit 2
done
which="chosen by LIBRARY"
if [ -z "${LIBRARY:-}" ]; then
	which="the stand-in, because there is neither /dev/nvidia* nor /dev/dxg; LIBRARY=libcuda.so.1 tries the driver nevertheless"
	if compgen -G '/dev/nvidia[0-9]*' >/dev/null || [ -e /dev/dxg ]; then
		library=libcuda.so.1
		which="the machine's driver"
	fi
fi
# doctor looks here first; some containers mount the driver without telling the loader
export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/usr/local/nvidia/lib64:/usr/lib/wsl/lib
case $library in */*) LD_LIBRARY_PATH=$(dirname "$library"):$LD_LIBRARY_PATH ;; esac

# quote prints its arguments as a JSON string.
quote() { printf '"%s"' "$(printf '%s' "$*" | tr '\n\t' '  ' | tr -d '\000-\037' | sed 's/\\/\\\\/g; s/"/\\"/g')"; }

# report writes both reports.
report() {
	{
		printf 'library: %s (%s)\n' "$library" "$which"
		printf '%-24s %-8s %8s  %s\n' step status seconds detail
		for row in "${rows[@]}"; do
			IFS=$'\037' read -r name status seconds detail <<<"$row"
			printf '%-24s %-8s %8s  %s\n' "$name" "$status" "$seconds" "$detail"
		done
	} >"$out/report.txt"
	{
		printf '{"machine": %s, "library": %s, "steps": [' "$(quote "$(uname -srm)")" "$(quote "$library")"
		comma=
		for row in "${rows[@]}"; do
			IFS=$'\037' read -r name status seconds detail <<<"$row"
			printf '%s\n {"step": %s, "status": "%s", "seconds": %s, "detail": %s}' "$comma" "$(quote "$name")" "$status" "$seconds" "$(quote "$detail")"
			comma=,
		done
		printf '\n]}\n'
	} >"$out/report.json"
}

# step NAME SECONDS COMMAND... runs a command and adds its row: the last lines that it
# printed, of those that $show matches, or the first failures of a test. The stand-in,
# which interprets kernels on a machine that may be busy, has four times as long.
step() {
	local name=$1 limit=$2 start=$EPOCHREALTIME text status=ok detail first rc
	shift 2
	[ "$library" != "$standin" ] || limit=$((limit * 4))
	if [ "$(type -t "$1")" = function ]; then text=$("$@" 2>&1); else text=$(timeout -k 5 "$limit" "$@" 2>&1); fi
	rc=$?
	case $rc in
	0) ;;
	124 | 137) status=timeout ;;
	*) status=failed ;;
	esac
	detail=$(printf '%s\n' "$text" | grep -E "${show:-.}" | tail -n 3 | paste -sd ';' | sed 's/; */; /g')
	if [ $status != ok ]; then
		failed=1
		first=$(printf '%s\n' "$text" | grep -E '^ +[a-z_]+\.go:|^panic|^fatal' | head -n 5 | tr '\n' ';')
		detail="exit status $rc: ${first:-$detail}"
	fi
	printf '=== %s: %s, %s\n%s\n' "$name" "$status" "$*" "$text" >>"$out/log.txt"
	rows+=("$name"$'\037'"$status"$'\037'"$(awk "BEGIN {printf \"%.2f\", $EPOCHREALTIME - $start}")"$'\037'"${detail:0:300}")
	report
}

# skip NAME WHY adds the row of a step that can't run here.
skip() {
	rows+=("$1"$'\037'skipped$'\037'0$'\037'"$2")
	report
}

facts() {
	step kernel 5 uname -srvm
	show=' GPU driver ' step doctor 30 ./ringside doctor
	if command -v nvidia-smi >/dev/null; then
		step nvidia-smi 20 nvidia-smi --query-gpu=name,driver_version,memory.total,compute_cap,mig.mode.current --format=csv,noheader
	else
		skip nvidia-smi "not installed"
	fi
	step attributes 20 "$tests/driver.test" attributes "$library" "$out/attributes.json"
	step "kernels, loading" 0 loading
	local ptx
	for ptx in ptx/*.ptx; do
		if [ ! -e "$ptx" ]; then
			skip ptxas "the bundle has no PTX"
		elif ! command -v ptxas >/dev/null; then
			skip ptxas "not installed"
			break
		else
			step "ptxas $(basename "$ptx")" 20 ptxas -arch=sm_90 -o /dev/null "$ptx"
		fi
	done
}

# hand_overs prints how many hand-overs are timed.
hand_overs() { if [ "$library" = "$standin" ]; then echo 100; else echo 2000; fi; }

# products prints the path of the library of matrix products that workers would use.
products() { ./ringside doctor 2>/dev/null | sed -n 's/.*cuBLASLt [0-9.]* (\([^)]*\)) computes matrix products.*/\1/p'; }

right() {
	step "driver, suite" 60 "$tests/driver.test" -test.run '^TestSuite$' -test.v -library "$library"
	step "driver, codes" 5 differs
	step "memory, copies" 60 "$tests/memory.test" -test.run '^TestCopies$' -test.v -library "$library"
	step "memory, registration" 30 "$tests/memory.test" -test.run '^TestRegistration$' -test.v -library "$library"
	step "memory, IPC trial" 60 "$tests/memory.test" -test.run '^TestTry$' -test.v -library "$library"
	step "memory, three processes" 60 "$tests/memory.test" -test.run '^TestThreeProcesses$' -test.v -library "$library"
	step "memory, namespaces" 60 "$tests/memory.test" -test.run '^TestNamespaces$' -test.v -library "$library"
	step "memory, exporter killed" 120 "$tests/memory.test" -test.run '^TestExporterKilled$' -test.v -library "$library"
	step "memory, hand-over" 120 "$tests/memory.test" -test.run '^TestHandOver$' -test.v -library "$library"
	step "memory, latency" 60 "$tests/memory.test" latency "$library" "$(hand_overs)"
	engine
	local steps=20 blas
	[ "$library" != "$standin" ] || steps=2 # it interprets kernels
	blas=$(products)
	if [ -n "$blas" ]; then
		step "cublas, attributes" 60 "$tests/cublas.test" -test.run '^(TestAttributes|TestMisuse)$' -test.v -products "$blas"
		step "cublas, products" 0 apart
	else
		skip "cublas, attributes" "no cuBLASLt"
		skip "cublas, products" "no cuBLASLt"
	fi
	step "cluster, losses" 0 losses $steps 2
	step "cluster, peers" 0 losses $((steps / 2)) 3
	step "cluster, worker killed" 0 killed
	torch
	if [ "$library" != "$standin" ]; then
		step "driver, stand-in" 60 "$tests/driver.test" -test.run '^TestSuite$' -test.v -library "$standin"
		step "memory, stand-in" 120 "$tests/memory.test" -test.run '^(TestCopies|TestTry|TestHandOver)$' -test.v -library "$standin"
	fi
}

# engine runs the suite of engines, kernels beside the interpreter and many values beside
# the cores, and NVIDIA's sanitizer on kernels of all kinds. The stand-in, which interprets
# kernels, does less of it.
engine() {
	local suites='kernels|unfused, another order' values=1000000 short= tool
	[ "$library" != "$standin" ] || suites=kernels values=3000 short=-test.short
	suites=${suites// /_}
	show='^(---|PASS)|steps on the host' step "engine, suite" 300 "$tests/cuda.test" -test.run "^TestConformance\$/^($suites)\$" -test.v -library "$library"
	show='^(---|PASS)' step "engine, kinds" 120 "$tests/cuda.test" -test.run '^TestKinds$' -test.v -library "$library"
	show='units apart' step "engine, beside" 120 "$tests/cuda.test" -test.run '^TestBeside$' -test.v $short -library "$library" -beside "$standin"
	show='units apart' step "engine, values" 120 "$tests/cuda.test" -test.run '^TestValues$' -test.v -library "$library" -values $values
	for tool in memcheck racecheck synccheck initcheck; do
		if [ "$library" = "$standin" ] || ! command -v compute-sanitizer >/dev/null; then
			skip "engine, sanitizer" "not installed, or no GPU"
			break
		fi
		show='ERROR SUMMARY|^PASS' step "engine, $tool" 60 compute-sanitizer --tool $tool --error-exitcode 9 "$tests/cuda.test" -test.run '^TestKinds$' -library "$library"
	done
}

# differs lists the codes and values in which the library and the suite differ, and says
# how many: differs.txt is what the stand-in has to learn.
differs() {
	grep -hoE '[a-z]+\.go:[0-9]+: .*' "$out/log.txt" | sort -u >"$out/differs.txt"
	echo "$(wc -l <"$out/differs.txt") differ"
	[ ! -s "$out/differs.txt" ]
}

# scale prints what the work of fast is divided by.
scale() {
	if [ "$library" = "$standin" ]; then echo "${SCALE:-100000}"; else echo "${SCALE:-1}"; fi
}

# gpu PART SECONDS [ARGUMENT...] runs a part of the benchmark of GPUs, by the scale.
gpu() {
	local part=$1 limit=$2 rounds=3
	shift 2
	[ "$library" != "$standin" ] || rounds=1
	timeout -k 5 "$limit" ./ringside bench gpu --json --model "$part" --scale "$(scale)" --rounds $rounds "$@"
}

# figures prints the names and figures of lines of JSON that bench printed.
figures() { sed -nE 's/.*"(case|bar)":"([^"]*)".*"(median|value)":([0-9.e+-]+).*/\2 \4/p'; }

# loading times for how long the first steps of models wait for their kernels: what is
# generated here, and what the driver loads, without what it kept of earlier runs.
loading() {
	local all
	all=$(CUDA_CACHE_DISABLE=1 gpu kernels 120) || { printf '%s\n' "$all"; return 1; }
	figures <<<"$all" | awk '
		{ name = $1; sub(/,$/, "", name); v[name, $2] = $NF; if (!seen[name]++) names[++n] = name }
		END { for (i = 1; i <= n; i++) { k = names[i]; printf "%s: %d kernels, generated in %.1f ms, loaded in %.1f ms\n", k, v[k, "kernels"], v[k, "generated"], v[k, "loaded"] } exit n == 0 }'
}

# apart compares products by the library with those by the kernels.
apart() {
	local all
	all=$(gpu products 120) || { printf '%s\n' "$all"; return 1; }
	figures <<<"$all"
	grep -q '"gpu_products_apart".*"ok":true' <<<"$all" && grep -q '"case":"products by the library".*"median":[1-9]' <<<"$all"
}

# fast measures, and PyTorch the same in turn, where it is: three rounds while there is
# time, one over the stand-in, beside which PyTorch runs on the cores. Figures are in
# log.txt, fast.json and fast.torch.
fast() {
	: >"$out/fast.json"
	: >"$out/fast.torch"
	local part round name rounds=3 python begin=$SECONDS TORCH_DEVICE=$TORCH_DEVICE
	if [ "$library" = "$standin" ]; then rounds=1 TORCH_DEVICE=cpu; fi
	python=$(with_torch)
	for ((round = 1; round <= rounds && SECONDS - begin < 240; round++)); do
		for part in latency bandwidth products attention training; do
			name=$part
			[ $round = 1 ] || name="$part $round"
			step "fast, $name" 0 measured $part
			if [ -n "$python" ]; then
				step "fast, torch $name" 0 theirs $part $round
			elif [ $round = 1 ]; then
				skip "fast, torch $name" "no PyTorch with a GPU"
			fi
		done
	done
	step "fast, hand-off" 60 "$tests/memory.test" latency "$library" "$(hand_overs)"
	step "fast, beside torch" 5 beside
	local ncu=${NCU:-}
	[ "$library" = "$standin" ] || ncu=${ncu:-$(command -v ncu)}
	if [ -n "$ncu" ]; then
		step "fast, ncu" 60 "$ncu" --clock-control none --kernel-name "regex:^($(furthest))\$" --launch-count 20 \
			./ringside bench gpu --model bandwidth --scale "$(scale)" --rounds 1
	else
		skip "fast, ncu" "not installed, or no GPU"
	fi
}

# measured PART runs a part and keeps its figures: of training, those of two models, and
# over the stand-in of one.
measured() {
	local all rc=0 model models=qwen_t64
	[ "$library" = "$standin" ] || models="qwen_t64 qwen_t128"
	[ "$1" = training ] || models=none
	for model in $models; do
		if [ $model = none ]; then all=$(gpu "$1" 120); else all=$(gpu "$1" 120 --training $model); fi || rc=$?
		printf '%s\n' "$all" | tee -a "$out/fast.json" | figures
	done
	return $rc
}

# theirs PART ROUND runs a part in PyTorch and keeps its figures. In the first round it
# also compiles the models.
theirs() {
	local all rc compile=0
	[ "$2" != 1 ] || compile=1
	all=$(TORCH_DEVICE=$TORCH_DEVICE TORCH_COMPILE=$compile timeout -k 5 150 "$python" ./torch_peer.py fast "$1" "$(scale)")
	rc=$?
	printf '%s\n' "$all" | tee -a "$out/fast.torch"
	return $rc
}

# beside prints the medians of our figures over those of torch that have the same names,
# or the same and a way behind them.
beside() {
	awk '
		function median(text, a, n, i, j, v) {
			n = split(text, a, " ")
			for (i = 2; i <= n; i++) { v = a[i] + 0; for (j = i - 1; j > 0 && a[j] + 0 > v; j--) a[j + 1] = a[j]; a[j + 1] = v }
			return n % 2 ? a[(n + 1) / 2] : (a[n / 2] + a[n / 2 + 1]) / 2
		}
		side == "theirs" {
			if ($1 != "torch" || NF < 4) next
			v = $(NF - 1); $1 = $NF = $(NF - 1) = ""; gsub(/^ +| +$/, "")
			if (!($0 in theirs)) names[++t] = $0
			theirs[$0] = theirs[$0] " " v; next
		}
		match($0, /"case":"[^"]*"/) {
			name = substr($0, RSTART + 8, RLENGTH - 9); match($0, /"median":[0-9.e+-]+/); v = substr($0, RSTART + 9, RLENGTH - 9)
			if (!(name in ours)) cases[++n] = name
			ours[name] = ours[name] " " v
		}
		END {
			for (i = 1; i <= n; i++) {
				key = cases[i]; sub(/ by the library$/, "", key)
				for (k = 1; k <= t; k++) {
					x = median(ours[cases[i]]); y = median(theirs[names[k]])
					if ((names[k] == key || index(names[k], key ", ") == 1) && y > 0) { m++; printf "%s: %.3g, torch%s %.3g, ratio %.3f\n", cases[i], x, substr(names[k], length(key) + 1), y, x / y }
				}
			}
			printf "%d figures, %d pairs with torch\n", n, m; exit n == 0
		}' side=theirs "$out/fast.torch" side=ours "$out/fast.json"
}

# furthest prints the kernels of the five passes that are furthest from the device's own
# copy, with | between.
furthest() {
	figures <"$out/fast.json" | awk '
		{ v = $NF; sub(/ [^ ]*$/, "") }
		/^(add|chain of 4|AdamW)$/ { kernel[$0] = "tiles" }
		/^softmax$/ { kernel[$0] = "softmax_f32" }
		/^layer norm$/ { kernel[$0] = "layernorm_f32" }
		/^RMS norm$/ { kernel[$0] = "rmsnorm_f32" }
		/^sum$/ { kernel[$0] = "sum_f32" }
		$0 in kernel { last[$0] = v }
		END { for (pass in last) print last[pass], kernel[pass] }' | sort -g | awk 'NR <= 5 && !seen[$2]++ { printf "%s%s", bar, $2; bar = "|" }'
}

# train trains a language model in batches of two, in $dir; its arguments say where.
train() {
	[ -e "$dir/text" ] || yes 'the quick brown fox jumps over the lazy dog;' | head -n 30 >"$dir/text"
	XDG_RUNTIME_DIR=$dir timeout -k 5 240 ./ringside train --data "$dir/text" --workers "${workers:-2}" --batch "${workers:-2}" --seed 1 --sample=-1 --loss-every 1 --json "$@"
}

# losses STEPS WORKERS has so many workers on one GPU train, and on the cores, and
# compares. Those on the GPU are processes that move values from GPU to GPU, if they can.
losses() {
	local dir device workers=$2
	dir=$(mktemp -d) || return 1
	for device in cuda:0 cpu; do
		train --device $device --steps "$1" >"$dir/$device.json" || { rm -rf "$dir"; return 1; }
		grep -oE '"step":[0-9]+,"loss":[0-9.e+-]+' "$dir/$device.json" | tr ':,' '  ' >"$dir/$device"
	done
	paste "$dir/cuda:0" "$dir/cpu" | awk -v steps="$1" '
		{ d = $4 - $8; if (d < 0) d = -d; if (d > most) most = d; print "step", $2, "loss", $4, "on the GPU,", $8, "on the cores" }
		END { printf "%d losses of %d, apart by at most %g, want 0.001\n", NR, steps, most; exit !(NR == steps && most <= 0.001) }'
	set -- $?
	rm -rf "$dir"
	return "$1"
}

# killed kills one of two workers on one GPU, whose client must say which, and ends the
# cluster.
killed() {
	local dir up client pid rc=1 i
	dir=$(mktemp -d) || return 1
	# In the foreground timeout passes the interrupt on once: a second one ends up at once.
	XDG_RUNTIME_DIR=$dir timeout --foreground -k 5 240 ./ringside up --device cuda:0 -n 2 --listen "$dir/d" >"$dir/up" 2>&1 &
	up=$!
	for ((i = 0; i < 300; i++)); do
		if grep -q '^ready' "$dir/up" || ! kill -0 $up; then break; fi
		sleep 0.1
	done
	pid=$(sed -n 's/^worker w0: process \([0-9]*\).*/\1/p' "$dir/up")
	: >"$dir/client"
	train --connect "$dir/d" --steps 1000000 >"$dir/out" 2>"$dir/client" &
	client=$!
	for ((i = 0; i < 900; i++)); do
		if grep -q 'step 1/' "$dir/client" || ! kill -0 $client; then break; fi
		sleep 0.1
	done
	if [ -n "$pid" ] && kill -9 "$pid"; then
		wait $client
		grep "pid $pid" "$dir/client" && rc=0
	fi
	kill -INT $up
	wait $up || rc=1
	[ $rc = 0 ] || cat "$dir/up" "$dir/client"
	rm -rf "$dir"
	return $rc
}

# with_torch prints a Python that has PyTorch and, if it is to have one, a GPU.
with_torch() {
	local p
	for p in python3 /usr/bin/python3; do
		if timeout 30 "$p" -c 'import numpy, torch, sys; sys.exit(0 if sys.argv[1] == "cpu" or torch.cuda.is_available() else 1)' "$TORCH_DEVICE" >/dev/null 2>&1; then
			echo "$p"
			return
		fi
	done
}

# torch times PyTorch's hand-off and uploads, where there is PyTorch and a GPU.
torch() {
	local python
	python=$(with_torch)
	if [ -n "$python" ]; then
		step "torch, latency" 60 "$python" ./torch_peer.py
	else
		skip "torch, latency" "no PyTorch with a GPU"
	fi
}

for stage in "${@:-facts right}"; do
	for name in $stage; do
		case $name in
		facts | right | fast) $name ;;
		*)
			echo "run.sh: stage $name, want facts, right or fast" >&2
			exit 2
			;;
		esac
	done
done
cat "$out/report.txt"
echo "report.txt, report.json and log.txt are in $out"
exit $failed
