// Group the model's tokens into words for the page. The model tokenizes Chinese into characters; the browser segments
// them into words, and a visitor may mark any other range of characters.

const HAN = /^\p{Script=Han}$/u;
const segmenter = "Segmenter" in Intl ? new Intl.Segmenter("zh", { granularity: "word" }) : null;

// Return the words of a sentence in groups { start, end, text }; each of the spans [start, end] becomes one group.
export function groupWords(text, words, spans) {
  const begins = words.map((word, index) => index === 0 || !continues(text, words, index));
  for (const [start, end] of spans) {
    for (let index = start; index < end; index += 1) begins[index] = index === start;
    if (end < words.length) begins[end] = true;
  }
  const starts = words.map((_, index) => index).filter((index) => begins[index]);
  return starts.map((start, place) => {
    const end = starts[place + 1] ?? words.length;
    return { start, end, text: text.slice(words[start].start, words[end - 1].end) };
  });
}

let cut = { text: null, starts: new Set() };

function continues(text, words, index) {
  const [before, word] = [words[index - 1], words[index]];
  if (before.end !== word.start || !HAN.test(word.text) || !HAN.test(before.text) || !segmenter) return false;
  if (cut.text !== text) cut = { text, starts: new Set([...segmenter.segment(text)].map((segment) => segment.index)) };
  return !cut.starts.has(word.start);
}

// Return the text of a sentence with one [marked] word, and the word's character range; null unless one is marked.
export function readMarked(sentence) {
  const marks = [...sentence.matchAll(/\[([^[\]]+)\]/g)];
  if (marks.length !== 1) return null;
  const [mark] = marks;
  const text = sentence.slice(0, mark.index) + mark[1] + sentence.slice(mark.index + mark[0].length);
  return { text, start: mark.index, end: mark.index + mark[1].length };
}
