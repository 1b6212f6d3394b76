# Arguments and the training step of recipes/*/run.sh, which source this file: WORK VALIDATION TEXT...
# Environment: ELMO (the command), TRAIN (the training command), SETTINGS (a TOML file), TRAIN_OPTIONS.
# shellcheck shell=bash
set -euo pipefail

if [ $# -lt 3 ]; then
  echo "usage: $0 WORK VALIDATION TEXT..." >&2
  exit 2
fi
work=$1 validation=$2
texts=("${@:3}")
elmo=${ELMO:-elmo}
settings=${SETTINGS:-$(dirname "$0")/settings.toml}
mkdir -p "$work"

# Write static vectors of the corpus, with more options of elmo static, unless they are newer than the corpus.
make_static_vectors() {
  echo "== static vectors: $work/vectors.txt"
  if [ ! -e "$work/vectors.txt" ] || [ "$work/corpus/manifest.json" -nt "$work/vectors.txt" ]; then
    $elmo static "$work/corpus" --output "$work/vectors.txt" --dim "${VECTOR_DIM:-256}" "$@"
  fi
}

# Start or resume training, with more options of elmo train.
train_model() {
  local train=${TRAIN:-$elmo train}
  echo "== training: $work/run"
  if [ -e "$work/run/run.json" ]; then
    $train --resume "$work/run"
  else
    # shellcheck disable=SC2086  # options are separated by spaces
    $train "$work/corpus" --config "$settings" --validation "$validation" --output "$work/run" "$@" ${TRAIN_OPTIONS:-}
  fi
}
