#!/usr/bin/env bash
# Train five Chinese tasks with and without a model, in the same network: means of three seeds.
#
#   recipes/zh-small/tasks.sh MODEL DATA WORK [TASK...]
#
# MODEL  the model, such as zh-small
# DATA   folder with pos, ner, sentiment, similarity and entailment, each with train, dev and test files
# WORK   folder for the results; an interrupted comparison resumes when the script runs again
# TASK   pos, ner, sentiment, similarity or entailment; default: all
#
# Environment: SEEDS (3), VARIANTS (baseline,learned), TASK_OPTIONS (more options of elmo task train, such as
# "--epochs 1 --set fit.fraction=0.02" for a trial), ELMO (the command). The network is the small one of
# benchmarks/tasks.py, the same with and without ELMo, with more epochs; a run takes one or two minutes on one core.
set -euo pipefail

if [ $# -lt 3 ]; then
  echo "usage: $0 MODEL DATA WORK [TASK...]" >&2
  exit 2
fi
model=$1 data=$2 work=$3
shift 3
elmo=${ELMO:-elmo}
variants=${VARIANTS:-baseline,learned}
mkdir -p "$work"

# compare NAME FAMILY SUFFIX OPTION...
compare() {
  local name=$1 family=$2 suffix=$3
  shift 3
  echo "== $name"
  # shellcheck disable=SC2086  # options are separated by spaces
  $elmo task train "$family" --model "$model" --compare --variants "$variants" --seeds "${SEEDS:-3}" \
    --train "$data/$name/train.$suffix" --dev "$data/$name/dev.$suffix" --test "$data/$name/test.$suffix" \
    --set network.dim=128 --set fit.linear_decay=true --set fit.learning_rate=0.0007 --set words.dropout=0.2 \
    --set network.dropout=0.3 --set elmo.dropout=0 --output "$work/$name" "$@" ${TASK_OPTIONS:-}
}

for name in "${@:-pos ner sentiment similarity entailment}"; do
  for task in $name; do
    case $task in
      # Words of several characters, one tag each.
      pos) compare pos pos conllu --epochs 10 --word-features learned,characters ;;
      ner)
        compare ner ner iob2 --text-column 2 --label-column 3 --epochs 20 --word-features learned,characters ;;
      # Long texts: a convolution instead of a BiLSTM.
      sentiment) compare sentiment sentiment csv --network cnn --epochs 8 ;;
      # Two columns of text and a score from 0 to 5, without a header.
      similarity)
        compare similarity similarity csv --column first=1 --column second=2 --label-column 3 --epochs 8 ;;
      entailment) compare entailment entailment json --epochs 4 ;;
      *) echo "There is no task $task; choose pos, ner, sentiment, similarity or entailment." >&2; exit 2 ;;
    esac
  done
done
