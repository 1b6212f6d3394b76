// Example sentences in the language of the model: pairs of words to compare, and maps of senses.

let sets = null;

export async function loadExamples() {
  const response = await fetch(new URL("examples.json", import.meta.url));
  sets = await response.json();
}

export function examplesFor(model) {
  return sets[model?.card.language?.startsWith("zh") ? "zh" : "en"];
}
