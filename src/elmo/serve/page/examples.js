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
  { name: "苹果", sentences: ["他买了一部新的苹果手机", "我每天吃一个苹果"], word: "苹果" },
  { name: "杜鹃", sentences: ["山坡上的杜鹃开花了", "树林里的杜鹃叫了一声"], word: "杜鹃" },
  { name: "出口", sentences: ["地铁站的出口在商场旁边", "去年汽车出口增长很快"], word: "出口" },
  { name: "花", sentences: ["院子里的花开了", "买房子花了很多钱"], word: "花" },
];
