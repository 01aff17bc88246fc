#!/usr/bin/env bash
# All that needs a GPU to be measured, in under 8 minutes on one machine:
#
#     benchmarks/gpu.sh                        writes gpu-results/PART.json and summary.json
#     benchmarks/gpu.sh --dry-run              each part on the CPU with a tiny model
#
# Options: --list, --check, --only PART[,PART…], --output DIR, --python PYTHON (what runs the parts).
#
# Nothing is downloaded or installed, and no model is needed: weights are random. The machine needs
# an NVIDIA driver and a Python 3.11 with, beside what this checkout's pyproject.toml files name,
#
#     torch (CUDA), transformers, vllm, openai                              every part but the first
#     deepspeed, ray and openrlhf at the versions of constraints-cluster.txt (openrlhf with
#     --no-deps), ninja, a C++ compiler and nvcc (DeepSpeed compiles AdamW)            the first part
#
# WHALE itself is taken from the checkout. flash-attn is not needed; flash-linear-attention and
# causal-conv1d are used where they are there (step.json says so). What lacks is said before
# anything is run. A part that fails, lacks something or takes too long is told in summary.json,
# the others go on, and the script exits with 1 at the end (2: wrong arguments). In a dry run, what
# lacks packages is left out and said so, and is no failure.
set -u

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
PARTS=(gradients engines step rollouts)
# Seconds each part may take; together under 8 minutes.
declare -A LIMIT=([gradients]=140 [engines]=100 [step]=80 [rollouts]=150)
declare -A ABOUT=(
    [gradients]="the trainers' gradients agree: torch; openrlhf with ZeRO 1, 2, 3"
    [engines]="the engines agree on tokens and log-probabilities: transformers, vllm, openai"
    [step]="memory and tokens/s of an RSFT step, Qwen3.5-2B's shape: whole and LoRA"
    [rollouts]="rollouts/s of vLLM, and the latency of set_policy"
)
COMMON="attrs cattrs numpy safetensors torch transformers"
declare -A NEEDS=(
    [gradients]="$COMMON deepspeed ray openrlhf vllm"
    [engines]="$COMMON vllm openai httpx2"
    [step]="$COMMON"
    [rollouts]="$COMMON vllm httpx2"
)
DRY_LIMIT=900 # a CPU may be slow, or busy
DRY=0 CHECK=0 ONLY="" OUTPUT=gpu-results PYTHON=python3

refuse() {
    echo "error: $1" >&2
    exit 2
}

list() {
    for part in "${PARTS[@]}"; do
        printf '%-10s %3d s  %s\n' "$part" "${LIMIT[$part]}" "${ABOUT[$part]}"
    done
}

while [ $# -gt 0 ]; do
    case $1 in
        --dry-run) DRY=1 ;;
        --check) CHECK=1 ;;
        --list) list && exit 0 ;;
        -h | --help) sed -n '2,/^set -u/{/^set -u/d;s/^# \{0,1\}//;p}' "$0" && exit 0 ;;
        --only | --output | --python)
            [ $# -gt 1 ] || refuse "$1 needs a value"
            case $1 in
                --only) ONLY=$2 ;;
                --output) OUTPUT=$2 ;;
                --python) PYTHON=$2 ;;
            esac
            shift
            ;;
        *) refuse "$1: no such option; see --help" ;;
    esac
    shift
done
chosen=()
for part in ${ONLY//,/ }; do
    [ -n "${LIMIT[$part]:-}" ] || refuse "--only $part: no such part; there are ${PARTS[*]}"
    chosen+=("$part")
done
[ ${#chosen[@]} -gt 0 ] || chosen=("${PARTS[@]}")
command -v "$PYTHON" >/dev/null || refuse "--python $PYTHON: no such program"

for folder in "$ROOT"/*/src "$ROOT"/*/*/src; do
    PYTHONPATH=$folder${PYTHONPATH:+:$PYTHONPATH}
done
export PYTHONPATH

# Prints the modules that a part needs and this Python lacks.
missing_modules() {
    "$PYTHON" -c '
import importlib.util as found, sys
specs = {name: found.find_spec(name) for name in sys.argv[1:]}
print(*[name for name, spec in specs.items() if spec is None or spec.origin is None])
' "$@"
}

gpus() {
    "$PYTHON" -c 'import torch; print(torch.cuda.device_count())' 2>/dev/null || echo 0
}

# Prints what a part lacks here.
missing() {
    local lacks
    # shellcheck disable=SC2086 # words are meant
    lacks=$(missing_modules ${NEEDS[$1]})
    if [ "$DRY" = 0 ]; then
        [ "$GPUS" -gt 0 ] || lacks="$lacks a-GPU-that-torch-sees"
        if [ "$1" = gradients ]; then
            for program in nvcc ninja c++; do
                command -v "$program" >/dev/null || lacks="$lacks $program"
            done
        fi
    fi
    echo "$lacks" | xargs
}

# Runs a part; its measurement goes into the file $2.
run_part() {
    local part=$1 file=$2 cluster=$ROOT/tests/cluster here=$ROOT/benchmarks
    local ranks=1
    if [ "$DRY" = 1 ]; then
        case $part in
            gradients) set -- "$cluster/measure_gradients.py" --models llama --zero 2 --ranks 1 ;;
            engines) set -- "$cluster/measure_engines.py" --models tiny-random --dtypes float32 \
                --prompts 4 --tokens 8 ;;
            step) set -- "$here/gpu_step.py" --shape tiny --device cpu --rows 2 --tokens 32 ;;
            rollouts) set -- "$here/gpu_rollouts.py" --shape llama --device cpu --prompts 2 \
                --group 2 --length 40 --tokens 8 ;;
        esac
    else
        [ "$GPUS" -lt 2 ] || ranks="1 2"
        [ "$GPUS" -lt 3 ] || ranks="1 2 $GPUS"
        # shellcheck disable=SC2086
        case $part in
            gradients) set -- "$cluster/measure_gradients.py" --device cuda --ranks $ranks ;;
            engines) set -- "$cluster/measure_engines.py" --device cuda --models tiny-random ;;
            step) set -- "$here/gpu_step.py" ;;
            rollouts) set -- "$here/gpu_rollouts.py" ;;
        esac
    fi
    local limit=${LIMIT[$part]}
    [ "$DRY" = 0 ] || limit=$DRY_LIMIT
    timeout --kill-after=10 "$limit" "$PYTHON" "$@" --output "$file"
}

GPUS=0
[ "$DRY" = 1 ] || GPUS=$(gpus)
declare -A lacks_of=()
lacking=0
for part in "${chosen[@]}"; do
    lacks_of[$part]=$(missing "$part")
    [ -n "${lacks_of[$part]}" ] || continue
    lacking=1
    echo "$part cannot run here; it lacks: ${lacks_of[$part]}"
done
if [ "$CHECK" = 1 ]; then
    [ $lacking = 0 ] && echo "all that is needed is there"
    exit $lacking
fi

mkdir -p "$OUTPUT" || refuse "--output $OUTPUT: cannot be made"
OUTPUT=$(cd "$OUTPUT" && pwd)
failed=0 lines=()
for part in "${chosen[@]}"; do
    begun=$SECONDS code=0 status=measured
    if [ -n "${lacks_of[$part]}" ]; then
        status="lacks ${lacks_of[$part]}"
        [ "$DRY" = 1 ] || failed=1
    else
        echo "== $part: ${ABOUT[$part]}"
        rm -f "$OUTPUT/$part.json"
        run_part "$part" "$OUTPUT/$part.json" >"$OUTPUT/$part.log" 2>&1 || code=$?
        case $code in
            0) ;;
            124 | 137) status="took too long" ;;
            *) status="failed with exit code $code" ;;
        esac
        [ "$code" = 0 ] || failed=1
        [ "$code" = 0 ] || tail -n 5 "$OUTPUT/$part.log"
    fi
    echo "== $part: $status, $((SECONDS - begun)) s"
    lines+=("  {\"part\": \"$part\", \"status\": \"$status\", \"seconds\": $((SECONDS - begun))}")
done
{
    printf '{\n "dry_run": %s,\n "gpus": %d,\n "parts": [\n' "$([ $DRY = 1 ] && echo true || echo false)" "$GPUS"
    (IFS=$'\n' && echo "${lines[*]}" | sed '$!s/$/,/')
    printf ' ]\n}\n'
} >"$OUTPUT/summary.json"
echo "results are in $OUTPUT"
exit $failed
