#!/usr/bin/env bash
# Raw text -> the folder of a small Chinese model: corpus of characters, static vectors, training, context layer,
# aliases of Traditional characters, compact storage.
# Run the same command again after any interruption: each step resumes, and finished steps are skipped.
#
#   recipes/zh-small/run.sh WORK VALIDATION TEXT...
#
# WORK        folder for all outputs; the model is WORK/zh-small
# VALIDATION  raw text that is not part of TEXT
# TEXT        files .txt, .jsonl or .parquet, compressed or not, in Simplified Chinese
#
# The last step needs the package opencc (pip install opencc).
# Environment: VOCABULARY_SIZE, VECTOR_DIM, SETTINGS (a TOML file), TRAIN_OPTIONS (more options of elmo train), ELMO
# (the command), PYTHON (the interpreter that has opencc). On two cores without a GPU, two processes are fastest:
# TRAIN="torchrun --nproc-per-node 2 -m elmo train" TRAIN_OPTIONS="--set num_rows=256 --set average_every=20".
set -euo pipefail

if [ $# -lt 3 ]; then
  echo "usage: $0 WORK VALIDATION TEXT..." >&2
  exit 2
fi
work=$1 validation=$2
shift 2
here=$(dirname "$0")
elmo=${ELMO:-elmo}
train=${TRAIN:-$elmo train}
settings=${SETTINGS:-$here/settings.toml}
mkdir -p "$work"

echo "== corpus: $work/corpus"
$elmo prepare "$@" --output "$work/corpus" --characters Han --language zh --vocabulary-size "${VOCABULARY_SIZE:-12000}"

echo "== static vectors: $work/vectors.txt"
if [ ! -e "$work/vectors.txt" ] || [ "$work/corpus/manifest.json" -nt "$work/vectors.txt" ]; then
  $elmo static "$work/corpus" --output "$work/vectors.txt" --words "${VOCABULARY_SIZE:-12000}" \
    --dim "${VECTOR_DIM:-256}" --window 8 --force
fi

echo "== training: $work/run"
if [ -e "$work/run/run.json" ]; then
  $train --resume "$work/run"
else
  # shellcheck disable=SC2086  # options are separated by spaces
  $train "$work/corpus" --config "$settings" --validation "$validation" --output "$work/run" ${TRAIN_OPTIONS:-}
fi

echo "== context layer and compact storage: $work/zh-small"
if [ ! -e "$work/zh-small/config.json" ] || [ "$work/run/checkpoints" -nt "$work/zh-small" ]; then
  $elmo fuse "$work/run" "$work/corpus" --vectors "$work/vectors.txt" --words "${VOCABULARY_SIZE:-12000}" \
    --window 24 --focus 3 --share 1.5 --frequency 3e-4 --storage compact --output "$work/zh-small" --force
fi

echo "== sentence head"
if [ ! -e "$work/zh-small/sentence.safetensors" ]; then
  ${PYTHON:-python} "$here/sentence_head.py" "$work/zh-small" "$work/corpus" "$work/zh-small"
fi

echo "== Traditional characters: $work/zh-small/aliases.txt"
${PYTHON:-python} "$here/aliases.py" "$work/zh-small"

echo "== perplexity on $validation"
$elmo evaluate "$validation" --model "$work/zh-small" --split sentences
