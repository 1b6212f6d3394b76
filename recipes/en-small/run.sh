#!/usr/bin/env bash
# Raw text -> the folder of a small English model: corpus, static vectors, training, context layer, compact storage.
# Run the same command again after any interruption: each step resumes, and finished steps are skipped.
#
#   recipes/en-small/run.sh WORK VALIDATION TEXT...
#
# WORK        folder for all outputs; the model is WORK/en-small
# VALIDATION  raw text that is not part of TEXT
# TEXT        files .txt, .jsonl or .parquet, compressed or not
#
# Environment: TEACHER (a Hugging Face encoder, as a folder or a name on the Hub: its vectors of single words are
# combined with the static vectors, and its word and sentence vectors are distilled in the last 40% of the run; extra
# distill), VOCABULARY_SIZE, VECTOR_DIM, SETTINGS (a TOML file), TRAIN_OPTIONS (more options of elmo train,
# such as "--set teacher.corpus=FOLDER"), ELMO (the command; with several processes TRAIN="torchrun
# --nproc-per-node 2 -m elmo train").
source "$(dirname "$0")/../steps.sh"

# bash before 4.4 treats an empty array as an unset variable, hence ${name[@]+...} below.
static_options=() train_options=()
if [ -n "${TEACHER:-}" ]; then
  static_options=(--teacher "$TEACHER")
  train_options=(
    --teacher "$TEACHER" --teacher-words 2 --teacher-sentences 2.5 --set teacher.begin=0.6
    --set "teacher.cache=$work/teacher" --set optimizer.clip_norm=20
  )
fi

echo "== corpus: $work/corpus"
$elmo prepare "${texts[@]}" --output "$work/corpus" --vocabulary-size "${VOCABULARY_SIZE:-40000}"
make_static_vectors ${static_options[@]+"${static_options[@]}"}
train_model ${train_options[@]+"${train_options[@]}"}

echo "== context layer and compact storage: $work/en-small"
if [ ! -e "$work/en-small/config.json" ] || [ "$work/run/checkpoints" -nt "$work/en-small/config.json" ]; then
  rm -rf "$work/en-small"
  $elmo fuse "$work/run" "$work/corpus" --vectors "$work/vectors.txt" --storage compact --output "$work/en-small"
fi

echo "== perplexity on $validation"
$elmo evaluate "$validation" --model "$work/en-small" --split sentences
