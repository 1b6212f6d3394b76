// Sentences to begin with, in the language of the opened model: two words to compare, and maps of senses.

let sets = null;

export async function loadExamples() {
  const answer = await fetch(new URL("examples.json", import.meta.url));
  sets = await answer.json();
}

export function examplesFor(model) {
  return sets[model?.card.language?.startsWith("zh") ? "zh" : "en"];
}
