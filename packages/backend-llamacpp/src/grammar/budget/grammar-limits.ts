/**
 * Limits on the cost of a grammar. llama.cpp expands, checks and follows grammars in native code that
 * cannot be interrupted, so the cost is computed beforehand.
 */
export const grammarLimits = {
  /** Characters of the text. */
  characters: 200_000,
  /** Groups inside each other: llama.cpp reads them recursively. */
  depth: 100,
  /** llama.cpp's `MAX_REPETITION_THRESHOLD`, of rules that one repetition makes. */
  repetitions: 2000,
  /** Elements of all rules (8 bytes each) once repetitions are written out; each request has a copy. */
  elements: 120_000,
  /** Elements that repetitions are of, together: each copies its own. */
  copied: 2_000_000,
  /** Rules that llama.cpp's search for left recursion enters, again for each way that leads to one. */
  recursionVisits: 2_000_000,
  /** Recursion depth of that search. */
  recursionDepth: 5000,
  /** Readings of a text at one point (`llama_grammar_stacks`). */
  readings: 1000,
  /** Comparisons made to copy a state: elements of its readings times elements of all rules. */
  copyComparisons: 100_000_000,
  /** Steps from one character to what may follow it. */
  advanceSteps: 20_000,
  /**
   * Comparisons before one draw where readings do not multiply: readings times tokens. 900 literals
   * and 32,000 tokens take 0.2 s where a literal begins.
   */
  plainComparisons: 30_000_000,
  /** Comparisons of characters before one draw otherwise, each about 10 ns… */
  comparisons: 10_000_000,
  /** … plus this many for each character of the vocabulary. */
  comparisonsPerCharacter: 10,
} as const
