/** Limits on what a grammar costs, as grammars come from clients. */
export const grammarLimits = {
  /** Characters of the text. */
  characters: 200_000,
  /** Groups inside each other. */
  depth: 100,
  /** llama.cpp's `MAX_REPETITION_THRESHOLD`, of rules that one repetition makes. */
  repetitions: 2000,
  /** Elements of all rules once repetitions are written out. */
  elements: 120_000,
  /** Elements that repetitions are of, together: each copies its own. */
  copied: 2_000_000,
  /** Readings of a text at one point. */
  readings: 1000,
  /** Steps from one character to what may follow it. */
  advanceSteps: 20_000,
  /** Characters compared with elements to find the tokens that may come next… */
  comparisons: 3_000_000,
  /** … plus this many for each byte of the vocabulary. */
  comparisonsPerByte: 5,
} as const
