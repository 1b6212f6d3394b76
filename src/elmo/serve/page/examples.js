// Sentences to begin with: the same word in two meanings.

export const EXAMPLES = [
  { name: "bank", sentences: ["I went to the bank to deposit money", "I sat by the bank of the river"], word: "bank" },
  {
    name: "play",
    sentences: ["He made a spectacular play on the ground ball", "She signed to do a Broadway play in the spring"],
    word: "play",
  },
  { name: "light", sentences: ["The light of the sun is warm", "The box was very light and easy to carry"], word: "light" },
  { name: "season", sentences: ["He scored ten goals in his first season", "Spring is the season of rain"], word: "season" },
  { name: "right", sentences: ["Turn right after the church", "The answer was right"], word: "right" },
  { name: "杜鹃", sentences: ["山上的杜鹃开了花", "林中的杜鹃叫了一声"], word: "杜" },
  { name: "意思", sentences: ["这是什么意思", "这本书很有意思"], word: "意" },
];
